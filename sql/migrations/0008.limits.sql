-- depends: 0007.providers

-- How fast requests may go to a provider, and what they may cost. All of it can be changed at any time: none of it
-- changes a vector, so none of it is part of a profile.

-- At most so many items and tokens in any window of `per_seconds`. Of one tenant, or (tenant_id null) of all tenants
-- together, which is how providers count; of one model, or (model null) of all of the provider's.
CREATE TABLE rag.rate_limits (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id rag.key REFERENCES rag.tenants (id),
    provider text NOT NULL,
    model text,
    items bigint CHECK (items > 0),
    tokens bigint CHECK (tokens > 0),
    per_seconds int NOT NULL DEFAULT 60 CHECK (per_seconds > 0),
    CHECK (items IS NOT NULL OR tokens IS NOT NULL),
    UNIQUE NULLS NOT DISTINCT (tenant_id, provider, model)
);

-- Requests that wait for their turn (granted_at null) or were sent within two of the longest windows. Waiting ones are
-- renewed by whoever waits, so those of a killed worker expire.
CREATE TABLE rag.rate_requests (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id rag.key NOT NULL REFERENCES rag.tenants (id),
    provider text NOT NULL,
    model text NOT NULL,
    account text NOT NULL,
    items bigint NOT NULL CHECK (items >= 0),
    tokens bigint NOT NULL CHECK (tokens >= 0),
    expires_at timestamptz NOT NULL,
    granted_at timestamptz
);
CREATE INDEX rate_requests_provider ON rag.rate_requests (provider, granted_at);
CREATE INDEX rate_requests_tenant ON rag.rate_requests (tenant_id);

-- The provider has asked for a pause. `account` tells the keys and servers apart that a pause is for.
CREATE TABLE rag.rate_blocks (
    provider text NOT NULL,
    model text NOT NULL,
    account text NOT NULL,
    blocked_until timestamptz NOT NULL,
    PRIMARY KEY (provider, model, account)
);

