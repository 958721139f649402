-- depends: 0024.same-text 0013.actor

-- What a search is asked, checked by name. A comparison with NULL is neither true nor false, so a check of bounds lets
-- it pass; and a filter that is NULL, misspelt or of the wrong kind would leave a search wider than it was meant.
CREATE FUNCTION rag.check_search(
    mode text, query_vector vector, query_text text, top_k int, copies boolean, candidates int, dense_weight float8,
    fusion text, filters jsonb, exact boolean
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    missing text := concat_ws(', ',
        CASE WHEN mode IS NULL THEN 'mode' END, CASE WHEN top_k IS NULL THEN 'top_k' END,
        CASE WHEN copies IS NULL THEN 'copies' END, CASE WHEN candidates IS NULL THEN 'candidates' END,
        CASE WHEN dense_weight IS NULL THEN 'dense_weight' END, CASE WHEN fusion IS NULL THEN 'fusion' END,
        CASE WHEN filters IS NULL THEN 'filters' END, CASE WHEN exact IS NULL THEN 'exact' END,
        CASE WHEN query_vector IS NULL AND mode IN ('dense', 'hybrid') THEN 'query_vector' END,
        CASE WHEN query_text IS NULL AND mode IN ('lexical', 'hybrid') THEN 'query_text' END);
    wrong text;
BEGIN
    IF missing <> '' THEN
        RAISE EXCEPTION 'rag.search: % must not be null', missing USING ERRCODE = 'null_value_not_allowed';
    END IF;
    wrong := concat_ws(', ',
        CASE WHEN mode NOT IN ('dense', 'lexical', 'hybrid') THEN 'mode' END,
        CASE WHEN top_k NOT BETWEEN 1 AND 1000 THEN 'top_k' END,
        CASE WHEN candidates NOT BETWEEN 1 AND 1000 THEN 'candidates' END,
        CASE WHEN NOT dense_weight BETWEEN 0 AND 1 THEN 'dense_weight' END,
        CASE WHEN fusion NOT IN ('minmax', 'rrf') THEN 'fusion' END);
    IF jsonb_typeof(filters) <> 'object' THEN
        wrong := concat_ws(', ', nullif(wrong, ''), 'filters');
    ELSIF filters <> '{}' THEN
        wrong := concat_ws(', ', nullif(wrong, ''), (
            SELECT string_agg(format('filters: %s', f.key), ', ' ORDER BY f.key) FROM jsonb_each(filters) f
            WHERE CASE WHEN f.key IN ('source_ids', 'source_types', 'locales', 'content_types')
                       THEN jsonb_typeof(f.value) <> 'array' OR jsonb_path_exists(f.value, '$[*] ? (@.type() <> "string")')
                       WHEN f.key = 'metadata' THEN jsonb_typeof(f.value) <> 'object'
                       ELSE true END));
    END IF;
    IF wrong <> '' THEN
        RAISE EXCEPTION 'rag.search: bad %', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
REVOKE EXECUTE ON FUNCTION rag.check_search FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.check_search TO rag_search;

-- The search as it is, with this check first and without its own.
DO $$
DECLARE
    search regprocedure := 'rag.search(text, vector, text, int, boolean, int, float8, text, jsonb, boolean)';
    before text := pg_get_functiondef(search);
    after text := regexp_replace(before, '    IF mode NOT IN .*?    END IF;\n', '');
BEGIN
    after := regexp_replace(after, '\nBEGIN\n', E'\nBEGIN\n    PERFORM rag.check_search(mode, query_vector, query_text,'
        ' top_k, copies, candidates, dense_weight, fusion, filters, exact);\n');
    IF length(after) - length(before) NOT BETWEEN -400 AND -100 THEN
        RAISE EXCEPTION 'rag.search is not the function that this migration changes';
    END IF;
    GRANT CREATE ON SCHEMA rag TO rag_search;
    SET LOCAL ROLE rag_search;
    EXECUTE after;
    SET LOCAL ROLE rag_owner;
    REVOKE CREATE ON SCHEMA rag FROM rag_search;
END $$;
