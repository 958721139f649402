-- depends: 0012.profile-work

-- Texts and files that a provider does not embed, by their hashes alone. They are not sent again: never while text and
-- model stay what they are, or where it was no refusal but an answer without a vector, not before `next_try_at`.
CREATE TABLE rag.refused_texts (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,  -- whose text was refused first; its erasure takes the entry along
    model_key text NOT NULL,
    content_hash bytea NOT NULL,
    reason text NOT NULL,
    attempts int NOT NULL DEFAULT 1,
    refused_at timestamptz NOT NULL DEFAULT now(),
    next_try_at timestamptz,  -- null: never
    PRIMARY KEY (tenant_id, model_key, content_hash)
);

ALTER TABLE rag.refused_texts ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.refused_texts FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.refused_texts TO rag_ingest;
CREATE POLICY ingest ON rag.refused_texts TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
