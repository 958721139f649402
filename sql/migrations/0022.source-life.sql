-- depends: 0012.profile-work

-- What becomes of a source, from its file to what is served.

-- Whether some version of a source could be read once. It runs under the policies of who asks.
CREATE FUNCTION rag.has_version(source uuid) RETURNS boolean LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM rag.source_documents d WHERE d.source_id = source)
        OR EXISTS (SELECT FROM rag.source_profiles p WHERE p.source_id = source AND p.status = 'ready');
GRANT EXECUTE ON FUNCTION rag.has_version TO rag_ingest;

ALTER TABLE rag.knowledge_sources
    ADD COLUMN missing_since timestamptz;  -- not seen in its file, a part of which cannot be read; else null
ALTER TABLE rag.source_files
    ADD COLUMN read_at timestamptz;  -- null where that was not written down yet

-- Records and files inside files are called after the file that holds them, which is found out by reading it once more:
-- nothing that is the same is published or embedded again.
ALTER TABLE rag.source_files NO FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.knowledge_sources NO FORCE ROW LEVEL SECURITY;
UPDATE rag.source_files f SET parser_version = parser_version || ', without places'
WHERE EXISTS (SELECT FROM rag.knowledge_sources s
              WHERE s.knowledge_space_id = f.knowledge_space_id AND s.file_hash = f.file_hash
                AND s.external_id <> f.uri AND s.status <> 'deleted');
ALTER TABLE rag.source_files FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.knowledge_sources FORCE ROW LEVEL SECURITY;
