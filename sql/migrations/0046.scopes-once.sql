-- depends: 0043.signed-scopes
-- transactional: false

-- The scope is asked for once for a statement, and all of it at once. Asked for each row it would be verified each time,
-- 20 µs; and parts that were asked one by one could be of two scopes, since a statement may change its own settings
-- while it reads: who has the signature of one user would read on as another one.
--
-- A policy locks its table against readers, so this waits for a moment in which nobody reads, 20 ms at a time, and lets go
-- of each table before it turns to the next. It may be done twice.
DO $$
DECLARE
    own text := '(tenant_id, bot_id) = (SELECT rag.scope_tenant(), rag.scope_bot())';
    shared text := '(tenant_id, bot_id) = (SELECT rag.scope_tenant(), rag.shared_bot())';
    of_bot text := ' AND (scope_type = ''bot'' OR (tenant_id, bot_id, scope_user_id)
        = (SELECT rag.scope_tenant(), %s, rag.scope_user()))';
    of_source text := ' AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)';
    one record;
BEGIN
    FOR one IN
        SELECT t.name, p.policy,
               CASE p.policy WHEN 'app' THEN own ELSE shared END || CASE
                   WHEN t.name = 'knowledge_sources'
                   THEN format(of_bot, CASE p.policy WHEN 'app' THEN 'rag.scope_bot()' ELSE 'rag.shared_bot()' END)
                   WHEN t.name IN ('source_profiles', 'source_documents', 'knowledge_chunks', 'triples') THEN of_source
                   ELSE '' END AS condition
        FROM unnest(ARRAY[
            'embedding_profiles', 'floors', 'found_weights', 'knowledge_chunks', 'knowledge_sources',
            'knowledge_spaces', 'source_documents', 'source_profiles', 'triples', 'tuned_weights']) AS t (name)
        CROSS JOIN unnest(ARRAY['app', 'app_shared']) AS p (policy)
        UNION ALL SELECT 'corpus_changes', 'app', 'tenant_id = (SELECT rag.scope_tenant())'
    LOOP
        LOOP
            BEGIN
                PERFORM set_config('lock_timeout', '20ms', true);
                EXECUTE format('ALTER POLICY %I ON rag.%I USING (%s)', one.policy, one.name, one.condition);
                EXIT;
            EXCEPTION WHEN lock_not_available THEN
                PERFORM pg_sleep(0.2);
            END;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
