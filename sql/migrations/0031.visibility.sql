-- depends: 0030.private-words

-- With whom a root's sources are shared: the users of its bot, or one user alone. What one user owns must not become
-- everybody's by any way that a source comes to a root, so the table itself sees to it. A file that several roots have is
-- private if one of them is.
CREATE FUNCTION rag.follow_root() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(r.options ->> 'visibility', 'bot'), r.options ->> 'user'
    INTO NEW.scope_type, NEW.scope_user_id
    FROM rag.source_roots r
    WHERE r.id = NEW.root_id OR r.id IN (
        SELECT f.root_id FROM rag.source_files f
        WHERE f.knowledge_space_id = NEW.knowledge_space_id AND f.file_hash = NEW.file_hash)
    ORDER BY coalesce(r.options ->> 'visibility', 'bot') = 'user' DESC, r.id = NEW.root_id DESC, r.id
    LIMIT 1;
    RETURN NEW;
END $$;
CREATE TRIGGER knowledge_sources_root BEFORE INSERT OR UPDATE OF root_id ON rag.knowledge_sources
    FOR EACH ROW WHEN (NEW.root_id IS NOT NULL) EXECUTE FUNCTION rag.follow_root();

-- A change holds at once, for the words too: they are counted anew by the next ingest.
CREATE FUNCTION rag.lead_sources() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rag.knowledge_sources s SET root_id = s.root_id  -- follow it anew
    WHERE s.root_id = NEW.id OR s.knowledge_space_id = NEW.knowledge_space_id AND s.file_hash IN (
        SELECT f.file_hash FROM rag.source_files f WHERE f.root_id = NEW.id);
    UPDATE rag.index_state i SET counts_shared_only = false
    FROM rag.embedding_profiles p
    WHERE p.id = i.embedding_profile_id AND p.knowledge_space_id = NEW.knowledge_space_id;
    RETURN NULL;
END $$;
CREATE TRIGGER source_roots_visibility AFTER UPDATE OF options ON rag.source_roots
    FOR EACH ROW WHEN ((OLD.options -> 'visibility', OLD.options -> 'user')
                       IS DISTINCT FROM (NEW.options -> 'visibility', NEW.options -> 'user'))
    EXECUTE FUNCTION rag.lead_sources();
ALTER TABLE rag.source_roots ADD CONSTRAINT source_roots_visibility CHECK (
    (coalesce(options ->> 'visibility', 'bot') = 'user') = (coalesce(options ->> 'user', '') <> ''));

-- What all bots of a tenant share lies in a space of its own, of which a tenant has at most one.
CREATE UNIQUE INDEX knowledge_spaces_shared ON rag.knowledge_spaces (tenant_id) WHERE visibility_scope = 'tenant';

-- The bot whose space that is, for a scope of any of the tenant's bots.
CREATE FUNCTION rag.shared_bot() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = rag, public, pg_temp AS $$
    SELECT k.bot_id::text FROM rag.knowledge_spaces k
    WHERE k.tenant_id = rag.scope_tenant() AND rag.scope_bot() IS NOT NULL AND k.visibility_scope = 'tenant'
$$;
GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION rag.shared_bot FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.shared_bot TO rag_app;
ALTER FUNCTION rag.shared_bot OWNER TO rag_search;
REVOKE CREATE ON SCHEMA rag FROM rag_search;

-- A private root may find files that another root of the bot has already.
CREATE FUNCTION rag.lead_files() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH hidden AS (
        UPDATE rag.knowledge_sources s SET root_id = s.root_id
        FROM added a JOIN rag.source_roots r ON r.id = a.root_id AND r.options ->> 'visibility' = 'user'
        WHERE s.knowledge_space_id = a.knowledge_space_id AND s.file_hash = a.file_hash AND s.scope_type <> 'user'
        RETURNING s.knowledge_space_id
    )
    UPDATE rag.index_state i SET counts_shared_only = false
    FROM hidden h JOIN rag.embedding_profiles p ON p.knowledge_space_id = h.knowledge_space_id
    WHERE p.id = i.embedding_profile_id;
    RETURN NULL;
END $$;
CREATE TRIGGER source_files_visibility AFTER INSERT ON rag.source_files
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rag.lead_files();
