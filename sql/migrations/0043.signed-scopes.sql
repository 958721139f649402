-- depends: 0041.changed-dates

-- An application names its scope itself. With signed scopes it also has to show that somebody who knows a key agreed:
-- HMAC-SHA256 (RFC 2104) over tenant, bot, user and the moment until which that holds.

-- Keys, as the two blocks that the inner and the outer hash begin with. Whoever reads them can sign.
CREATE TABLE rag.scope_keys (
    id text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9_-]{1,32}$'),
    inner_block bytea NOT NULL CHECK (octet_length(inner_block) = 64),
    outer_block bytea NOT NULL CHECK (octet_length(outer_block) = 64),
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    retired_at timestamptz
);

-- One row while scopes have to be signed. Without a key that is not retired nobody can sign one, so an operator who
-- retires the last shuts the door and does not open it.
CREATE TABLE rag.scope_signing (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    since timestamptz NOT NULL DEFAULT now(),
    turned_on_by text NOT NULL
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['scope_keys', 'scope_signing'] LOOP
        EXECUTE format('ALTER TABLE rag.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE rag.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT ON rag.%I TO rag_search', t);
        EXECUTE format('CREATE POLICY search ON rag.%I FOR SELECT TO rag_search USING (true)', t);
        EXECUTE format('CREATE POLICY operator ON rag.%I TO rag_owner USING (true) WITH CHECK (true)', t);
    END LOOP;
END $$;

-- Whether the scope of this transaction may be used: false without a tenant. Where scopes have to be signed and this one
-- is not, an error says why, because no rows would look like a tenant who knows nothing.
--
-- Whose word counts is the role that the session has taken, which no function changes, and not the owner of the function
-- that asks. Who works as rag_ingest names tenants as before, since it writes them; so does a superuser.
--
-- Lengths stand before the parts of what is signed, in bytes, so that no two scopes read the same. What an attacker can
-- choose is hashed before it is compared, so that the time which that takes tells of no byte of the right one. Only who
-- knows the key can have signed a moment that is no number.
CREATE FUNCTION rag.scope_verified() RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tenant text := current_setting('rag.tenant', true);
    bot text := coalesce(current_setting('rag.bot', true), '');
    asking text := coalesce(current_setting('rag.user', true), '');
    signature text := coalesce(current_setting('rag.signature', true), '');
    expires text := coalesce(current_setting('rag.expires', true), '');
    key text := coalesce(current_setting('rag.key', true), '');
    inner_block bytea;
    outer_block bytea;
    is_retired boolean;
BEGIN
    IF tenant IS NULL OR tenant = '' THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT FROM rag.scope_signing) THEN
        RETURN true;
    END IF;
    IF pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user), 'rag_ingest', 'USAGE') THEN
        RETURN true;
    END IF;
    IF signature = '' THEN
        RAISE EXCEPTION 'this scope is not signed' USING ERRCODE = 'RS001';
    END IF;
    SELECT k.inner_block, k.outer_block, k.retired_at IS NOT NULL INTO inner_block, outer_block, is_retired
    FROM rag.scope_keys k WHERE k.id = key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this scope is signed with a key that this database does not know' USING ERRCODE = 'RS001';
    END IF;
    IF is_retired THEN
        RAISE EXCEPTION 'this scope is signed with a key that was retired' USING ERRCODE = 'RS001';
    END IF;
    IF sha256(convert_to(signature, 'UTF8')) <> sha256(convert_to(encode(sha256(outer_block || sha256(inner_block
        || convert_to('rag-scope-1:'
            || length(key) || ':' || key || ',' || length(tenant) || ':' || tenant || ','
            || length(bot) || ':' || bot || ',' || octet_length(convert_to(asking, 'UTF8')) || ':' || asking || ','
            || length(expires) || ':' || expires || ',', 'UTF8'))), 'hex'), 'UTF8'))
    THEN
        RAISE EXCEPTION 'the signature is not one of this scope' USING ERRCODE = 'RS001';
    END IF;
    -- As of the statement's beginning: an answer does not lose its second half.
    IF expires::bigint < extract(epoch FROM statement_timestamp()) THEN
        RAISE EXCEPTION 'the signature of this scope has expired' USING ERRCODE = 'RS001';
    END IF;
    RETURN true;
END $$;
GRANT CREATE ON SCHEMA rag TO rag_search;
ALTER FUNCTION rag.scope_verified OWNER TO rag_search;

-- Every policy of the app and every function that searches for it asks for the tenant of the scope, so this is where
-- they are told none. Ingest asks for each row that it writes, and is told without another call.
CREATE OR REPLACE FUNCTION rag.scope_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN current_setting('role') = 'rag_ingest' THEN nullif(current_setting('rag.tenant', true), '')
        WHEN current_setting('rag.tenant', true) <> '' AND rag.scope_verified() THEN current_setting('rag.tenant', true)
    END;

SET LOCAL ROLE rag_search;
-- The same functions as before, but for asking once: in a condition of their own they would be asked for each row, and by
-- the planner too.
CREATE OR REPLACE FUNCTION rag.profile_in_scope() RETURNS rag.embedding_profiles LANGUAGE sql STABLE AS $$
    SELECT p
    FROM rag.embedding_profiles p
    JOIN rag.knowledge_spaces k ON k.id = p.knowledge_space_id
    WHERE p.id::text = nullif(current_setting('rag.profile', true), '')
      AND k.id::text = nullif(current_setting('rag.space', true), '')
      AND k.tenant_id = (SELECT rag.scope_tenant())
      AND rag.scope_bot() IS NOT NULL
      AND (k.bot_id = rag.scope_bot() OR k.visibility_scope = 'tenant')
      AND (k.visibility_scope <> 'user' OR rag.scope_user() IS NOT NULL)
      AND p.status IN ('ready', 'active')
$$;
CREATE OR REPLACE FUNCTION rag.shared_bot() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = rag, public, pg_temp AS $$
    SELECT k.bot_id::text FROM rag.knowledge_spaces k
    WHERE k.tenant_id = (SELECT rag.scope_tenant()) AND rag.scope_bot() IS NOT NULL AND k.visibility_scope = 'tenant'
$$;
RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
