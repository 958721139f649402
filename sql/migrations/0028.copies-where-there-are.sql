-- depends: 0027.next-tries 0014.search-arguments

-- Most answers hold no text that lies at another place too. They are told apart by one look into the index of texts
-- while their passages are read; only where there are copies are these collected, and lists that they fill read on.

CREATE TYPE rag.passage AS (
    chunk_id uuid, source_id uuid, source_name text, source_uri text, source_metadata jsonb, canonical_url text,
    content text, token_count int, citation jsonb, metadata jsonb,
    score float8, dense_score float8, lexical_score float8, also_at jsonb,
    space text  -- with whom the source is shared: the bot's users, the tenant's bots, or one user alone
);
CREATE TYPE rag.passages AS (rows rag.passage[], has_copies boolean);

-- The passages of the first chunks of a ranking, and whether one of their texts lies at another place of the scope.
-- LATERAL ... LIMIT 1: looked up row by row, also while statistics say that a table just filled is empty.
CREATE FUNCTION rag.passages_of(
    profile rag.embedding_profiles, ranking rag.ranking, also_at jsonb[], top_k int, source_condition text,
    copies boolean
) RETURNS rag.passages LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    found rag.passages;
BEGIN
    EXECUTE format(
        'SELECT array_agg(ROW(one.id, s.id, s.name, s.external_id, s.metadata, s.canonical_url, one.content,
                    one.token_count, one.citation, one.metadata, f.score, f.dense_score, f.lexical_score,
                    coalesce(f.also_at, ''[]''),
                    CASE WHEN s.scope_type = ''user'' THEN ''user'' ELSE %5$L END)::rag.passage ORDER BY f.place),
                bool_or(%4$s)
         FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS f (id, score, dense_score, lexical_score, also_at, place)
         CROSS JOIN LATERAL (
             SELECT c.id, c.source_id, c.content, c.token_count, c.citation, c.metadata
             FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %1$s AND c.id = f.id LIMIT 1
         ) one
         CROSS JOIN LATERAL (
             SELECT s.id, s.name, s.external_id, s.metadata, s.canonical_url, s.scope_type
             FROM rag.knowledge_sources s WHERE s.id = one.source_id AND s.tenant_id = %2$L LIMIT 1
         ) s
         CROSS JOIN LATERAL (
             SELECT FROM rag.source_profiles sp
             WHERE sp.embedding_profile_id = %1$s AND sp.source_id = s.id AND sp.status = ''ready'' LIMIT 1
         ) sp',
        profile.id, profile.tenant_id, source_condition,
        CASE WHEN copies THEN 'false' ELSE format(
            'EXISTS (SELECT FROM rag.knowledge_chunks c
                     WHERE c.embedding_profile_id = %s AND rag.text_id(c.content) = rag.text_id(one.content)
                       AND c.id <> one.id%s)', profile.id, source_condition) END,
        (SELECT k.visibility_scope FROM rag.knowledge_spaces k WHERE k.id = profile.knowledge_space_id))
    INTO found
    USING ranking.ids[1:top_k], ranking.scores[1:top_k], ranking.dense_scores[1:top_k], ranking.lexical_scores[1:top_k],
        also_at;
    RETURN found;
END $$;

-- One of the two lists as it was found, or where copies fill it, each of them left out but the first, and the list
-- continued with texts that it does not hold, until it has at least so many if there are as many. What it replaces,
-- rag.listed_texts, stays for searches that have begun by now.
CREATE FUNCTION rag.filled_list(
    listed rag.candidates, is_dense boolean, profile rag.embedding_profiles, query_vector vector,
    query rag.lexical_query, depth int, source_condition text, exact boolean, at_least int
) RETURNS rag.candidates LANGUAGE plpgsql STABLE AS $$
DECLARE
    next_part rag.candidates := listed;
    firsts rag.first_chunks;
    how_many int := depth;
    condition text;
BEGIN
    WHILE coalesce(cardinality(next_part.ids), 0) >= how_many LOOP
        firsts := rag.first_of_texts(profile, listed.ids, at_least);
        EXIT WHEN cardinality(firsts.ids) >= at_least;
        SELECT array_agg(l.id ORDER BY l.place), array_agg(l.score ORDER BY l.place) INTO listed
        FROM unnest(listed.ids, listed.scores) WITH ORDINALITY AS l (id, score, place)
        WHERE l.id = ANY (firsts.ids);
        condition := source_condition || format(' AND rag.text_id(c.content) <> ALL (%L::uuid[])', firsts.texts);
        how_many := least(how_many * 4, 1000);
        IF is_dense THEN
            next_part := rag.dense_candidates(profile, query_vector, how_many, condition, exact);
        ELSE
            next_part := rag.lexical_candidates(profile, query, how_many, condition);
        END IF;
        listed := ROW(listed.ids || next_part.ids, listed.scores || next_part.scores)::rag.candidates;
    END LOOP;
    RETURN listed;
END $$;

-- One ranking of the two lists. Ranked before the scores are multiplied by their trust: where that is 0 all are.
CREATE FUNCTION rag.ranked(
    mode text, profile rag.embedding_profiles, query_vector vector, query rag.lexical_query,
    dense rag.candidates, lexical rag.candidates, dense_weight float8, fusion text
) RETURNS rag.ranking LANGUAGE plpgsql STABLE AS $$
DECLARE
    completed rag.both_candidates := ROW(dense, lexical)::rag.both_candidates;
    trust float8 := 1;
    dense_floor float8;
    ranking rag.ranking;
