-- depends: 0043.signed-scopes
-- transactional: false

-- The tenant of the scope is asked for once for a statement, and not once for a row: where scopes are signed that takes
-- 20 µs. A policy locks its table against readers, so this waits for a moment in which nobody reads, 20 ms at a time, and
-- lets go of each table before it turns to the next. What is so already stays.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.polname, p.polrelid, regexp_replace(pg_get_expr(p.polqual, p.polrelid),
            '(?<!SELECT )(rag\.)?scope_tenant\(\)', '(SELECT rag.scope_tenant())', 'g') AS condition
        FROM pg_policy p
        WHERE p.polname IN ('app', 'app_shared') AND p.polrelid::regclass::text ~ ('^(rag\.)?(' ||
            'corpus_changes|embedding_profiles|floors|found_weights|knowledge_chunks|knowledge_sources|'
            'knowledge_spaces|source_documents|source_profiles|triples|tuned_weights)$')
        ORDER BY p.polrelid::regclass::text, p.polname
    LOOP
        LOOP
            BEGIN
                PERFORM set_config('lock_timeout', '20ms', true);
                EXECUTE format('ALTER POLICY %I ON %s USING (%s)', one.polname, one.polrelid::regclass, one.condition);
                EXIT;
            EXCEPTION WHEN lock_not_available THEN
                PERFORM pg_sleep(0.2);
            END;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
