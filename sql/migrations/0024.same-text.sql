-- depends: 0012.profile-work

-- One text may lie at several places: a file that was copied, a notice on every page. A search returns it once, and
-- says where else it is. Texts are the same if their characters are; what is private to others, or filtered out, is
-- no place of it.

CREATE FUNCTION rag.text_id(content text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN md5(content)::uuid;
CREATE INDEX knowledge_chunks_text ON rag.knowledge_chunks (rag.text_id(content));

CREATE TYPE rag.first_chunks AS (ids uuid[], texts uuid[]);

-- Of chunks in their order the first of each text, and what identifies the texts. It reads on until it has `at_least`
-- of them, and may have more.
CREATE FUNCTION rag.first_of_texts(profile rag.embedding_profiles, chunks uuid[], at_least int)
RETURNS rag.first_chunks LANGUAGE plpgsql STABLE AS $$
DECLARE
    found rag.first_chunks;
    taken int := at_least;
BEGIN
    LOOP
        EXECUTE format(
            'SELECT array_agg(id ORDER BY place), array_agg(text ORDER BY place) FROM (
                 SELECT DISTINCT ON (c.text) i.id, i.place, c.text
                 FROM unnest($1) WITH ORDINALITY AS i (id, place)
                 CROSS JOIN LATERAL (
                     SELECT rag.text_id(c.content) AS text
                     FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %s AND c.id = i.id LIMIT 1
                 ) c
                 ORDER BY c.text, i.place
             ) firsts', profile.id)
        INTO found USING chunks[1:taken];
        EXIT WHEN coalesce(cardinality(found.ids), 0) >= at_least OR taken >= coalesce(cardinality(chunks), 0);
        taken := taken * 4;
    END LOOP;
    RETURN found;
END $$;

-- One of the two lists, with at least so many texts if there are as many. Where copies fill it, each is left out but
-- the first, and the list goes on with texts that it does not hold.
CREATE FUNCTION rag.listed_texts(
    is_dense boolean, profile rag.embedding_profiles, query_vector vector, query rag.lexical_query, depth int,
    source_condition text, exact boolean, at_least int
) RETURNS rag.candidates LANGUAGE plpgsql STABLE AS $$
DECLARE
    listed rag.candidates;
    next_part rag.candidates;
    firsts rag.first_chunks;
    how_many int := depth;
    condition text := source_condition;
BEGIN
    LOOP
        IF is_dense THEN
            next_part := rag.dense_candidates(profile, query_vector, how_many, condition, exact);
        ELSE
            next_part := rag.lexical_candidates(profile, query, how_many, condition);
        END IF;
        listed := ROW(listed.ids || next_part.ids, listed.scores || next_part.scores)::rag.candidates;
        EXIT WHEN at_least = 0 OR coalesce(cardinality(next_part.ids), 0) < how_many;
        firsts := rag.first_of_texts(profile, listed.ids, at_least);
        EXIT WHEN cardinality(firsts.ids) >= at_least;
        SELECT array_agg(l.id ORDER BY l.place), array_agg(l.score ORDER BY l.place) INTO listed
        FROM unnest(listed.ids, listed.scores) WITH ORDINALITY AS l (id, score, place)
        WHERE l.id = ANY (firsts.ids);
        condition := source_condition || format(' AND rag.text_id(c.content) <> ALL (%L::uuid[])', firsts.texts);
        how_many := least(how_many * 4, 1000);
    END LOOP;
    RETURN listed;
END $$;

CREATE TYPE rag.ranking AS (ids uuid[], scores float8[], dense_scores float8[], lexical_scores float8[]);

-- For each chunk the one that stands for its text, and where else the text is, at most 100 places. Of copies that any
-- search scores alike, that of the source that came first stands for all, so that it is the same one every time.
-- Tables that were just filled have no statistics: it must not read them whole.
CREATE FUNCTION rag.places_of_texts(profile rag.embedding_profiles, chunks uuid[], source_condition text)
RETURNS TABLE (id uuid, stands uuid, also_at jsonb) LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT i.id, p.stands, p.also_at
         FROM unnest($1) AS i (id)
         CROSS JOIN LATERAL (
             SELECT c.content, c.embedding
             FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %1$s AND c.id = i.id LIMIT 1
         ) best
         CROSS JOIN LATERAL (
             SELECT min(copy.id::text) FILTER (WHERE copy.place = 1)::uuid AS stands,
                    coalesce(jsonb_agg(jsonb_build_object(
                        ''source_id'', copy.source_id, ''source_name'', copy.name, ''uri'', copy.external_id,
                        ''metadata'', copy.metadata, ''url'', copy.canonical_url,
                        ''citation'', copy.citation) ORDER BY copy.place)
                        FILTER (WHERE copy.place BETWEEN 2 AND 101), ''[]'') AS also_at
             FROM (
                 SELECT c.id, c.citation, s.id AS source_id, s.name, s.external_id, s.metadata, s.canonical_url,
                        row_number() OVER (ORDER BY c.embedding = best.embedding DESC, s.created_at,
                            length(s.external_id), s.external_id, c.chunk_index) AS place
                 FROM rag.knowledge_chunks c
                 JOIN rag.knowledge_sources s ON s.id = c.source_id AND s.tenant_id = %2$L
                 JOIN rag.source_profiles sp ON sp.embedding_profile_id = %1$s AND sp.source_id = s.id
                     AND sp.status = ''ready''
                 WHERE c.embedding_profile_id = %1$s AND c.tenant_id = %2$L
                   AND rag.text_id(c.content) = rag.text_id(best.content) AND c.content = best.content%3$s
             ) copy
         ) p
         WHERE p.stands IS NOT NULL',
        profile.id, profile.tenant_id, source_condition)
    USING chunks;
