-- depends: 0047.terms

-- What a text is found by beside its words (a name with its signs, a word without its accents) stands on the second line
-- of its terms. It is labelled, so that it makes no text longer than another (length is what BM25 holds against a text),
-- and counts a little less than a word, so that what is written like the query is first.
CREATE FUNCTION rag.text_terms(config regconfig, prepared text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN strpos(prepared, chr(10)) = 0 THEN to_tsvector(config, prepared)
                ELSE to_tsvector(config, split_part(prepared, chr(10), 1))
                     || setweight(to_tsvector(config, split_part(prepared, chr(10), 2)), 'A') END;

CREATE OR REPLACE FUNCTION rag.lexical_length(fts tsvector) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT coalesce(sum(cardinality(array_remove(weights, 'A'))), 0) FROM unnest(fts));

CREATE OR REPLACE FUNCTION rag.bm25_weights(fts tsvector, average_length double precision) RETURNS sparsevec
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        WITH terms AS MATERIALIZED (
            SELECT rag.term_id(lexeme) AS term, sum(own) AS own, sum(own + 0.9::float8 * (cardinality(positions) - own)) AS tf
            FROM unnest(fts), LATERAL (SELECT cardinality(array_remove(weights, 'A')) AS own) labels GROUP BY 1
        ), norm AS MATERIALIZED (
            SELECT 1.2 * (0.25 + 0.75 * sum(own)::float8 / greatest(average_length, 1)) AS k FROM terms
        )
        SELECT ('{' || coalesce(string_agg(term || ':' || (tf * 2.2 / (tf + k))::real, ','), '')
                || '}/1000000000')::sparsevec
        FROM terms, norm
    );
