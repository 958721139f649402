-- depends: 0003.lexical

-- Under row-level security Postgres does not use a GIN index on tsvector, because `@@` is not leakproof.
-- So the app does not search the tables: it calls rag.search, which runs as rag_search, takes the scope
-- from the transaction, proves that space and profile belong to it, and builds a statement whose profile
-- and tenant are literals, so that exactly one partition is planned. Without a valid scope: no rows.
--
-- Every function here is STABLE, because all statements of a STABLE function see the snapshot of the statement
-- that called it. In a VOLATILE one each has its own: candidates would be found in one version of a source and
-- their rows looked up in the next, which has none of them.

CREATE FUNCTION rag.profile_in_scope() RETURNS rag.embedding_profiles LANGUAGE sql STABLE AS $$
    SELECT p
    FROM rag.embedding_profiles p
    JOIN rag.knowledge_spaces k ON k.id = p.knowledge_space_id
    WHERE p.id::text = nullif(current_setting('rag.profile', true), '')
      AND k.id::text = nullif(current_setting('rag.space', true), '')
      AND k.tenant_id = rag.scope_tenant()
      AND rag.scope_bot() IS NOT NULL
      AND (k.bot_id = rag.scope_bot() OR k.visibility_scope = 'tenant')
      AND (k.visibility_scope <> 'user' OR rag.scope_user() IS NOT NULL)
      AND p.status IN ('ready', 'active')
$$;

