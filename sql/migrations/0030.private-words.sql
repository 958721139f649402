-- depends: 0028.copies-where-there-are

-- What a score is made of counts shared sources only: else whoever searches for a word could tell from the scores of
-- what they find whether somebody's private source has it.
CREATE FUNCTION rag.private_sources(profile bigint) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    SELECT s.id
    FROM rag.knowledge_sources s JOIN rag.embedding_profiles p ON p.knowledge_space_id = s.knowledge_space_id
    WHERE p.id = profile AND s.scope_type = 'user'
$$;
REVOKE EXECUTE ON FUNCTION rag.private_sources FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.private_sources TO rag_ingest;

-- Where there are private ones already, they are not counted from now on.
ALTER TABLE rag.knowledge_sources NO FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.embedding_profiles NO FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.knowledge_chunks NO FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.lexeme_stats NO FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.index_state NO FORCE ROW LEVEL SECURITY;
DO $$
DECLARE
    profile rag.embedding_profiles;
    shared text;
BEGIN
    FOR profile IN SELECT p.* FROM rag.embedding_profiles p WHERE EXISTS (SELECT rag.private_sources(p.id)) LOOP
        shared := format('FROM rag.knowledge_chunks WHERE embedding_profile_id = %1$s
            AND source_id NOT IN (SELECT rag.private_sources(%1$s))', profile.id);
        DELETE FROM rag.lexeme_stats l WHERE l.embedding_profile_id = profile.id;
        INSERT INTO rag.lexeme_stats (embedding_profile_id, tenant_id, lexeme, chunk_count)
        SELECT profile.id, profile.tenant_id, word, ndoc FROM ts_stat('SELECT fts ' || shared);
        EXECUTE format('UPDATE rag.index_state SET chunks_at_statistics = (SELECT count(*) %s)
            WHERE embedding_profile_id = %s AND statistics_at IS NOT NULL', shared, profile.id);
    END LOOP;
END $$;
ALTER TABLE rag.knowledge_sources FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.embedding_profiles FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.knowledge_chunks FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.lexeme_stats FORCE ROW LEVEL SECURITY;
ALTER TABLE rag.index_state FORCE ROW LEVEL SECURITY;
