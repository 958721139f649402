-- depends: 0002.policies

-- BM25 in stock Postgres: the chunk stores, for every lexeme, its saturated and length-normalised term
-- frequency in a sparsevec; the query brings the inverse document frequencies; their inner product is the
-- score. Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.

-- A position in the sparsevec. md5 is the same on every server and version; two lexemes of one chunk that
-- collide share one entry. sparsevec takes indexes from 1 to 10^9.
CREATE FUNCTION rag.term_id(lexeme text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN 1 + (('x' || substr(md5(lexeme), 1, 8))::bit(32)::bigint) % 999999999;

-- Words of a chunk that were indexed (stop words are not).
CREATE FUNCTION rag.lexical_length(fts tsvector) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT coalesce(sum(cardinality(positions)), 0) FROM unnest(fts));

-- k1 = 1.2, b = 0.75; the idf is left to the query, so that it is never stale.
CREATE FUNCTION rag.bm25_weights(fts tsvector, average_length double precision) RETURNS sparsevec
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        WITH terms AS MATERIALIZED (
            SELECT rag.term_id(lexeme) AS term, sum(cardinality(positions)) AS tf
            FROM unnest(fts) GROUP BY 1
        ), norm AS MATERIALIZED (
            SELECT 1.2 * (0.25 + 0.75 * sum(tf)::float8 / greatest(average_length, 1)) AS k FROM terms
        )
        SELECT ('{' || coalesce(string_agg(term || ':' || (tf::float8 * 2.2 / (tf::float8 + k))::real, ','), '')
                || '}/1000000000')::sparsevec
        FROM terms, norm
    );

CREATE TYPE rag.lexical_query AS (
    every_term tsquery,         -- chunks with any of the terms
    essential tsquery,          -- chunks with any of the terms that can lift a chunk to the top
    weights sparsevec,          -- idf by term
    best_possible float8,       -- upper bound of any chunk's score
    best_without_essential float8  -- upper bound of a chunk that holds none of the essential terms
);

-- Splits the terms as MaxScore does (Turtle and Flood, "Query evaluation: strategies and optimizations",
-- 1995): frequent terms that together cannot beat half of the best term's bound need not be looked up,
-- as long as the last chunk returned scores above their joint bound. The caller checks that.
CREATE FUNCTION rag.analyse_query(profile_id bigint, config regconfig, query_text text)
RETURNS rag.lexical_query LANGUAGE sql STABLE AS $$
    WITH terms AS (
        SELECT q.lexeme,
               cardinality(q.positions) * ln(1 + (n.chunks - n.df + 0.5) / (n.df + 0.5)) AS weight,
               n.df > 0.02 * n.chunks AS frequent
        FROM unnest(to_tsvector(config, query_text)) q
        LEFT JOIN rag.lexeme_stats s ON s.embedding_profile_id = profile_id AND s.lexeme = q.lexeme
        LEFT JOIN rag.index_state i ON i.embedding_profile_id = profile_id
        CROSS JOIN LATERAL (
            SELECT coalesce(s.chunk_count, 0) AS df,
                   greatest(i.chunks_at_statistics, s.chunk_count, 1) AS chunks
        ) n
        ORDER BY weight DESC, q.lexeme
        LIMIT 1000
    ), split AS (
        SELECT *,
               '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''' AS quoted,
               frequent AND 2.2 * sum(weight) FILTER (WHERE frequent) OVER (ORDER BY weight, lexeme)
                   <= 0.5 * 2.2 * max(weight) OVER () AS skipped
        FROM terms
    )
    SELECT ROW(
        string_agg(quoted, ' | ')::tsquery,
        string_agg(quoted, ' | ') FILTER (WHERE NOT skipped)::tsquery,
        (SELECT ('{' || string_agg(term || ':' || weight::real, ',') || '}/1000000000')::sparsevec
         FROM (SELECT rag.term_id(lexeme) AS term, sum(weight) AS weight FROM split GROUP BY 1) w),
        2.2 * sum(weight),
        coalesce(2.2 * sum(weight) FILTER (WHERE skipped), 0)
    )::rag.lexical_query
    FROM split
$$;