-- The part of WHERE that depends on sources; '' where every source of the space may be seen, so that the
-- common case stays free of it. Filters: source_ids, source_types, locales, content_types (arrays),
-- metadata (an object that the source's metadata must contain).
CREATE FUNCTION rag.source_condition(profile rag.embedding_profiles, filters jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    conditions text := '';
    has_private boolean;
BEGIN
    SELECT EXISTS (
        SELECT FROM rag.knowledge_sources s
        WHERE s.knowledge_space_id = profile.knowledge_space_id AND s.scope_type = 'user'
    ) INTO has_private;
    IF has_private THEN
        conditions := format(' AND (s.scope_type = ''bot'' OR s.scope_user_id = %L)', rag.scope_user());
    END IF;
    IF filters ? 'source_ids' THEN
        conditions := conditions || format(' AND s.id::text = ANY (%L::text[])',
            ARRAY(SELECT jsonb_array_elements_text(filters -> 'source_ids')));
    END IF;
    IF filters ? 'source_types' THEN
        conditions := conditions || format(' AND s.source_type = ANY (%L::text[])',
            ARRAY(SELECT jsonb_array_elements_text(filters -> 'source_types')));
    END IF;
    IF filters ? 'locales' THEN
        conditions := conditions || format(' AND s.locale = ANY (%L::text[])',
            ARRAY(SELECT jsonb_array_elements_text(filters -> 'locales')));
    END IF;
    IF filters ? 'content_types' THEN
        conditions := conditions || format(' AND s.content_type = ANY (%L::text[])',
            ARRAY(SELECT jsonb_array_elements_text(filters -> 'content_types')));
    END IF;
    IF filters ? 'metadata' THEN
        conditions := conditions || format(' AND s.metadata @> %L::jsonb', filters -> 'metadata');
    END IF;
    IF conditions = '' THEN
        RETURN '';
    END IF;
    RETURN format(
        ' AND c.source_id IN (SELECT s.id FROM rag.knowledge_sources s WHERE s.knowledge_space_id = %L%s)',
        profile.knowledge_space_id, conditions);
END $$;

CREATE TYPE rag.candidates AS (ids uuid[], scores float8[]);

-- How the profile's vectors are cast, compared, and read as a similarity. Vectors have length 1, so each
-- distance d gives the cosine, but for rounding.
CREATE FUNCTION rag.vector_type(profile rag.embedding_profiles) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN format('%s(%s)', CASE WHEN profile.dimensions <= 2000 THEN 'vector' ELSE 'halfvec' END,
                  profile.dimensions);
CREATE FUNCTION rag.distance_operator(profile rag.embedding_profiles) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE profile.distance_metric WHEN 'cosine' THEN '<=>' WHEN 'ip' THEN '<#>' ELSE '<->' END;
CREATE FUNCTION rag.similarity_of_distance(profile rag.embedding_profiles) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN format('greatest(-1, least(1, %s))', CASE profile.distance_metric
        WHEN 'cosine' THEN '1 - d' WHEN 'ip' THEN '-d' ELSE '1 - d * d / 2' END);

-- The nearest chunks, nearest first; scores are similarities in [-1, 1]. The order-by is the bare operator
-- on the indexed expression, as the HNSW index needs it; `exact` adds 0 to it to keep the index out. A filter may
-- leave few chunks near the query: the index goes on for some 20,000, or until its memory is used up, and where
-- that was not enough every chunk that the filter lets through is read.
CREATE FUNCTION rag.dense_candidates(
    profile rag.embedding_profiles, query_vector vector, how_many int, source_condition text, exact boolean
) RETURNS rag.candidates LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_rows rag.candidates;
    ef int;
    nearest_first text := format(
        'SELECT array_agg(id ORDER BY d, id), array_agg(%6$s ORDER BY d, id) FROM (
             SELECT c.id, c.embedding::%1$s %2$s $1::%1$s AS d
             FROM rag.knowledge_chunks c
             WHERE c.embedding_profile_id = %3$s AND c.tenant_id = %4$L%5$s
             ORDER BY (c.embedding::%1$s %2$s $1::%1$s)',
        rag.vector_type(profile), rag.distance_operator(profile), profile.id, profile.tenant_id,
        source_condition, rag.similarity_of_distance(profile));
    the_first text := format(' LIMIT %s) nearest', how_many);
BEGIN
    SELECT i.ef_search INTO ef FROM rag.index_state i WHERE i.embedding_profile_id = profile.id;
    PERFORM set_config('hnsw.ef_search', least(greatest(coalesce(ef, 100), how_many), 1000)::text, true);
    PERFORM set_config('hnsw.iterative_scan', 'strict_order', true);
    IF NOT exact THEN
        EXECUTE nearest_first || the_first INTO found_rows USING query_vector;
    END IF;
    IF exact OR (source_condition <> '' AND coalesce(cardinality(found_rows.ids), 0) < how_many) THEN
        EXECUTE nearest_first || ' + 0' || the_first INTO found_rows USING query_vector;
    END IF;
    RETURN found_rows;
END $$;

-- The best chunks by BM25, best first; scores are shares of the best score that the query could give any
-- chunk, so in [0, 1]. The planner does not count what it costs to read a tsvector out of line and would rather
-- read them all, by heap or by primary key; these settings leave it the bitmap of the GIN index.
CREATE FUNCTION rag.lexical_candidates(
    profile rag.embedding_profiles, query rag.lexical_query, how_many int, source_condition text
) RETURNS rag.candidates LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET random_page_cost = 1 SET seq_page_cost = 1 AS $$
DECLARE
    found_rows rag.candidates;
    statement text := format(
        'SELECT array_agg(id ORDER BY d, id), array_agg(-d / $3 ORDER BY d, id) FROM (
             SELECT c.id, c.lexical <#> $1 AS d
             FROM rag.knowledge_chunks c
             WHERE c.embedding_profile_id = %s AND c.tenant_id = %L AND c.fts @@ $2%s
             ORDER BY c.lexical <#> $1, c.id LIMIT %s
         ) best',
        profile.id, profile.tenant_id, source_condition, how_many);
BEGIN
    EXECUTE statement INTO found_rows USING query.weights, query.essential, query.best_possible;
    IF query.best_without_essential > 0
       AND (coalesce(cardinality(found_rows.ids), 0) < how_many
            OR found_rows.scores[how_many] * query.best_possible < query.best_without_essential) THEN
        EXECUTE statement INTO found_rows USING query.weights, query.every_term, query.best_possible;
    END IF;
    RETURN found_rows;
END $$;

CREATE TYPE rag.both_candidates AS (dense rag.candidates, lexical rag.candidates);

-- Both scores of every chunk that is in either list, so that fusion compares what is, not what was cut off.
CREATE FUNCTION rag.complete_candidates(
    profile rag.embedding_profiles, query_vector vector, query rag.lexical_query,
    dense rag.candidates, lexical rag.candidates
) RETURNS rag.both_candidates LANGUAGE plpgsql STABLE AS $$
DECLARE
    ids uuid[];
    dense_scores float8[];
    lexical_scores float8[];
BEGIN
    EXECUTE format(
        'SELECT array_agg(id), array_agg(%s), array_agg(-l / $3) FROM (
             SELECT c.id, c.embedding::%2$s %3$s $1::%2$s AS d, c.lexical <#> $2 AS l
             FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %4$s AND c.id = ANY ($4)
         ) both_scores',
        rag.similarity_of_distance(profile), rag.vector_type(profile), rag.distance_operator(profile), profile.id)
    INTO ids, dense_scores, lexical_scores
    USING query_vector, query.weights, query.best_possible, dense.ids || lexical.ids;
    RETURN ROW(ROW(ids, dense_scores)::rag.candidates, ROW(ids, lexical_scores)::rag.candidates);
