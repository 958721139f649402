-- depends: 0026.embedding-times

-- When a version is tried again by itself that the profile could not publish, or not all of: one of its texts, or its
-- file, had no answer, or one that is no vector. Null where that waits for a change, or for somebody who asks for it.
ALTER TABLE rag.source_profiles ADD COLUMN next_try_at timestamptz;

-- As before, and what is to be tried again is due when its time has come.
CREATE OR REPLACE VIEW rag.profile_work WITH (security_invoker = true) AS
SELECT p.id AS embedding_profile_id, s.id AS source_id, s.tenant_id, s.bot_id, s.external_id, s.name, s.content_type,
       s.locale, s.status, s.checksum, sp.checksum AS published_checksum,
       CASE WHEN rag.embeds_media(p.options) THEN s.media END AS media,
       CASE
           WHEN NOT rag.is_publishable(s, p.options) THEN CASE WHEN sp.source_id IS NOT NULL THEN 'gone' END
           WHEN sp.source_id IS NULL AND s.status <> 'failed' THEN 'missing'
           WHEN sp.source_id IS NULL THEN CASE WHEN EXISTS (
               SELECT FROM rag.source_documents d WHERE d.source_id = s.id AND d.checksum = s.checksum) THEN 'due' END
           WHEN sp.next_try_at <= now() AND (sp.checksum = s.checksum OR s.failed_stage = 'publish') THEN 'due'
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
LEFT JOIN rag.source_profiles sp ON sp.embedding_profile_id = p.id AND sp.source_id = s.id;
