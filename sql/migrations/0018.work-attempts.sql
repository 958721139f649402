-- depends: 0012.profile-work

-- Work of a tenant whose last run failed: how often in a row, why, and when it is tried again. A row goes when a run
-- has succeeded. `profile` is '' for the tenant's sources; else the pair of the tenant and that profile is meant.
CREATE TABLE rag.work_attempts (
    tenant_id rag.key NOT NULL REFERENCES rag.tenants (id),
    profile text NOT NULL DEFAULT '',
    attempts int NOT NULL CHECK (attempts > 0),
    last_error text NOT NULL,
    last_at timestamptz NOT NULL,
    next_try_at timestamptz NOT NULL,
    run_id text NOT NULL,  -- of the last attempt, in the UI
    work text NOT NULL DEFAULT '',  -- which appearance of the work it was
    PRIMARY KEY (tenant_id, profile)
);
ALTER TABLE rag.work_attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.work_attempts FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.work_attempts TO rag_ingest;
CREATE POLICY ingest ON rag.work_attempts TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
