-- depends: 0041.changed-dates

-- Documents that an application hands over, each under a key of its own choosing; the next scan reads them as it reads
-- files. What a user pushes is that user's alone. One that was deleted or forgotten keeps its row and not its content.
CREATE TABLE rag.pushed_documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    user_id text CHECK (octet_length(user_id) BETWEEN 1 AND 1000),
    key text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 1000),
    name text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 1000),
    content_type text CHECK (octet_length(content_type) <= 200),
    content bytea CHECK (octet_length(content) <= 209715200),
    bytes int NOT NULL CHECK (bytes >= 0),  -- of the content, also where it is not kept any more
    checksum text NOT NULL,  -- of the content
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    pushed_at timestamptz NOT NULL,  -- another one for each version
    pushed_by text NOT NULL,
    read_at timestamptz,  -- pushed_at of the version that a scan has read
    deleted_at timestamptz,
    forgotten_at timestamptz,
    FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots (tenant_id, id),
    CHECK ((content IS NULL) = (deleted_at IS NOT NULL OR forgotten_at IS NOT NULL))
);
CREATE UNIQUE INDEX pushed_documents_key ON rag.pushed_documents (tenant_id, bot_id, user_id, key) NULLS NOT DISTINCT;

ALTER TABLE rag.pushed_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.pushed_documents FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.pushed_documents TO rag_ingest;
CREATE POLICY ingest ON rag.pushed_documents TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
-- A scope with a user has that user's documents, and a scope without one those of the bot: neither writes the other's.
GRANT SELECT, INSERT, UPDATE ON rag.pushed_documents TO rag_app;
CREATE POLICY app ON rag.pushed_documents TO rag_app
    -- All of the scope at once: a statement that changes it while it reads would read on as somebody else.
    USING ((tenant_id, bot_id, coalesce(user_id, ''))
           = (SELECT rag.scope_tenant(), rag.scope_bot(), coalesce(rag.scope_user(), '')))
    WITH CHECK (tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot()
                AND user_id IS NOT DISTINCT FROM rag.scope_user());
GRANT SELECT ON rag.pushed_documents TO rag_search;
CREATE POLICY search ON rag.pushed_documents FOR SELECT TO rag_search USING (true);

