-- depends: 0041.changed-dates

-- Who may come in through the HTTP door: a token stands for one scope, and for what may be done in it. Only its hash is
-- kept, and who asks by a hash has the token already. Its 256 random bits need no slow hash.
CREATE TABLE rag.api_tokens (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    user_id text CHECK (user_id <> ''),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    may text[] NOT NULL CHECK (may <@ ARRAY['search', 'feedback', 'push'] AND cardinality(may) > 0),
    expires_at timestamptz,  -- null: never
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL DEFAULT coalesce(nullif(current_setting('rag.actor', true), ''), session_user),
    FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots (tenant_id, id)
);
-- A name is free again once its token is revoked.
CREATE UNIQUE INDEX api_tokens_name ON rag.api_tokens (tenant_id, name) WHERE revoked_at IS NULL;

ALTER TABLE rag.api_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.api_tokens FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.api_tokens TO rag_ingest;
CREATE POLICY ingest ON rag.api_tokens TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());

-- The app reads no token: it asks about one hash at a time, before there is a scope. No row: there is no such token.
GRANT SELECT ON rag.api_tokens TO rag_search;
CREATE POLICY search ON rag.api_tokens FOR SELECT TO rag_search USING (true);
CREATE FUNCTION rag.token_of(token_hash bytea)
RETURNS TABLE (id uuid, tenant text, bot text, user_id text, may text[], is_revoked boolean, is_expired boolean,
               expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    SELECT t.id, t.tenant_id::text, t.bot_id::text, t.user_id, t.may, t.revoked_at IS NOT NULL,
           coalesce(t.expires_at <= now(), false), t.expires_at
    FROM rag.api_tokens t WHERE t.hash = token_hash
$$;
GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION rag.token_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.token_of TO rag_app;
ALTER FUNCTION rag.token_of OWNER TO rag_search;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
