-- depends: 0034.corpus-version

-- How much meaning counts against words in a profile's hybrid search, found without labels: with its statistics, from
-- passages that are to find the text they were cut from. `dense_weight` is null where there was nothing to find it
-- from, and the evidence says why. A weight that was tuned with labels goes before it.
CREATE TABLE rag.found_weights (
    embedding_profile_id bigint PRIMARY KEY REFERENCES rag.embedding_profiles (id) ON DELETE CASCADE,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    dense_weight float8 CHECK (dense_weight BETWEEN 0 AND 1),
    evidence jsonb NOT NULL,
    statistics_at timestamptz NOT NULL,  -- of the statistics that it was found with; with others it is found anew
    created_at timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE rag.found_weights ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.found_weights FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.found_weights TO rag_ingest;
CREATE POLICY ingest ON rag.found_weights TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
-- Who opens a scope learns the weight with the profile.
GRANT SELECT ON rag.found_weights TO rag_app;
CREATE POLICY app ON rag.found_weights FOR SELECT TO rag_app
    USING (tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot());
CREATE POLICY app_shared ON rag.found_weights FOR SELECT TO rag_app
    USING (tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot()));

CREATE TRIGGER changes_answers AFTER INSERT OR UPDATE OR DELETE ON rag.found_weights
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('evidence', 'statistics_at', 'created_at');

-- What a search makes of a query is what a passage is weighed by.
SET LOCAL ROLE rag_search;
GRANT EXECUTE ON FUNCTION rag.analyse_query TO rag_ingest;
RESET ROLE;
