-- depends: 0055.profile-work-by-key

-- The roots that have a file are looked for among those of its space, and no more among all that there are: that was done
-- for each source that was written, so that each took longer with every tenant.
CREATE OR REPLACE FUNCTION rag.follow_root() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(r.options ->> 'visibility', 'bot'), r.options ->> 'user'
    INTO NEW.scope_type, NEW.scope_user_id
    FROM rag.source_roots r
    WHERE r.knowledge_space_id = NEW.knowledge_space_id AND (r.id = NEW.root_id OR EXISTS (
        SELECT FROM rag.source_files f WHERE f.root_id = r.id AND f.file_hash = NEW.file_hash))
    ORDER BY coalesce(r.options ->> 'visibility', 'bot') = 'user' DESC, r.id = NEW.root_id DESC, r.id
    LIMIT 1;
    RETURN NEW;
END $$;
