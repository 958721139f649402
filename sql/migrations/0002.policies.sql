-- depends: 0001.tables

-- Who may see what. The scope of a transaction is what it has put into rag.tenant, rag.bot and rag.user
-- with set_config(..., true). After the transaction such a setting is '' and before the first one it is
-- NULL; both mean "unset", and an unset scope matches no row.

CREATE FUNCTION rag.scope_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('rag.tenant', true), '');
CREATE FUNCTION rag.scope_bot() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('rag.bot', true), '');
CREATE FUNCTION rag.scope_user() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('rag.user', true), '');

-- Ingest works for one tenant at a time and sees the list of tenants. The app reads one bot of one tenant.
-- The search role reads everything, but nobody can log in as it or become it: it only owns functions.
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY[
        'tenants', 'bots', 'knowledge_spaces', 'profile_specs', 'embedding_profiles', 'source_roots',
        'source_files', 'knowledge_sources', 'source_documents', 'source_profiles', 'knowledge_chunks',
        'embedding_cache', 'lexeme_stats', 'index_state', 'profile_events'
    ] LOOP
        EXECUTE format('ALTER TABLE rag.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE rag.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON rag.%I TO rag_ingest', t);
        IF t NOT IN ('tenants', 'profile_specs') THEN
            EXECUTE format(
                'CREATE POLICY ingest ON rag.%I TO rag_ingest
                 USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant())', t);
        END IF;
    END LOOP;

    FOREACH t IN ARRAY ARRAY['knowledge_spaces', 'embedding_profiles', 'source_profiles'] LOOP
        EXECUTE format('GRANT SELECT ON rag.%I TO rag_app', t);
        EXECUTE format(
            'CREATE POLICY app ON rag.%I FOR SELECT TO rag_app
             USING (tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot())', t);
    END LOOP;

    FOREACH t IN ARRAY ARRAY[
        'knowledge_spaces', 'embedding_profiles', 'knowledge_sources', 'source_profiles',
        'knowledge_chunks', 'lexeme_stats', 'index_state'
    ] LOOP
        EXECUTE format('GRANT SELECT ON rag.%I TO rag_search', t);
        EXECUTE format('CREATE POLICY search ON rag.%I FOR SELECT TO rag_search USING (true)', t);
    END LOOP;
END $$;

CREATE POLICY ingest ON rag.tenants TO rag_ingest
    USING (true) WITH CHECK (id = rag.scope_tenant());
CREATE POLICY ingest_delete ON rag.tenants AS RESTRICTIVE FOR DELETE TO rag_ingest
    USING (id = rag.scope_tenant());
CREATE POLICY ingest_update ON rag.tenants AS RESTRICTIVE FOR UPDATE TO rag_ingest
    USING (id = rag.scope_tenant());

CREATE POLICY ingest ON rag.profile_specs TO rag_ingest USING (true) WITH CHECK (true);

GRANT SELECT ON rag.knowledge_sources, rag.source_documents, rag.knowledge_chunks TO rag_app;
CREATE POLICY app ON rag.knowledge_sources FOR SELECT TO rag_app USING (
    tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot()
    AND (scope_type = 'bot' OR scope_user_id = rag.scope_user())
);
-- Their sources are read under the policy above, so what is private to a user stays private here too.
CREATE POLICY app ON rag.source_documents FOR SELECT TO rag_app USING (
    tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot()
    AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
);
CREATE POLICY app ON rag.knowledge_chunks FOR SELECT TO rag_app USING (
    tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot()
    AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
);

-- What a person may look at without knowing the tables; it runs under the policies of who asks.
CREATE VIEW rag.source_overview WITH (security_invoker = true) AS
SELECT s.tenant_id, s.bot_id, s.id AS source_id, s.name, s.source_type, s.status, s.progress_percent,
       s.error_message, p.name AS profile, sp.status AS profile_status, sp.chunk_count,
       sp.checksum = s.checksum AS up_to_date, s.updated_at
FROM rag.knowledge_sources s
LEFT JOIN rag.source_profiles sp ON sp.source_id = s.id
LEFT JOIN rag.embedding_profiles p ON p.id = sp.embedding_profile_id;
GRANT SELECT ON rag.source_overview TO rag_ingest, rag_app;
