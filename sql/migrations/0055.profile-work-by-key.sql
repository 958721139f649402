-- depends: 0053.replica 0054.partition-owners
-- transactional: false

-- What a profile has of a source is looked up by its key, whatever the planner holds true: where the rows of a profile
-- have come since it last looked, it takes them for one, and compared each source with all of them.
--
-- Replacing a view locks it, so this waits for a moment in which nobody reads it, 20 ms at a time. It may be done twice.
DO $do$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            CREATE OR REPLACE VIEW rag.profile_work WITH (security_invoker = true) AS
            SELECT p.id AS embedding_profile_id, s.id AS source_id, s.tenant_id, s.bot_id, s.external_id, s.name,
                   s.content_type, s.locale, s.status, s.checksum, sp.checksum AS published_checksum,
                   CASE WHEN rag.embeds_media(p.options) THEN s.media END AS media,
                   CASE
                       WHEN NOT rag.is_publishable(s, p.options)
                           THEN CASE WHEN sp.source_id IS NOT NULL THEN 'gone' END
                       WHEN sp.source_id IS NULL AND s.status <> 'failed' THEN 'missing'
                       WHEN sp.source_id IS NULL THEN CASE WHEN EXISTS (
                           SELECT FROM rag.source_documents d WHERE d.source_id = s.id AND d.checksum = s.checksum)
                           THEN 'due' END
                       WHEN sp.next_try_at <= now() AND (sp.checksum = s.checksum OR s.failed_stage = 'publish')
                           THEN 'due'
                       WHEN sp.status = 'ready' AND sp.checksum = s.checksum AND (sp.duplicate_of IS NULL OR EXISTS (
                           SELECT FROM rag.source_profiles o JOIN rag.knowledge_sources os ON os.id = o.source_id
                           WHERE o.embedding_profile_id = p.id AND o.source_id = sp.duplicate_of AND o.status = 'ready'
                             AND o.checksum = sp.duplicate_checksum AND os.checksum = o.checksum
                             AND os.status NOT IN ('deleted', 'no_text'))) THEN NULL
                       WHEN s.status = 'failed' OR sp.status = 'failed' AND sp.checksum = s.checksum THEN 'failed'
                       WHEN sp.status = 'ready' AND sp.checksum <> s.checksum THEN 'missing'
                       ELSE 'due'
                   END AS work
            FROM rag.embedding_profiles p
            JOIN rag.knowledge_sources s ON s.knowledge_space_id = p.knowledge_space_id
            LEFT JOIN LATERAL (
                SELECT source_id, checksum, status, next_try_at, duplicate_of, duplicate_checksum
                FROM rag.source_profiles WHERE embedding_profile_id = p.id AND source_id = s.id OFFSET 0
            ) sp ON true;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $do$;
