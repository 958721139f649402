-- depends: 0004.search

-- Labelled queries, measured runs, verdicts, and the pointer that only a verdict may move.

ALTER TABLE rag.knowledge_spaces
    ADD COLUMN previous_profile_id bigint,  -- what a rollback goes back to
    ADD FOREIGN KEY (previous_profile_id, id, tenant_id, bot_id)
        REFERENCES rag.embedding_profiles (id, knowledge_space_id, tenant_id, bot_id),
    ADD CHECK ((canary_profile_id IS NULL) = (canary_percent = 0));

ALTER TABLE rag.profile_events DROP CONSTRAINT profile_events_event_check;
ALTER TABLE rag.profile_events ADD CONSTRAINT profile_events_event_check CHECK (event IN (
    'created', 'ready', 'activated', 'promoted', 'forced', 'rolled_back', 'canary', 'retired', 'dropped'));

CREATE TABLE rag.eval_sets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    content_hash text NOT NULL,
    queries jsonb NOT NULL,   -- [{id, text, critical, kind}]
    qrels jsonb NOT NULL,     -- {query: {document: grade}}
    imported_at timestamptz,  -- NULL: only measured with, never the bot's own set
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (knowledge_space_id, tenant_id, bot_id)
        REFERENCES rag.knowledge_spaces (id, tenant_id, bot_id),
    UNIQUE (knowledge_space_id, content_hash)
);

CREATE TABLE rag.eval_runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    embedding_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id),
    eval_set_id bigint NOT NULL REFERENCES rag.eval_sets (id),
    mode text NOT NULL CHECK (mode IN ('dense', 'lexical', 'hybrid')),
    settings jsonb NOT NULL DEFAULT '{}',
    snapshot text NOT NULL,   -- of the corpus that was searched
    run_hash text NOT NULL,
    metrics jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A verdict compares two runs. It speaks of the corpus that they searched, and of nothing later.
CREATE TABLE rag.gate_verdicts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    candidate_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id),
    baseline_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id),
    candidate_run_id bigint NOT NULL REFERENCES rag.eval_runs (id),
    baseline_run_id bigint NOT NULL REFERENCES rag.eval_runs (id),
    candidate_snapshot text NOT NULL,
    baseline_snapshot text NOT NULL,
    policy jsonb NOT NULL,
    criteria jsonb NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('passed', 'refused', 'undecided')),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX gate_verdicts_candidate ON rag.gate_verdicts (candidate_profile_id, created_at);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['eval_sets', 'eval_runs', 'gate_verdicts'] LOOP
        EXECUTE format('ALTER TABLE rag.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE rag.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, DELETE ON rag.%I TO rag_ingest', t);  -- what was measured stays
        EXECUTE format(
            'CREATE POLICY ingest ON rag.%I TO rag_ingest
             USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant())', t);
    END LOOP;
END $$;
GRANT UPDATE (imported_at) ON rag.eval_sets TO rag_ingest;

-- What a profile serves, as one hash: each published source in its published version.
CREATE FUNCTION rag.profile_snapshot(profile_id bigint) RETURNS text LANGUAGE sql STABLE
    RETURN (
        SELECT md5(coalesce(string_agg(source_id::text || checksum, ',' ORDER BY source_id), ''))
        FROM rag.source_profiles WHERE embedding_profile_id = profile_id AND status = 'ready'
    );
