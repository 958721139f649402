-- Tenants, their knowledge, and what is known about its state. Runs as rag_owner.

CREATE DOMAIN rag.key AS text CHECK (VALUE ~ '^[a-z0-9][a-z0-9_-]{0,62}$');

CREATE TABLE rag.tenants (
    id rag.key PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE rag.bots (
    tenant_id rag.key NOT NULL REFERENCES rag.tenants (id),
    id rag.key NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE rag.knowledge_spaces (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    name rag.key NOT NULL DEFAULT 'default',
    visibility_scope text NOT NULL DEFAULT 'bot' CHECK (visibility_scope IN ('bot', 'tenant', 'user')),
    active_profile_id bigint,
    canary_profile_id bigint,
    canary_percent smallint NOT NULL DEFAULT 0 CHECK (canary_percent BETWEEN 0 AND 100),
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots (tenant_id, id),
    UNIQUE (tenant_id, bot_id, name),
    UNIQUE (id, tenant_id, bot_id)  -- lets every child prove that it names its parent's tenant
);

-- The catalogue of profiles by name, the same for all tenants. A name never changes its meaning.
CREATE TABLE rag.profile_specs (
    name rag.key PRIMARY KEY,
    spec jsonb NOT NULL,
    spec_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- One profile as built for one knowledge space: one partition of knowledge_chunks.
CREATE TABLE rag.embedding_profiles (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    name rag.key NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    dimensions int NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
    distance_metric text NOT NULL CHECK (distance_metric IN ('cosine', 'ip', 'l2')),
    task_instruction jsonb NOT NULL DEFAULT '{}',
    normalized boolean NOT NULL DEFAULT true,
    chunking jsonb NOT NULL,
    index jsonb NOT NULL,
    lexical jsonb NOT NULL,
    spec_hash text NOT NULL,
    status text NOT NULL DEFAULT 'building' CHECK (status IN ('building', 'ready', 'active', 'retired')),
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (knowledge_space_id, tenant_id, bot_id)
        REFERENCES rag.knowledge_spaces (id, tenant_id, bot_id),
    UNIQUE (id, knowledge_space_id, tenant_id, bot_id)
);
CREATE UNIQUE INDEX embedding_profiles_name ON rag.embedding_profiles (knowledge_space_id, name)
    WHERE status <> 'retired';

ALTER TABLE rag.knowledge_spaces
    ADD FOREIGN KEY (active_profile_id, id, tenant_id, bot_id)
        REFERENCES rag.embedding_profiles (id, knowledge_space_id, tenant_id, bot_id),
    ADD FOREIGN KEY (canary_profile_id, id, tenant_id, bot_id)
        REFERENCES rag.embedding_profiles (id, knowledge_space_id, tenant_id, bot_id);

CREATE FUNCTION rag.refuse_profile_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'profile_specs'
       OR to_jsonb(NEW) - 'status' IS DISTINCT FROM to_jsonb(OLD) - 'status' THEN
        RAISE EXCEPTION 'profile "%" is immutable: add a profile under another name instead', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER immutable BEFORE UPDATE ON rag.embedding_profiles
    FOR EACH ROW EXECUTE FUNCTION rag.refuse_profile_change();
CREATE TRIGGER immutable BEFORE UPDATE ON rag.profile_specs
    FOR EACH ROW EXECUTE FUNCTION rag.refuse_profile_change();

CREATE TABLE rag.source_roots (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    uri text NOT NULL,
    last_error text,
    scanned_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (knowledge_space_id, tenant_id, bot_id)
        REFERENCES rag.knowledge_spaces (id, tenant_id, bot_id)
);
-- A URL may be longer than a btree page takes, so identity is its hash. A cast to bytea would read a backslash as
-- the start of an escape.
CREATE UNIQUE INDEX source_roots_uri
    ON rag.source_roots (knowledge_space_id, sha256(replace(uri, '\', '\\')::bytea));

-- What a file was when it was last read: unchanged size, time and parser mean that it is not read again.
CREATE TABLE rag.source_files (
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    root_id uuid NOT NULL REFERENCES rag.source_roots (id) ON DELETE CASCADE,
    file_hash bytea NOT NULL,  -- sha256 of the uri
    uri text NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    checksum text NOT NULL,
    parser_version text NOT NULL,
    PRIMARY KEY (root_id, file_hash)
);

CREATE TABLE rag.knowledge_sources (
    id uuid PRIMARY KEY,  -- derived from the knowledge space and external_id
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    root_id uuid REFERENCES rag.source_roots (id),
    file_hash bytea NOT NULL,
    source_type text NOT NULL,
    external_id text NOT NULL,
    name text NOT NULL,
    canonical_url text,
    checksum text NOT NULL,
    status text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'processing', 'ready', 'no_text', 'failed', 'deleted')),
    progress_percent smallint NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
    error_message text,
    failed_stage text CHECK (failed_stage IN ('read', 'publish')),
    locale text,
    content_type text,
    scope_type text NOT NULL DEFAULT 'bot' CHECK (scope_type IN ('bot', 'user')),
    scope_user_id text,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((scope_type = 'user') = (scope_user_id IS NOT NULL)),
    FOREIGN KEY (knowledge_space_id, tenant_id, bot_id)
        REFERENCES rag.knowledge_spaces (id, tenant_id, bot_id)
);
CREATE INDEX knowledge_sources_file ON rag.knowledge_sources (knowledge_space_id, file_hash);
CREATE INDEX knowledge_sources_private ON rag.knowledge_sources (knowledge_space_id) WHERE scope_type = 'user';

-- The normalised text that chunk offsets point into; a version stays while some profile still serves it.
CREATE TABLE rag.source_documents (
    source_id uuid NOT NULL REFERENCES rag.knowledge_sources (id) ON DELETE CASCADE,
    checksum text NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    title text NOT NULL,
    text text NOT NULL,
    blocks jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (source_id, checksum)
);

CREATE TABLE rag.source_profiles (
    embedding_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id),
    source_id uuid NOT NULL REFERENCES rag.knowledge_sources (id) ON DELETE CASCADE,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    status text NOT NULL CHECK (status IN ('ready', 'failed')),
    checksum text NOT NULL,
    chunk_count int NOT NULL DEFAULT 0,
    error_message text,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (embedding_profile_id, source_id)
);
CREATE INDEX source_profiles_source ON rag.source_profiles (source_id);

-- One logical table, one partition per profile. Partitions carry the checks that tie them to one tenant.
CREATE TABLE rag.knowledge_chunks (
    id uuid NOT NULL,  -- derived from source, profile spec, position and content
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    source_id uuid NOT NULL,
    embedding_profile_id bigint NOT NULL,
    chunk_index int NOT NULL,
    content text NOT NULL CHECK (content <> ''),
    token_count int NOT NULL,
    citation jsonb NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    fts tsvector NOT NULL,
    lexical sparsevec NOT NULL,
    embedding vector NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (embedding_profile_id, id)
) PARTITION BY LIST (embedding_profile_id);
CREATE INDEX knowledge_chunks_source ON rag.knowledge_chunks (source_id);

CREATE TABLE rag.embedding_cache (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,  -- whose text was embedded first; its erasure takes the entry along
    model_key text NOT NULL,
    content_hash bytea NOT NULL,
    embedding vector NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, model_key, content_hash)
);

-- Document frequencies, as of the last refresh; a lexeme that is absent counts as seen in no chunk.
CREATE TABLE rag.lexeme_stats (
    embedding_profile_id bigint NOT NULL REFERENCES rag.embedding_profiles (id),
    tenant_id rag.key NOT NULL,
    lexeme text NOT NULL,
    chunk_count int NOT NULL,
    PRIMARY KEY (embedding_profile_id, lexeme)
);

CREATE TABLE rag.index_state (
    embedding_profile_id bigint PRIMARY KEY REFERENCES rag.embedding_profiles (id),
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    average_length double precision,      -- words per chunk that the stored BM25 weights assume
    dense_floor double precision,         -- cosine of the least related chunks: where fusion starts to count
    chunks_at_statistics bigint NOT NULL DEFAULT 0,
    statistics_at timestamptz,
    chunks_at_hnsw bigint NOT NULL DEFAULT 0,
    ef_search int NOT NULL DEFAULT 100 CHECK (ef_search BETWEEN 1 AND 1000),
    recall_at_10 double precision,
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE rag.profile_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    knowledge_space_id uuid NOT NULL,
    embedding_profile_id bigint NOT NULL,
    event text NOT NULL CHECK (event IN ('created', 'ready', 'activated', 'retired')),
    actor text NOT NULL DEFAULT session_user,
    evidence jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX profile_events_bot ON rag.profile_events (tenant_id, bot_id, created_at);
