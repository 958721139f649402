-- depends: 0008.limits

-- Texts that a provider embeds for half the price within a day or two: what was handed over, and who waits for it.

CREATE TABLE rag.embedding_jobs (
    id uuid PRIMARY KEY,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    profile rag.key NOT NULL REFERENCES rag.profile_specs (name),
    model_key text NOT NULL,
    route text NOT NULL,  -- provider, model and account, whose limits hold for all tenants together
    display_name text NOT NULL UNIQUE,  -- how a job is found again whose creation was never confirmed
    remote_name text,  -- null also when nothing of it is left at the provider
    remote_state text,
    result_file text,
    state text NOT NULL DEFAULT 'submitting'
        CHECK (state IN ('submitting', 'running', 'done', 'failed', 'cancelled')),
    uploads int NOT NULL DEFAULT 0,  -- files that may lie at the provider; their names follow from id and number
    items int NOT NULL CHECK (items > 0),
    tokens bigint NOT NULL CHECK (tokens >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    submitted_at timestamptz,  -- when the provider was asked to make the job; before that there can be none
    ended_at timestamptz,  -- when the provider was seen to be done with it, or it was given up
    deadline timestamptz NOT NULL,
    error text,
    FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots (tenant_id, id),
    UNIQUE (id, tenant_id, bot_id)
);
CREATE INDEX embedding_jobs_open ON rag.embedding_jobs (tenant_id) WHERE state IN ('submitting', 'running');

CREATE TABLE rag.embedding_job_items (
    job_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    content_hash bytea NOT NULL,
    position int NOT NULL,
    sample text,  -- of a few items the text itself, to compare their vectors with; gone when the job has ended
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'failed')),
    error text,
    PRIMARY KEY (job_id, content_hash),
    FOREIGN KEY (job_id, tenant_id, bot_id) REFERENCES rag.embedding_jobs (id, tenant_id, bot_id)
);
CREATE INDEX embedding_job_items_hash ON rag.embedding_job_items (tenant_id, content_hash);

-- The sources that cannot be published before a job has ended. Nobody looks at them again until then.
CREATE TABLE rag.embedding_job_sources (
    embedding_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id),
    source_id uuid NOT NULL,
    checksum text NOT NULL,
    job_id uuid NOT NULL REFERENCES rag.embedding_jobs (id),
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    PRIMARY KEY (embedding_profile_id, source_id, job_id)
);
CREATE INDEX embedding_job_sources_job ON rag.embedding_job_sources (job_id);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['embedding_jobs', 'embedding_job_items', 'embedding_job_sources'] LOOP
        EXECUTE format('ALTER TABLE rag.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE rag.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON rag.%I TO rag_ingest', t);
        EXECUTE format(
            'CREATE POLICY ingest ON rag.%I TO rag_ingest
             USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant())', t);
    END LOOP;
END $$;

-- The two functions run as the owner and see all tenants: the one tells whom to look at, the other a sum.
CREATE POLICY overview ON rag.embedding_jobs FOR SELECT TO rag_owner USING (true);

CREATE FUNCTION rag.tenants_with_open_jobs() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, pg_temp AS $$
    SELECT DISTINCT tenant_id::text FROM rag.embedding_jobs WHERE state IN ('submitting', 'running') ORDER BY 1
$$;

-- Tokens that wait at the provider. What it is done with waits no more, even if nobody has fetched it yet.
CREATE FUNCTION rag.enqueued_tokens(my_route text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, pg_temp AS $$
    SELECT coalesce(sum(tokens), 0)::bigint FROM rag.embedding_jobs
    WHERE route = my_route AND state IN ('submitting', 'running') AND ended_at IS NULL
$$;

REVOKE EXECUTE ON FUNCTION rag.tenants_with_open_jobs, rag.enqueued_tokens FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.tenants_with_open_jobs, rag.enqueued_tokens TO rag_ingest;
