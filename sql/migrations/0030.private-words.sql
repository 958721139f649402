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

-- Whether that is so already; where it is not, the next ingest counts anew.
ALTER TABLE rag.index_state ADD COLUMN counts_shared_only boolean NOT NULL DEFAULT false;
