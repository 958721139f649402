-- depends: 0034.corpus-version

-- The score below which the best of what a profile finds is no answer, where that was measured on questions that nobody
-- can answer. Scores of hybrid search mean something else with another weight: a floor holds for the one that it was
-- found with, null for the default.
CREATE TABLE rag.floors (
    embedding_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id) ON DELETE CASCADE,
    mode text NOT NULL CHECK (mode IN ('dense', 'lexical', 'hybrid')),
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    floor float8 NOT NULL CHECK (floor BETWEEN -1 AND 1),
    dense_weight float8 CHECK (dense_weight BETWEEN 0 AND 1),
    evidence jsonb NOT NULL,
    actor text NOT NULL DEFAULT coalesce(nullif(current_setting('rag.actor', true), ''), session_user),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (embedding_profile_id, mode)
);

ALTER TABLE rag.floors ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.floors FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.floors TO rag_ingest;
CREATE POLICY ingest ON rag.floors TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
-- Who opens a scope learns the floors with the profile.
GRANT SELECT ON rag.floors TO rag_app;
CREATE POLICY app ON rag.floors FOR SELECT TO rag_app
    USING (tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot());
CREATE POLICY app_shared ON rag.floors FOR SELECT TO rag_app
    USING (tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot()));
CREATE TRIGGER changes_answers AFTER INSERT OR UPDATE OR DELETE ON rag.floors
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('evidence', 'actor', 'created_at');