CREATE TABLE rag.profile_settings (
    profile rag.key PRIMARY KEY REFERENCES rag.profile_specs (name),
    max_cost_usd numeric CHECK (max_cost_usd >= 0),  -- of each tenant, over all runs
    mode text NOT NULL DEFAULT 'sync' CHECK (mode IN ('sync', 'batch'))
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['rate_limits', 'rate_requests', 'rate_blocks', 'profile_settings'] LOOP
        EXECUTE format('ALTER TABLE rag.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE rag.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON rag.%I TO rag_ingest', t);
        -- rag.take_turn runs as the owner, who must see what other tenants send, and returns nothing of it.
        EXECUTE format('CREATE POLICY turns ON rag.%I TO rag_owner USING (true) WITH CHECK (true)', t);
    END LOOP;
END $$;

CREATE POLICY ingest ON rag.rate_limits TO rag_ingest
    USING (tenant_id IS NULL OR tenant_id = rag.scope_tenant())
    WITH CHECK (tenant_id IS NULL OR tenant_id = rag.scope_tenant());
CREATE POLICY ingest ON rag.rate_requests TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
CREATE POLICY ingest ON rag.rate_blocks TO rag_ingest USING (true) WITH CHECK (true);
CREATE POLICY ingest ON rag.profile_settings TO rag_ingest USING (true) WITH CHECK (true);

CREATE FUNCTION rag.is_counted(q rag.rate_requests, l rag.rate_limits) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN q.provider = l.provider AND (l.tenant_id IS NULL OR l.tenant_id = q.tenant_id)
       AND (l.model IS NULL OR l.model = q.model);

-- Ask for the turn of one request of the tenant in scope. wait_s 0: it is granted, at this moment. More: ask again
-- with `ticket` after that time, or after `nap` seconds if that is sooner; it is an estimate, and what keeps the place
-- in the queue. Null: the request alone is larger than a limit. A granted ticket that is passed again was not used.
--
-- A window is kept `slack` seconds longer than it is: a request that is sent within that time of its grant is inside
-- the limit by its own clock, too. locked_s is how long the caller stood at the lock, before the grant.
--
-- The order is fair between tenants: first is who has sent the least within two of the longest windows. A request that
-- does not fit keeps its place in those limits that hold it, and only there: a tenant at its own limit holds nobody
-- else.
CREATE FUNCTION rag.take_turn(
    my_ticket bigint, my_provider text, my_model text, my_account text, my_items bigint, my_tokens bigint,
    slack float8, nap float8, OUT ticket bigint, OUT wait_s float8, OUT locked_s float8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = rag, pg_temp AS $$
DECLARE
    at timestamptz;
    longest interval;
    limits rag.rate_limits[];
    counted int[];
    held int[];
    used_items bigint[] := '{}';
    used_tokens bigint[] := '{}';
    n int;
    sent record;
    waiting rag.rate_requests;
    mine rag.rate_requests;
    blocked timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rag.rate_requests ' || my_provider, 0));
    at := clock_timestamp();  -- after the lock, so that grants are in the order of their times
    locked_s := extract(epoch FROM at - statement_timestamp());

    -- Two windows: when one has emptied itself while all waited for a large request, it is still known who has sent.
    SELECT make_interval(secs => 2 * (coalesce(max(l.per_seconds), 0) + slack)) INTO longest
    FROM rag.rate_limits l WHERE l.provider = my_provider;
    DELETE FROM rag.rate_requests q
    WHERE q.provider = my_provider AND q.id IS DISTINCT FROM my_ticket
      AND (q.granted_at <= at - longest OR (q.granted_at IS NULL AND q.expires_at < at));

    UPDATE rag.rate_requests q SET granted_at = NULL, expires_at = at + make_interval(secs => nap)
    WHERE q.id = my_ticket AND q.tenant_id = rag.scope_tenant() RETURNING q.* INTO mine;
    IF NOT FOUND THEN
        INSERT INTO rag.rate_requests AS q (tenant_id, provider, model, account, items, tokens, expires_at)
        VALUES (rag.scope_tenant(), my_provider, my_model, my_account, my_items, my_tokens,
                at + make_interval(secs => nap))
        RETURNING q.* INTO mine;
    END IF;
    ticket := mine.id;

    limits := ARRAY(
        SELECT l FROM rag.rate_limits l
        WHERE l.provider = my_provider AND (l.tenant_id IS NULL OR l.tenant_id IN (
            SELECT q.tenant_id FROM rag.rate_requests q WHERE q.provider = my_provider AND q.granted_at IS NULL)));
    FOR n IN 1 .. cardinality(limits) LOOP
        IF rag.is_counted(mine, limits[n]) AND (my_items > limits[n].items OR my_tokens > limits[n].tokens) THEN
            DELETE FROM rag.rate_requests q WHERE q.id = mine.id;
            RETURN;
        END IF;
        SELECT coalesce(sum(q.items), 0) AS items, coalesce(sum(q.tokens), 0) AS tokens INTO sent
        FROM rag.rate_requests q
        WHERE q.provider = my_provider AND q.granted_at > at - make_interval(secs => limits[n].per_seconds + slack)
          AND rag.is_counted(q, limits[n]);
        used_items[n] := sent.items;
        used_tokens[n] := sent.tokens;
    END LOOP;

    FOR waiting IN
        SELECT q.* FROM rag.rate_requests q
        LEFT JOIN (SELECT g.tenant_id, sum(g.items) AS items FROM rag.rate_requests g
                   WHERE g.provider = my_provider AND g.granted_at IS NOT NULL GROUP BY g.tenant_id) AS s
            ON s.tenant_id = q.tenant_id
        WHERE q.provider = my_provider AND q.granted_at IS NULL
        ORDER BY coalesce(s.items, 0) + sum(q.items) OVER (PARTITION BY q.tenant_id ORDER BY q.id) - q.items, q.id
    LOOP
        SELECT b.blocked_until INTO blocked FROM rag.rate_blocks b
        WHERE b.provider = waiting.provider AND b.model = waiting.model AND b.account = waiting.account
          AND b.blocked_until > at;
        CONTINUE WHEN FOUND AND waiting.id <> mine.id;

        counted := ARRAY(SELECT i FROM generate_subscripts(limits, 1) AS i WHERE rag.is_counted(waiting, limits[i]));
        held := ARRAY(SELECT i FROM unnest(counted) AS i
            WHERE used_items[i] + waiting.items > limits[i].items
               OR used_tokens[i] + waiting.tokens > limits[i].tokens);
        EXIT WHEN waiting.id = mine.id;
        FOREACH n IN ARRAY CASE WHEN held = '{}' THEN counted ELSE held END LOOP
            used_items[n] := used_items[n] + waiting.items;
            used_tokens[n] := used_tokens[n] + waiting.tokens;
        END LOOP;
    END LOOP;

    IF blocked IS NOT NULL THEN
        wait_s := extract(epoch FROM blocked - at);
    ELSIF held = '{}' THEN
        wait_s := 0;
    ELSE
        -- When so much has left each window that those in front and this request fit.
        SELECT max(extract(epoch FROM coalesce(
            (SELECT min(gone.granted_at) FROM (
                SELECT q.granted_at, sum(q.items) OVER so_far AS items, sum(q.tokens) OVER so_far AS tokens
                FROM rag.rate_requests q
                WHERE q.provider = my_provider
                  AND q.granted_at > at - make_interval(secs => limits[i].per_seconds + slack)
                  AND rag.is_counted(q, limits[i])
                WINDOW so_far AS (ORDER BY q.granted_at, q.id)) AS gone
             WHERE gone.items >= coalesce(used_items[i] + mine.items - limits[i].items, 0)
               AND gone.tokens >= coalesce(used_tokens[i] + mine.tokens - limits[i].tokens, 0)),
            at) + make_interval(secs => limits[i].per_seconds + slack) - at)) INTO wait_s
        FROM unnest(held) AS i;
        wait_s := greatest(wait_s, 0.01);
    END IF;

    UPDATE rag.rate_requests q
    SET granted_at = CASE WHEN wait_s = 0 THEN at END,
        -- Twice: the one who waits is late at times, and a killed one holds up those behind it for so long.
        expires_at = at + make_interval(secs => 2 * least(wait_s, nap) + slack)
    WHERE q.id = mine.id;
END $$;

REVOKE EXECUTE ON FUNCTION rag.take_turn FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.take_turn TO rag_ingest;