END $$;

-- As before, and with `copies` false each text once. `also_at` lists the other places of a text that was asked for once.
CREATE FUNCTION rag.search(
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
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    profile rag.embedding_profiles := rag.profile_in_scope();
    dense rag.candidates;
    lexical rag.candidates;
    completed rag.both_candidates;
    query rag.lexical_query;
    ranking rag.ranking;
    firsts rag.first_chunks;
    dense_floor float8;
    trust float8 := 1;
    source_condition text;
    depth int := CASE WHEN mode = 'hybrid' THEN greatest(candidates, top_k) ELSE top_k END;
    at_least int := CASE WHEN copies THEN 0 ELSE top_k END;
BEGIN
    IF profile.id IS NULL THEN
        RETURN;
    END IF;
    IF mode NOT IN ('dense', 'lexical', 'hybrid') OR top_k NOT BETWEEN 1 AND 1000
       OR candidates NOT BETWEEN 1 AND 1000 OR fusion NOT IN ('minmax', 'rrf')
       OR NOT dense_weight BETWEEN 0 AND 1 OR copies IS NULL THEN
        RAISE EXCEPTION 'rag.search: bad mode, top_k, copies, candidates, fusion or dense_weight'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    source_condition := rag.source_condition(profile, filters);
    IF mode <> 'lexical' THEN
        dense := rag.listed_texts(true, profile, query_vector, NULL, depth, source_condition, exact, at_least);
    END IF;
    IF mode <> 'dense' THEN
        query := rag.analyse_query(profile.id, (profile.lexical ->> 'language')::regconfig, query_text);
        IF query.every_term IS NOT NULL THEN
            lexical := rag.listed_texts(false, profile, NULL, query, depth, source_condition, exact, at_least);
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
    SELECT array_agg(f.id ORDER BY f.own DESC, f.id), array_agg(f.own * trust ORDER BY f.own DESC, f.id),
           array_agg(f.dense_score ORDER BY f.own DESC, f.id), array_agg(f.lexical_score ORDER BY f.own DESC, f.id)
    INTO ranking
    FROM (
        SELECT f.id, f.dense_score, f.lexical_score,
               CASE mode WHEN 'dense' THEN f.dense_score WHEN 'lexical' THEN f.lexical_score ELSE f.score END AS own
        FROM rag.fuse(dense, lexical, dense_weight, fusion, coalesce(dense_floor, 0)) f
    ) f;
    IF copies THEN
        firsts.ids := ranking.ids[1:top_k];
    ELSE
        firsts := rag.first_of_texts(profile, ranking.ids, top_k);
        firsts.ids := firsts.ids[1:top_k];
    END IF;
    -- LATERAL ... LIMIT 1: looked up row by row, also while statistics say that a table just filled is empty.
    RETURN QUERY EXECUTE format(
        'SELECT c.id, s.id, s.name, s.external_id, s.metadata, s.canonical_url, c.content, c.token_count, c.citation,
                c.metadata, f.score, f.dense_score, f.lexical_score, p.also_at
         FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS f (id, score, dense_score, lexical_score, place)
         JOIN %s ON p.id = f.id
         CROSS JOIN LATERAL (
             SELECT c.id, c.source_id, c.content, c.token_count, c.citation, c.metadata
             FROM rag.knowledge_chunks c WHERE c.embedding_profile_id = %s AND c.id = p.stands LIMIT 1
         ) c
         CROSS JOIN LATERAL (
             SELECT s.id, s.name, s.external_id, s.metadata, s.canonical_url
             FROM rag.knowledge_sources s WHERE s.id = c.source_id AND s.tenant_id = %L LIMIT 1
         ) s
         CROSS JOIN LATERAL (
             SELECT FROM rag.source_profiles sp
             WHERE sp.embedding_profile_id = %2$s AND sp.source_id = s.id AND sp.status = ''ready'' LIMIT 1
         ) sp
         ORDER BY f.place',
        CASE WHEN copies THEN '(SELECT id, id AS stands, ''[]''::jsonb AS also_at FROM unnest($5) AS id) p'
             ELSE 'rag.places_of_texts($6, $5, $7) p' END,
        profile.id, profile.tenant_id)
    USING ranking.ids, ranking.scores, ranking.dense_scores, ranking.lexical_scores, firsts.ids, profile,
        source_condition;
END $$;

GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION
    rag.first_of_texts, rag.listed_texts, rag.places_of_texts,
    rag.search(text, vector, text, int, boolean, int, float8, text, jsonb, boolean)
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.search(text, vector, text, int, boolean, int, float8, text, jsonb, boolean) TO rag_app;
ALTER FUNCTION rag.first_of_texts OWNER TO rag_search;
ALTER FUNCTION rag.listed_texts OWNER TO rag_search;
ALTER FUNCTION rag.places_of_texts OWNER TO rag_search;
ALTER FUNCTION rag.search(text, vector, text, int, boolean, int, float8, text, jsonb, boolean) OWNER TO rag_search;

-- How programs of the version before call it: every copy, and none of the new columns.
SET LOCAL ROLE rag_search;
CREATE OR REPLACE FUNCTION rag.search(
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
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    SELECT chunk_id, source_id, source_name, source_metadata, canonical_url, content, token_count, citation, metadata,
           score, dense_score, lexical_score
    FROM rag.search(mode, query_vector, query_text, top_k, true, candidates, dense_weight, fusion, filters, exact)
$$;
RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
