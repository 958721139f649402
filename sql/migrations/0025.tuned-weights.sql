-- depends: 0024.same-text 0013.actor

-- How much meaning counts against words in a profile's hybrid search, where that was measured on the bot's own
-- labelled queries. The profile itself never changes; without a row here the default holds.
CREATE TABLE rag.tuned_weights (
    embedding_profile_id bigint PRIMARY KEY REFERENCES rag.embedding_profiles (id) ON DELETE CASCADE,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    dense_weight float8 NOT NULL CHECK (dense_weight BETWEEN 0 AND 1),
    evidence jsonb NOT NULL,
    actor text NOT NULL DEFAULT coalesce(nullif(current_setting('rag.actor', true), ''), session_user),
    created_at timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE rag.tuned_weights ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.tuned_weights FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.tuned_weights TO rag_ingest;
CREATE POLICY ingest ON rag.tuned_weights TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
-- Who opens a scope learns the weight with the profile.
GRANT SELECT ON rag.tuned_weights TO rag_app;
CREATE POLICY app ON rag.tuned_weights FOR SELECT TO rag_app
    USING (tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot());
