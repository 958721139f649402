-- depends: 0012.profile-work

-- Who did something is the person that the transaction names; the login of the database says only through which door.
ALTER TABLE rag.profile_events
    ALTER COLUMN actor SET DEFAULT coalesce(nullif(current_setting('rag.actor', true), ''), session_user);
