-- depends: 0011.media

-- What a profile still has to publish, said once for all who ask.

-- Whether a profile with these options embeds files as such.
CREATE FUNCTION rag.embeds_media(options jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce((options ->> 'multimodal')::boolean, false);

-- Whether a profile with these options publishes the source. One whose file cannot be read now still has the version
-- before; a picture without text is something to those who embed the picture.
CREATE FUNCTION rag.is_publishable(source rag.knowledge_sources, options jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (source).status IN ('queued', 'processing', 'ready', 'failed')
        OR (source).status = 'no_text' AND (source).media IS NOT NULL AND rag.embeds_media(options);

-- One row for each profile and source of a space. `work` is what the profile has to do about the source:
--   missing  publish it: without it the profile is not complete
--   due      publish it, though the profile is complete: the version before failed; or the page that it repeats is
--            gone or says something else now; or its file cannot be read, and there is the version before
--   failed   try again, on occasion: this version was tried
--   gone     take it away
-- and null where there is nothing to do. It runs under the policies of who asks.
CREATE VIEW rag.profile_work WITH (security_invoker = true) AS
SELECT p.id AS embedding_profile_id, s.id AS source_id, s.tenant_id, s.bot_id, s.external_id, s.name, s.content_type,
       s.locale, s.status, s.checksum, sp.checksum AS published_checksum,
       CASE WHEN rag.embeds_media(p.options) THEN s.media END AS media,
       CASE
           WHEN NOT rag.is_publishable(s, p.options) THEN CASE WHEN sp.source_id IS NOT NULL THEN 'gone' END
           WHEN sp.source_id IS NULL AND s.status <> 'failed' THEN 'missing'
           WHEN sp.source_id IS NULL THEN CASE WHEN EXISTS (
               SELECT FROM rag.source_documents d WHERE d.source_id = s.id AND d.checksum = s.checksum) THEN 'due' END
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
GRANT SELECT ON rag.profile_work TO rag_ingest;
