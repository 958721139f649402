-- depends: 0006.web-validators

-- Remote embedding models: what their provider has to know, what they cost, and whose text was embedded as what.

ALTER TABLE rag.embedding_profiles ADD COLUMN options jsonb NOT NULL DEFAULT '{}';

-- The same text makes another vector as a query than as a document.
ALTER TABLE rag.embedding_cache
    ADD COLUMN role text NOT NULL DEFAULT 'document' CHECK (role IN ('document', 'query')),
    DROP CONSTRAINT embedding_cache_pkey,
    ADD PRIMARY KEY (tenant_id, model_key, role, content_hash);

-- What was embedded and paid for, by day. It is written with the vectors, in one transaction: what is kept is what
-- was counted, and what a killed run had not kept is in neither.
CREATE TABLE rag.embedding_usage (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    profile rag.key NOT NULL,
    model_key text NOT NULL,
    role text NOT NULL CHECK (role IN ('document', 'query')),
    day date NOT NULL DEFAULT CURRENT_DATE,
    items bigint NOT NULL DEFAULT 0,
    cache_hits bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    cost_usd numeric NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, bot_id, profile, model_key, role, day)
);

ALTER TABLE rag.embedding_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.embedding_usage FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.embedding_usage TO rag_ingest;
CREATE POLICY ingest ON rag.embedding_usage TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