END $$;

-- One ranking from two. 'minmax': each list's scores are stretched from its floor to its best, to [0, 1], and
-- summed by weight; the floor of the words is 0, that of the vectors is what unrelated texts of the profile
-- score (after Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval", 2023).
-- 'rrf': weighted 61 / (60 + rank). Absent from a list counts 0, listed twice counts once, ties go to the
-- smaller id; where one list is empty the other decides alone, and the floor of its scores is the lowest there is.
CREATE FUNCTION rag.fuse(
    dense rag.candidates, lexical rag.candidates, dense_weight float8, method text, dense_floor float8
) RETURNS TABLE (id uuid, score float8, dense_score float8, lexical_score float8)
LANGUAGE sql IMMUTABLE AS $$
    WITH listed AS (
        SELECT true AS is_dense, u.id, max(u.score) AS score,
               CASE WHEN cardinality((lexical).ids) > 0 THEN dense_floor ELSE -1 END AS floor_score,
               CASE WHEN cardinality((lexical).ids) > 0 THEN dense_weight ELSE 1 END AS weight
        FROM unnest((dense).ids, (dense).scores) AS u (id, score) GROUP BY u.id
        UNION ALL
        SELECT false, u.id, max(u.score), 0,
               CASE WHEN cardinality((dense).ids) > 0 THEN 1 - dense_weight ELSE 1 END
        FROM unnest((lexical).ids, (lexical).scores) AS u (id, score) GROUP BY u.id
    ), scaled AS (
        SELECT l.is_dense, l.id, l.score, l.weight,
               CASE WHEN method = 'rrf'
                    THEN 61.0 / (60 + row_number() OVER (PARTITION BY l.is_dense ORDER BY l.score DESC, l.id))
                    WHEN max(l.score) OVER side <= l.floor_score THEN 0
                    ELSE greatest(l.score - l.floor_score, 0) / (max(l.score) OVER side - l.floor_score)
               END AS share
        FROM listed l
        WINDOW side AS (PARTITION BY l.is_dense)
    )
    SELECT s.id,
           sum(s.share * s.weight)::float8 AS score,
           max(s.score) FILTER (WHERE s.is_dense),
           max(s.score) FILTER (WHERE NOT s.is_dense)
    FROM scaled s
    GROUP BY s.id
    ORDER BY 2 DESC, s.id
$$;

-- What the best of both lists amounts to, in [0, 1]. Stretched scores only rank: the best chunk has about 1 even
-- where nothing fits. Times this, they say how much is there, and a low score means "no reliable source".
CREATE FUNCTION rag.trust(dense rag.candidates, lexical rag.candidates, dense_weight float8)
RETURNS float8 LANGUAGE sql IMMUTABLE
    RETURN (
        SELECT CASE WHEN best_lexical IS NULL THEN greatest(best_dense, 0)
                    WHEN best_dense IS NULL THEN best_lexical
                    ELSE dense_weight * greatest(best_dense, 0) + (1 - dense_weight) * best_lexical END
        FROM (
            SELECT (SELECT max(score) FROM unnest((dense).scores) AS score) AS best_dense,
                   (SELECT max(score) FROM unnest((lexical).scores) AS score) AS best_lexical
        ) best
    );

CREATE FUNCTION rag.search(
    mode text,
    query_vector vector,
    query_text text,
    top_k int,
    candidates int DEFAULT 100,
    dense_weight float8 DEFAULT 0.5,
    fusion text DEFAULT 'minmax',
    filters jsonb DEFAULT '{}',
    exact boolean DEFAULT false
) RETURNS TABLE (
    chunk_id uuid, source_id uuid, source_name text, source_metadata jsonb, canonical_url text,
    content text, token_count int, citation jsonb, metadata jsonb,
    score float8, dense_score float8, lexical_score float8
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    profile rag.embedding_profiles := rag.profile_in_scope();
    dense rag.candidates;
    lexical rag.candidates;
    completed rag.both_candidates;
    query rag.lexical_query;
    dense_floor float8;
    trust float8 := 1;
    source_condition text;
    depth int := CASE WHEN mode = 'hybrid' THEN greatest(candidates, top_k) ELSE top_k END;
BEGIN
    IF profile.id IS NULL THEN
        RETURN;
    END IF;
    IF mode NOT IN ('dense', 'lexical', 'hybrid') OR top_k NOT BETWEEN 1 AND 1000
       OR candidates NOT BETWEEN 1 AND 1000 OR fusion NOT IN ('minmax', 'rrf')
       OR NOT dense_weight BETWEEN 0 AND 1 THEN
        RAISE EXCEPTION 'rag.search: bad mode, top_k, candidates, fusion or dense_weight'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    source_condition := rag.source_condition(profile, filters);
    IF mode <> 'lexical' THEN
        dense := rag.dense_candidates(profile, query_vector, depth, source_condition, exact);
    END IF;
    IF mode <> 'dense' THEN
        query := rag.analyse_query(profile.id, (profile.lexical ->> 'language')::regconfig, query_text);
        IF query.every_term IS NOT NULL THEN
            lexical := rag.lexical_candidates(profile, query, depth, source_condition);
        END IF;
    END IF;
    IF mode = 'hybrid' AND fusion = 'minmax' AND cardinality(dense.ids) > 0 AND cardinality(lexical.ids) > 0 THEN
        completed := rag.complete_candidates(profile, query_vector, query, dense, lexical);
        dense := completed.dense;
        lexical := completed.lexical;
    END IF;
    IF mode = 'hybrid' AND fusion = 'minmax' THEN
        trust := rag.trust(dense, lexical, dense_weight);
    END IF;
    SELECT i.dense_floor INTO dense_floor FROM rag.index_state i WHERE i.embedding_profile_id = profile.id;
    -- Ranked before they are multiplied: where the trust is 0 all scores are.
    -- LATERAL ... LIMIT 1: looked up row by row, also while statistics say that a table just filled is empty.
    RETURN QUERY EXECUTE format(
        'SELECT c.id, s.id, s.name, s.metadata, s.canonical_url, c.content, c.token_count, c.citation,
                c.metadata, f.score * $6, f.dense_score, f.lexical_score
         FROM (
             SELECT id, %s AS score, dense_score, lexical_score FROM rag.fuse($1, $2, $3, $4, $5)
             ORDER BY 2 DESC, 1 LIMIT %s
         ) f
         CROSS JOIN LATERAL (
             SELECT c.id, c.source_id, c.content, c.token_count, c.citation, c.metadata
             FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %s AND c.id = f.id LIMIT 1
         ) c
         CROSS JOIN LATERAL (
             SELECT s.id, s.name, s.metadata, s.canonical_url
             FROM rag.knowledge_sources s WHERE s.id = c.source_id AND s.tenant_id = %L LIMIT 1
         ) s
         CROSS JOIN LATERAL (
             SELECT FROM rag.source_profiles sp
             WHERE sp.embedding_profile_id = %3$s AND sp.source_id = s.id AND sp.status = ''ready'' LIMIT 1
         ) sp
         ORDER BY f.score DESC, c.id',
        CASE mode WHEN 'dense' THEN 'dense_score' WHEN 'lexical' THEN 'lexical_score' ELSE 'score' END,
        top_k, profile.id, profile.tenant_id)
    USING dense, lexical, dense_weight, fusion, coalesce(dense_floor, 0), trust;
END $$;

-- Hand everything that reads tables to the role that may read them, and let only the app call the door.
GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION
    rag.analyse_query, rag.profile_in_scope, rag.source_condition, rag.dense_candidates,
    rag.lexical_candidates, rag.complete_candidates, rag.search
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.search TO rag_app;
ALTER FUNCTION rag.analyse_query OWNER TO rag_search;
ALTER FUNCTION rag.profile_in_scope OWNER TO rag_search;
ALTER FUNCTION rag.source_condition OWNER TO rag_search;
ALTER FUNCTION rag.dense_candidates OWNER TO rag_search;
ALTER FUNCTION rag.lexical_candidates OWNER TO rag_search;
ALTER FUNCTION rag.complete_candidates OWNER TO rag_search;
ALTER FUNCTION rag.search OWNER TO rag_search;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
