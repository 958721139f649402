-- depends: 0020.refused-texts

-- Where a profile's vectors were made, where its specification leaves that to the environment: the address of the
-- server, or the files of a model in a folder. Null: nothing was embedded yet, or not since this is written down.
-- `last_error` is why the last run could not embed what waits, if it could not.
ALTER TABLE rag.embedding_profiles
    ADD COLUMN origin text,
    ADD COLUMN last_error text,
    ADD COLUMN last_error_at timestamptz;

-- What a profile is never changes; what is known of it does, but for its origin, which is written down once.
CREATE OR REPLACE FUNCTION rag.refuse_profile_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    known text[] := ARRAY['status', 'last_error', 'last_error_at']
        || CASE WHEN to_jsonb(OLD) ->> 'origin' IS NULL THEN ARRAY['origin'] ELSE '{}' END;
BEGIN
    IF TG_TABLE_NAME = 'profile_specs' OR to_jsonb(NEW) - known IS DISTINCT FROM to_jsonb(OLD) - known THEN
        RAISE EXCEPTION 'profile "%" is immutable: add a profile under another name instead', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
