-- depends: 0054.partition-owners

-- How an index keeps the vectors of a profile: whole (vector), with halves of their digits (halfvec), or as one bit for
-- each dimension (bit). What it finds is put in order by the whole vectors of the table: scores are the true ones, and
-- the same whether a chunk was found by meaning or by words. An exact search reads whole vectors in any case.

-- A profile of before this could be said has `vector`, and `halfvec` from where pgvector indexes no other.
CREATE FUNCTION rag.storage_of(profile rag.embedding_profiles) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN coalesce(profile.index ->> 'storage', CASE WHEN profile.dimensions <= 2000 THEN 'vector' ELSE 'halfvec' END);

CREATE OR REPLACE FUNCTION rag.vector_type(profile rag.embedding_profiles) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN format('%s(%s)', rag.storage_of(profile), profile.dimensions);

-- What the index puts chunks in order by, as it is written there; vectors have length 1, so that the bits in which two
-- differ grow with their angle, whatever the metric.
CREATE FUNCTION rag.index_distance(profile rag.embedding_profiles) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE rag.storage_of(profile)
        WHEN 'bit' THEN format(
            '(binary_quantize(c.embedding)::%1$s <~> binary_quantize($1)::%1$s)', rag.vector_type(profile))
        ELSE format('(c.embedding::%1$s %2$s $1::%1$s)', rag.vector_type(profile), rag.distance_operator(profile)) END;

GRANT CREATE ON SCHEMA rag TO rag_search;
SET LOCAL ROLE rag_search;

-- The nearest chunks, nearest first; scores are similarities in [-1, 1]. The order-by is the bare operator on the
-- indexed expression, as the HNSW index needs it; `exact` adds 0 to the distance to keep the index out. With halves of
-- the digits a few more are looked at than are to be found: the last of those may have changed places with the next (of
-- 8 collections, no chunk then was missing). With bits it is `oversampling` times as many, since they only tell who may
-- be near. A filter may leave few chunks near the query: the index goes on for some 20,000, or until its memory is used
-- up, and where that was not enough every chunk that the filter lets through is read.
CREATE OR REPLACE FUNCTION rag.dense_candidates(
    profile rag.embedding_profiles, query_vector vector, how_many int, source_condition text, exact boolean
) RETURNS rag.candidates LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_rows rag.candidates;
    whole boolean := rag.storage_of(profile) = 'vector';
    by_index text := rag.index_distance(profile);
    distance text := format('(c.embedding %s $1)', rag.distance_operator(profile));
    best text := format(
        'SELECT array_agg(id ORDER BY d, id), array_agg(%s ORDER BY d, id)', rag.similarity_of_distance(profile));
    chunks text := format(
        'FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %s AND c.tenant_id = %L%s',
        profile.id, profile.tenant_id, source_condition);
    ef int;
    times int;
    looked_at int;
BEGIN
    SELECT i.ef_search, i.oversampling INTO ef, times
    FROM rag.index_state i WHERE i.embedding_profile_id = profile.id;
    looked_at := CASE rag.storage_of(profile)
        WHEN 'vector' THEN how_many
        WHEN 'halfvec' THEN how_many + how_many / 10 + 2
        ELSE least(how_many * coalesce(times, 20), greatest(1000, 4 * how_many)) END;
    PERFORM set_config('hnsw.ef_search', least(greatest(coalesce(ef, 100), looked_at), 1000)::text, true);
    -- What is put in order afterwards need not come in order.
    PERFORM set_config('hnsw.iterative_scan', CASE WHEN whole THEN 'strict_order' ELSE 'relaxed_order' END, true);
    IF NOT exact AND whole THEN
        EXECUTE format(
            '%s FROM (SELECT c.id, %s AS d %s ORDER BY %2$s LIMIT %4$s) nearest', best, by_index, chunks, how_many)
        INTO found_rows USING query_vector;
    ELSIF NOT exact THEN
        EXECUTE format(
            '%s FROM (SELECT c.id, %s AS d FROM (SELECT c.id, c.embedding %s ORDER BY %s LIMIT %s) c
                      ORDER BY d, c.id LIMIT %s) nearest', best, distance, chunks, by_index, looked_at, how_many)
        INTO found_rows USING query_vector;
    END IF;
    IF exact OR (source_condition <> '' AND coalesce(cardinality(found_rows.ids), 0) < how_many) THEN
        EXECUTE format(
            '%s FROM (SELECT c.id, %s AS d %s ORDER BY %2$s + 0 LIMIT %4$s) nearest', best, distance, chunks, how_many)
        INTO found_rows USING query_vector;
    END IF;
    RETURN found_rows;
END $$;

-- The score of each list for each chunk that is in one of the two.
CREATE OR REPLACE FUNCTION rag.complete_candidates(
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
             SELECT c.id, c.embedding %s $1 AS d, c.lexical <#> $2 AS l
             FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %s AND c.id = ANY ($4)
         ) both_scores',
        rag.similarity_of_distance(profile), rag.distance_operator(profile), profile.id)
    INTO ids, dense_scores, lexical_scores
    USING query_vector, query.weights, query.best_possible, dense.ids || lexical.ids;
    RETURN ROW(ROW(ids, dense_scores)::rag.candidates, ROW(ids, lexical_scores)::rag.candidates);
END $$;

RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;

-- Null where no index was measured. A new column locks the table against readers, so this waits for a moment in which
-- nobody reads, 20 ms at a time, and is the last that happens before all are let in again.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            ALTER TABLE rag.index_state ADD COLUMN oversampling smallint CHECK (oversampling BETWEEN 1 AND 1000);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