BEGIN
    IF mode = 'hybrid' AND fusion = 'minmax' THEN
        IF cardinality(dense.ids) > 0 AND cardinality(lexical.ids) > 0 THEN
            completed := rag.complete_candidates(profile, query_vector, query, dense, lexical);
        END IF;
        trust := rag.trust(completed.dense, completed.lexical, dense_weight);
    END IF;
    SELECT i.dense_floor INTO dense_floor FROM rag.index_state i WHERE i.embedding_profile_id = profile.id;
    SELECT array_agg(f.id ORDER BY f.own DESC, f.id), array_agg(f.own * trust ORDER BY f.own DESC, f.id),
           array_agg(f.dense_score ORDER BY f.own DESC, f.id), array_agg(f.lexical_score ORDER BY f.own DESC, f.id)
    INTO ranking
    FROM (
        SELECT f.id, f.dense_score, f.lexical_score,
               CASE mode WHEN 'dense' THEN f.dense_score WHEN 'lexical' THEN f.lexical_score ELSE f.score END AS own
        FROM rag.fuse(completed.dense, completed.lexical, dense_weight, fusion, coalesce(dense_floor, 0)) f
    ) f;
    RETURN ranking;
END $$;

GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION rag.passages_of, rag.filled_list, rag.ranked FROM PUBLIC;
ALTER FUNCTION rag.passages_of OWNER TO rag_search;
ALTER FUNCTION rag.filled_list OWNER TO rag_search;
ALTER FUNCTION rag.ranked OWNER TO rag_search;
SET LOCAL ROLE rag_search;

-- One space of the scope, with the profile that the scope names for it; rag.search is what programs of the version before
-- call.
CREATE FUNCTION rag.search_space(
    mode text,
    query_vector vector,
    query_text text,
    top_k int,
    copies boolean,
    candidates int DEFAULT 100,
    dense_weight float8 DEFAULT 0.5,
    fusion text DEFAULT 'minmax',
    filters jsonb DEFAULT '{}',
    exact boolean DEFAULT false
) RETURNS SETOF rag.passage LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    profile rag.embedding_profiles := rag.profile_in_scope();
    dense rag.candidates;
    lexical rag.candidates;
    lists rag.both_candidates;
    query rag.lexical_query;
    ranking rag.ranking;
    found rag.passages;
    firsts uuid[];
    elsewhere jsonb[];
    source_condition text;
    depth int := CASE WHEN mode = 'hybrid' THEN greatest(candidates, top_k) ELSE top_k END;
BEGIN
    PERFORM rag.check_search(mode, query_vector, query_text, top_k, copies, candidates, dense_weight, fusion, filters, exact);
    IF profile.id IS NULL THEN
        RETURN;
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
    ranking := rag.ranked(mode, profile, query_vector, query, dense, lexical, dense_weight, fusion);
    found := rag.passages_of(profile, ranking, NULL, top_k, source_condition, copies);
    IF found.has_copies IS NOT TRUE THEN
        RETURN QUERY SELECT * FROM unnest(found.rows);
        RETURN;
    END IF;
    lists := ROW(
        rag.filled_list(dense, true, profile, query_vector, query, depth, source_condition, exact, top_k),
        rag.filled_list(lexical, false, profile, query_vector, query, depth, source_condition, exact, top_k));
    IF lists.dense IS DISTINCT FROM dense OR lists.lexical IS DISTINCT FROM lexical THEN
        ranking := rag.ranked(mode, profile, query_vector, query, lists.dense, lists.lexical, dense_weight, fusion);
    END IF;
    firsts := (rag.first_of_texts(profile, ranking.ids, top_k)).ids[1:top_k];
    SELECT array_agg(p.stands ORDER BY r.place), array_agg(r.score ORDER BY r.place),
           array_agg(r.dense_score ORDER BY r.place), array_agg(r.lexical_score ORDER BY r.place),
           array_agg(p.also_at ORDER BY r.place)
    INTO ranking.ids, ranking.scores, ranking.dense_scores, ranking.lexical_scores, elsewhere
    FROM unnest(ranking.ids, ranking.scores, ranking.dense_scores, ranking.lexical_scores)
         WITH ORDINALITY AS r (id, score, dense_score, lexical_score, place)
    JOIN rag.places_of_texts(profile, firsts, source_condition) p ON p.id = r.id;
    found := rag.passages_of(profile, ranking, elsewhere, top_k, source_condition, true);
    RETURN QUERY SELECT * FROM unnest(found.rows);
END $$;
REVOKE EXECUTE ON FUNCTION rag.search_space FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.search_space TO rag_app;

CREATE OR REPLACE FUNCTION rag.search(
    mode text,
    query_vector vector,
    query_text text,
    top_k int,
    copies boolean,
    candidates int DEFAULT 100,
    dense_weight float8 DEFAULT 0.5,
    fusion text DEFAULT 'minmax',
    filters jsonb DEFAULT '{}',
    exact boolean DEFAULT false
) RETURNS TABLE (
    chunk_id uuid, source_id uuid, source_name text, source_uri text, source_metadata jsonb, canonical_url text,
    content text, token_count int, citation jsonb, metadata jsonb,
    score float8, dense_score float8, lexical_score float8, also_at jsonb
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    SELECT chunk_id, source_id, source_name, source_uri, source_metadata, canonical_url, content, token_count, citation,
           metadata, score, dense_score, lexical_score, also_at
    FROM rag.search_space(mode, query_vector, query_text, top_k, copies, candidates, dense_weight, fusion, filters, exact)
$$;
RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
