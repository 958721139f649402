-- depends: 0009.batches

-- What a web page says in short, so that pages that say the same are found without reading all of them again.
CREATE TABLE rag.page_signatures (
    source_id uuid PRIMARY KEY REFERENCES rag.knowledge_sources (id) ON DELETE CASCADE,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    checksum text NOT NULL,
    minhash bytea NOT NULL,  -- 64 numbers of 8 bytes
    blocks bigint[] NOT NULL  -- a hash of each block, in order
);
CREATE INDEX page_signatures_space ON rag.page_signatures (knowledge_space_id);

ALTER TABLE rag.page_signatures ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.page_signatures FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.page_signatures TO rag_ingest;
CREATE POLICY ingest ON rag.page_signatures TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());

-- A page that adds nothing to another is published without chunks for as long as that other one is served unchanged.
ALTER TABLE rag.source_profiles
    ADD COLUMN duplicate_of uuid,
    ADD COLUMN duplicate_checksum text,
    ADD CHECK ((duplicate_of IS NULL) = (duplicate_checksum IS NULL));
