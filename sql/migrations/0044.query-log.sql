-- depends: 0041.changed-dates

-- Who asked, told apart from others of the tenant and not by name. Whoever knows the ids of users can try them all.
CREATE FUNCTION rag.user_mark(tenant text, "user" text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substr(encode(sha256(convert_to(tenant || chr(10) || "user", 'UTF8')), 'hex'), 1, 32);

-- All of the scope at once: parts that are asked for one by one could be of two.
CREATE FUNCTION rag.who_asks(OUT tenant text, OUT bot text, OUT mark text) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.tenant, s.bot, coalesce(rag.user_mark(s.tenant, s."user"), '')
    FROM (SELECT rag.scope_tenant(), rag.scope_bot(), rag.scope_user()) AS s (tenant, bot, "user")
$$;

-- What was asked and what was found: texts of queries that were masked before, and ids. The app adds to it and does not
-- read it. Time is the database's: what an application says of it must not keep a row for ever.
CREATE TABLE rag.query_log (
    tenant_id rag.key NOT NULL DEFAULT rag.scope_tenant(),
    bot_id rag.key NOT NULL DEFAULT rag.scope_bot(),
    query_id uuid NOT NULL,
    user_mark text DEFAULT rag.user_mark(rag.scope_tenant(), rag.scope_user()),
    asked_at timestamptz NOT NULL,
    query text NOT NULL CHECK (length(query) <= 2000),
    profile text NOT NULL,
    retriever text NOT NULL,
    mode text,
    top_k int NOT NULL,
    filters jsonb,
    rung text,
    degraded boolean NOT NULL,
    error text,
    top_similarity float8,
    results jsonb NOT NULL CHECK (jsonb_typeof(results) = 'array'),
    timings_ms jsonb NOT NULL,
    citations uuid[],
    feedback jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, bot_id, query_id),
    FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots ON DELETE CASCADE
);
CREATE INDEX query_log_time ON rag.query_log (tenant_id, asked_at);

ALTER TABLE rag.query_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.query_log FORCE ROW LEVEL SECURITY;
GRANT SELECT, DELETE ON rag.query_log TO rag_ingest;
CREATE POLICY ingest ON rag.query_log TO rag_ingest USING (tenant_id = rag.scope_tenant());
GRANT INSERT ON rag.query_log TO rag_app;
CREATE POLICY app ON rag.query_log FOR INSERT TO rag_app WITH CHECK (
    (tenant_id, bot_id, coalesce(user_mark, '')) = (SELECT w.tenant, w.bot, w.mark FROM rag.who_asks() w)
    AND asked_at <= now() AND citations IS NULL AND feedback = '{}'
);

-- The two things that are said of a query afterwards, by who asked it.
GRANT SELECT ON rag.query_log TO rag_search;
GRANT UPDATE (citations, feedback) ON rag.query_log TO rag_search;
CREATE POLICY search ON rag.query_log TO rag_search USING (
    (tenant_id, bot_id, coalesce(user_mark, '')) = (SELECT w.tenant, w.bot, w.mark FROM rag.who_asks() w)
);

-- Whether a passage helped; null takes it back. False: the scope has no such query with such a result.
CREATE FUNCTION rag.record_feedback(query uuid, chunk uuid, helpful boolean) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    WITH changed AS (
        UPDATE rag.query_log SET feedback = CASE
            WHEN helpful IS NULL THEN feedback - chunk::text
            ELSE feedback || jsonb_build_object(chunk::text, helpful) END
        WHERE (tenant_id, bot_id) = (SELECT rag.scope_tenant(), rag.scope_bot()) AND query_id = record_feedback.query
          AND results @> jsonb_build_array(jsonb_build_object('chunk_id', chunk::text))
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM changed)
$$;

-- Which of its results an answer cites; others are left out.
CREATE FUNCTION rag.record_answer(query uuid, cited uuid[]) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    WITH changed AS (
        UPDATE rag.query_log SET citations = ARRAY(
            SELECT DISTINCT c FROM unnest(cited) AS c
            WHERE results @> jsonb_build_array(jsonb_build_object('chunk_id', c::text)))
        WHERE (tenant_id, bot_id) = (SELECT rag.scope_tenant(), rag.scope_bot()) AND query_id = record_answer.query
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM changed)
$$;
GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION rag.record_feedback, rag.record_answer FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.record_feedback, rag.record_answer TO rag_app;
ALTER FUNCTION rag.record_feedback OWNER TO rag_search;
ALTER FUNCTION rag.record_answer OWNER TO rag_search;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