-- The root that pushed documents lie under, and the only one that an application may have remembered: it names no place
-- that anything could be read from. A part of an address is written as in a URL.
CREATE FUNCTION rag.pushed_root(of_user text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN of_user IS NULL THEN 'push://documents' ELSE 'push://user/' || (
        SELECT string_agg(CASE WHEN chr(b) ~ '[A-Za-z0-9_.~-]' AND b < 128 THEN chr(b)
                               ELSE '%' || upper(lpad(to_hex(b), 2, '0')) END, '' ORDER BY n)
        FROM (SELECT n, get_byte(convert_to(of_user, 'UTF8'), n) AS b
              FROM generate_series(0, octet_length(of_user) - 1) AS n) bytes) END;
CREATE FUNCTION rag.pushed_root_options(of_user text) RETURNS jsonb LANGUAGE sql IMMUTABLE
    -- Whoever deletes a document says so: no number of them is a fault.
    RETURN jsonb_build_object('max_loss_percent', 100)
        || CASE WHEN of_user IS NULL THEN '{}' ELSE jsonb_build_object('visibility', 'user', 'user', of_user) END;
GRANT INSERT (knowledge_space_id, tenant_id, bot_id, uri, options) ON rag.source_roots TO rag_app;

-- How many documents are kept for the bot of the scope, and how many bytes, whoever's they are; `but` is left out.
CREATE FUNCTION rag.pushed_size(but bigint) RETURNS TABLE (documents bigint, bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    SELECT count(*), coalesce(sum(p.bytes), 0)::bigint FROM rag.pushed_documents p
    WHERE p.tenant_id = rag.scope_tenant() AND p.bot_id = rag.scope_bot() AND p.content IS NOT NULL
      AND p.id IS DISTINCT FROM but
$$;

-- Keep a document under the scope, and say what came of it: 'pushed', 'unchanged', 'forgotten' (the same content was
-- forgotten, and stays so), 'documents' or 'bytes' (more than the bot may have of these), or 'unknown' (no such bot).
CREATE FUNCTION rag.push_document(
    of_key text, named text, of_type text, given bytea, described jsonb, version text, file bytea, actor text,
    most_documents bigint, most_bytes bigint
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    space uuid;
    before rag.pushed_documents;
    room record;
BEGIN
    SELECT k.id INTO space FROM rag.knowledge_spaces k
    WHERE k.tenant_id = rag.scope_tenant() AND k.bot_id = rag.scope_bot() ORDER BY k.id LIMIT 1;
    IF space IS NULL THEN
        RETURN 'unknown';
    END IF;
    -- One after the other for a bot: two together must not have more than each of them alone may.
    PERFORM pg_advisory_xact_lock(hashtextextended('rag.push ' || rag.scope_tenant() || '/' || rag.scope_bot(), 0));
    INSERT INTO rag.source_roots (knowledge_space_id, tenant_id, bot_id, uri, options)
    VALUES (space, rag.scope_tenant(), rag.scope_bot(), rag.pushed_root(rag.scope_user()),
            rag.pushed_root_options(rag.scope_user()))
    ON CONFLICT DO NOTHING;
    SELECT * INTO before FROM rag.pushed_documents p
    WHERE p.tenant_id = rag.scope_tenant() AND p.bot_id = rag.scope_bot()
      AND p.user_id IS NOT DISTINCT FROM rag.scope_user() AND p.key = of_key;
    IF before.checksum = version AND before.content IS NOT NULL
       AND (before.name, before.metadata) = (named, described) AND before.content_type IS NOT DISTINCT FROM of_type THEN
        RETURN 'unchanged';
    END IF;
    IF before.checksum = version AND before.forgotten_at IS NOT NULL AND EXISTS (
        SELECT FROM rag.knowledge_sources s
        WHERE s.knowledge_space_id = space AND s.file_hash = file AND s.status = 'forgotten') THEN
        RETURN 'forgotten';
    END IF;
    SELECT * INTO room FROM rag.pushed_size(before.id);
    IF room.documents >= most_documents THEN
        RETURN 'documents';
    ELSIF room.bytes + octet_length(given) > most_bytes THEN
        RETURN 'bytes';
    END IF;
    INSERT INTO rag.pushed_documents AS p (
        tenant_id, bot_id, user_id, key, name, content_type, content, bytes, checksum, metadata, pushed_at, pushed_by)
    VALUES (rag.scope_tenant(), rag.scope_bot(), rag.scope_user(), of_key, named, of_type, given, octet_length(given),
            version, described, clock_timestamp(), actor)
    ON CONFLICT (tenant_id, bot_id, user_id, key) DO UPDATE SET
        name = excluded.name, content_type = excluded.content_type, content = excluded.content, bytes = excluded.bytes,
        checksum = excluded.checksum, metadata = excluded.metadata, pushed_by = excluded.pushed_by,
        pushed_at = greatest(excluded.pushed_at, p.pushed_at + interval '1 microsecond'),
        deleted_at = NULL, forgotten_at = NULL;
    RETURN 'pushed';
END $$;

GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION rag.pushed_size, rag.push_document FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.pushed_size, rag.push_document TO rag_app;
ALTER FUNCTION rag.pushed_size OWNER TO rag_search;
REVOKE CREATE ON SCHEMA rag FROM rag_search;

-- Last, and 20 ms at a time: it locks the table against readers, and whoever comes after one that waits would wait too.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            CREATE POLICY app_push ON rag.source_roots FOR INSERT TO rag_app WITH CHECK (
                tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot() AND uri = rag.pushed_root(rag.scope_user())
                AND options = rag.pushed_root_options(rag.scope_user()));
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END $$;
