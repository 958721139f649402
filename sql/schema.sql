CREATE SCHEMA rag;

ALTER SCHEMA rag OWNER TO rag_owner;

CREATE TYPE rag.candidates AS (
	ids uuid[],
	scores double precision[]
);

ALTER TYPE rag.candidates OWNER TO rag_owner;

CREATE TYPE rag.both_candidates AS (
	dense rag.candidates,
	lexical rag.candidates
);

ALTER TYPE rag.both_candidates OWNER TO rag_owner;

CREATE TYPE rag.first_chunks AS (
	ids uuid[],
	texts uuid[]
);

ALTER TYPE rag.first_chunks OWNER TO rag_owner;

CREATE TYPE rag.graph_query AS (
	languages text[],
	words tsvector[],
	word_count integer
);

ALTER TYPE rag.graph_query OWNER TO rag_owner;

CREATE DOMAIN rag.key AS text
	CONSTRAINT key_check CHECK ((VALUE ~ '^[a-z0-9][a-z0-9_-]{0,62}$'::text));

ALTER DOMAIN rag.key OWNER TO rag_owner;

CREATE TYPE rag.lexical_query AS (
	every_term tsquery,
	weights public.sparsevec,
	best_possible double precision,
	unknown text[],
	words text[],
	word_weights double precision[],
	word_chunks double precision[],
	chunks double precision
);

ALTER TYPE rag.lexical_query OWNER TO rag_owner;

CREATE TYPE rag.near_word AS (
	asked text,
	word text,
	lexeme text,
	chunk_count bigint
);

ALTER TYPE rag.near_word OWNER TO rag_owner;

CREATE TYPE rag.passage AS (
	chunk_id uuid,
	source_id uuid,
	source_name text,
	source_uri text,
	source_metadata jsonb,
	canonical_url text,
	content text,
	token_count integer,
	citation jsonb,
	metadata jsonb,
	score double precision,
	dense_score double precision,
	lexical_score double precision,
	also_at jsonb,
	space text
);

ALTER TYPE rag.passage OWNER TO rag_owner;

CREATE TYPE rag.passages AS (
	rows rag.passage[],
	has_copies boolean
);

ALTER TYPE rag.passages OWNER TO rag_owner;

CREATE TYPE rag.path AS (
	triples bigint[],
	entities uuid[],
	met text[],
	confidence double precision,
	score double precision
);

ALTER TYPE rag.path OWNER TO rag_owner;

CREATE TYPE rag.ranking AS (
	ids uuid[],
	scores double precision[],
	dense_scores double precision[],
	lexical_scores double precision[]
);

ALTER TYPE rag.ranking OWNER TO rag_owner;

CREATE TABLE rag.embedding_profiles (
    id bigint NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    name rag.key NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    distance_metric text NOT NULL,
    task_instruction jsonb DEFAULT '{}'::jsonb NOT NULL,
    normalized boolean DEFAULT true NOT NULL,
    chunking jsonb NOT NULL,
    index jsonb NOT NULL,
    lexical jsonb NOT NULL,
    spec_hash text NOT NULL,
    status text DEFAULT 'building'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    origin text,
    last_error text,
    last_error_at timestamp with time zone,
    terms smallint DEFAULT 1 NOT NULL,
    CONSTRAINT embedding_profiles_dimensions_check CHECK (((dimensions >= 1) AND (dimensions <= 4000))),
    CONSTRAINT embedding_profiles_distance_metric_check CHECK ((distance_metric = ANY (ARRAY['cosine'::text, 'ip'::text, 'l2'::text]))),
    CONSTRAINT embedding_profiles_status_check CHECK ((status = ANY (ARRAY['building'::text, 'ready'::text, 'active'::text, 'retired'::text]))),
    CONSTRAINT embedding_profiles_terms_check CHECK ((terms > 0))
);

ALTER TABLE ONLY rag.embedding_profiles FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_profiles OWNER TO rag_owner;

CREATE FUNCTION rag.analyse_graph_query(profile rag.embedding_profiles, query_text text) RETURNS rag.graph_query
    LANGUAGE sql STABLE
    AS $$
    SELECT ROW(array_agg(language ORDER BY language), array_agg(words ORDER BY language), max(length(words)))::rag.graph_query
    FROM (
        SELECT l.language, to_tsvector(l.language::regconfig, query_text) AS words
        FROM (
            SELECT DISTINCT p.lexical ->> 'language' AS language
            FROM rag.embedding_profiles p WHERE p.knowledge_space_id = profile.knowledge_space_id
        ) l
    ) analysed
    WHERE length(words) > 0
$$;

ALTER FUNCTION rag.analyse_graph_query(profile rag.embedding_profiles, query_text text) OWNER TO rag_search;

CREATE FUNCTION rag.analyse_query(profile_id bigint, config regconfig, query_text text, near rag.near_word[] DEFAULT '{}'::rag.near_word[]) RETURNS rag.lexical_query
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
DECLARE
    meaning rag.lexical_query;
BEGIN
    WITH asked AS (
        SELECT q.lexeme, cardinality(q.positions) AS times,
               coalesce((SELECT s.chunk_count FROM rag.lexeme_stats s
                         WHERE s.embedding_profile_id = profile_id AND s.lexeme = q.lexeme), 0) AS df
        FROM unnest(to_tsvector(config, query_text)) q
    ), meant AS (
        SELECT a.lexeme, a.times, a.df = 0 AS is_unknown, 1.0 AS share, a.df AS held,
               coalesce((SELECT min(n.chunk_count) FROM unnest(near) n WHERE n.asked = a.lexeme), a.df) AS df
        FROM asked a
        UNION ALL
        SELECT n.lexeme, max(a.times), false, 0.7, max(n.chunk_count), max(n.chunk_count)
        FROM unnest(near) n JOIN asked a ON a.lexeme = n.asked
        WHERE n.lexeme NOT IN (SELECT lexeme FROM asked)
        GROUP BY n.lexeme
    ), counted AS (
        SELECT greatest((SELECT i.chunks_at_statistics FROM rag.index_state i WHERE i.embedding_profile_id = profile_id),
                        (SELECT max(df) FROM meant), 1)::float8 AS chunks
    ), terms AS (
        SELECT lexeme, is_unknown, held, chunks, share * times * ln(1 + (chunks - df + 0.5) / (df + 0.5)) AS weight,
               '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''' AS quoted
        FROM meant, counted
        ORDER BY weight DESC, lexeme
        LIMIT 1000
    )
    SELECT string_agg(quoted, ' | ')::tsquery,
           (SELECT ('{' || string_agg(term || ':' || weight::real, ',') || '}/1000000000')::sparsevec
            FROM (SELECT rag.term_id(lexeme) AS term, sum(weight) AS weight FROM terms GROUP BY 1) w),
           2.2 * sum(weight),
           array_agg(lexeme) FILTER (WHERE is_unknown),
           array_agg(quoted ORDER BY is_unknown DESC, weight DESC, lexeme),
           array_agg(weight ORDER BY is_unknown DESC, weight DESC, lexeme),
           array_agg(held ORDER BY is_unknown DESC, weight DESC, lexeme),
           max(chunks)
    INTO meaning FROM terms;
    RETURN meaning;
END $$;

ALTER FUNCTION rag.analyse_query(profile_id bigint, config regconfig, query_text text, near rag.near_word[]) OWNER TO rag_search;

CREATE FUNCTION rag.analysed(profile rag.embedding_profiles, query_text text, source_condition text) RETURNS rag.lexical_query
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
    config regconfig := (profile.lexical ->> 'language')::regconfig;
    meant rag.lexical_query := rag.analyse_query(profile.id, config, query_text);
    near rag.near_word[];
BEGIN
    IF profile.terms > 1 AND EXISTS (SELECT FROM unnest(meant.unknown) u WHERE u ~ '^[[:alpha:]]{3,24}$') THEN
        near := rag.near_words(profile, query_text, meant.unknown, source_condition);
    END IF;
    PERFORM set_config('rag.read_as', coalesce((
        SELECT jsonb_object_agg(word, lexemes) FROM (
            SELECT word, jsonb_agg(lexeme) AS lexemes FROM unnest(near) GROUP BY word
        ) words)::text, ''), true);
    IF near IS NOT NULL THEN
        meant := rag.analyse_query(profile.id, config, query_text, near);
    END IF;
    RETURN meant;
END $_$;

ALTER FUNCTION rag.analysed(profile rag.embedding_profiles, query_text text, source_condition text) OWNER TO rag_search;

CREATE FUNCTION rag.as_number(value text) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (pg_input_is_valid(value, 'numeric'::text) AND (value !~* 'nan|inf'::text)) THEN (value)::numeric ELSE NULL::numeric END;

ALTER FUNCTION rag.as_number(value text) OWNER TO rag_owner;

CREATE FUNCTION rag.as_time(value text) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN ((value ~ '^\d{4}-\d{2}-\d{2}([T ].*)?$'::text) AND pg_input_is_valid(value, 'timestamptz'::text)) THEN (value)::timestamp with time zone ELSE NULL::timestamp with time zone END;

ALTER FUNCTION rag.as_time(value text) OWNER TO rag_owner;

CREATE FUNCTION rag.term_id(lexeme text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (1 + (((('x'::text || substr(md5(lexeme), 1, 8)))::bit(32))::bigint % (999999999)::bigint));

ALTER FUNCTION rag.term_id(lexeme text) OWNER TO rag_owner;

CREATE FUNCTION rag.bm25_weights(fts tsvector, average_length double precision) RETURNS public.sparsevec
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (WITH terms AS MATERIALIZED (SELECT rag.term_id(unnest.lexeme) AS term, sum(labels.own) AS own, sum(((labels.own)::double precision + ((0.9)::double precision * ((cardinality(unnest.positions) - labels.own))::double precision))) AS tf FROM unnest(bm25_weights.fts) unnest(lexeme, positions, weights), LATERAL (SELECT cardinality(array_remove(unnest.weights, 'A'::text)) AS own) labels GROUP BY (rag.term_id(unnest.lexeme))), norm AS MATERIALIZED (SELECT ((1.2)::double precision * ((0.25)::double precision + (((0.75)::double precision * (sum(terms_1.own))::double precision) / GREATEST(bm25_weights.average_length, (1)::double precision)))) AS k FROM terms terms_1) SELECT ((('{'::text || COALESCE(string_agg(((terms.term || ':'::text) || (((terms.tf * (2.2)::double precision) / (terms.tf + norm.k)))::real), ','::text), ''::text)) || '}/1000000000'::text))::public.sparsevec AS sparsevec FROM terms, norm);

ALTER FUNCTION rag.bm25_weights(fts tsvector, average_length double precision) OWNER TO rag_owner;

CREATE FUNCTION rag.check_search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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
        CASE WHEN fusion NOT IN ('minmax', 'rrf') THEN 'fusion' END,
        CASE WHEN jsonb_typeof(filters) <> 'object' THEN 'filters'
             WHEN filters <> '{}' THEN nullif(rag.wrong_filters(filters), '') END);
    IF wrong <> '' THEN
        RAISE EXCEPTION 'rag.search: bad %', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

ALTER FUNCTION rag.check_search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) OWNER TO rag_owner;

CREATE FUNCTION rag.chunk_of_triple(profile rag.embedding_profiles, triple bigint) RETURNS uuid
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $_$
DECLARE
    found uuid;
BEGIN
    EXECUTE format(
        'SELECT c.id FROM rag.triples t JOIN rag.knowledge_chunks c
             ON c.embedding_profile_id = %s AND c.tenant_id = %L AND c.source_id = t.source_id
         WHERE t.id = $1 AND c.citation ->> ''version'' = t.checksum
           AND (c.citation ->> ''start'')::int < t.end_at AND (c.citation ->> ''end'')::int > t.start_at
         ORDER BY least((c.citation ->> ''end'')::int, t.end_at) - greatest((c.citation ->> ''start'')::int, t.start_at) DESC,
                  c.chunk_index
         LIMIT 1', profile.id, profile.tenant_id)
    INTO found USING triple;
    RETURN found;
END $_$;

ALTER FUNCTION rag.chunk_of_triple(profile rag.embedding_profiles, triple bigint) OWNER TO rag_search;

CREATE FUNCTION rag.complete_candidates(profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, dense rag.candidates, lexical rag.candidates) RETURNS rag.both_candidates
    LANGUAGE plpgsql STABLE
    AS $_$
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
END $_$;

ALTER FUNCTION rag.complete_candidates(profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, dense rag.candidates, lexical rag.candidates) OWNER TO rag_search;

CREATE FUNCTION rag.dense_candidates(profile rag.embedding_profiles, query_vector public.vector, how_many integer, source_condition text, exact boolean) RETURNS rag.candidates
    LANGUAGE plpgsql STABLE
    AS $_$
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
END $_$;

ALTER FUNCTION rag.dense_candidates(profile rag.embedding_profiles, query_vector public.vector, how_many integer, source_condition text, exact boolean) OWNER TO rag_search;

CREATE FUNCTION rag.distance_operator(profile rag.embedding_profiles) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE (profile).distance_metric WHEN 'cosine'::text THEN '<=>'::text WHEN 'ip'::text THEN '<#>'::text ELSE '<->'::text END;

ALTER FUNCTION rag.distance_operator(profile rag.embedding_profiles) OWNER TO rag_owner;

CREATE FUNCTION rag.embeds_media(options jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE(((options ->> 'multimodal'::text))::boolean, false);

ALTER FUNCTION rag.embeds_media(options jsonb) OWNER TO rag_owner;

CREATE FUNCTION rag.enqueued_tokens(my_route text) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'pg_temp'
    AS $$
    SELECT coalesce(sum(tokens), 0)::bigint FROM rag.embedding_jobs
    WHERE route = my_route AND state IN ('submitting', 'running') AND ended_at IS NULL
$$;

ALTER FUNCTION rag.enqueued_tokens(my_route text) OWNER TO rag_owner;

CREATE FUNCTION rag.text_id(content text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (md5(content))::uuid;

ALTER FUNCTION rag.text_id(content text) OWNER TO rag_owner;

CREATE FUNCTION rag.entity_id(words tsvector, name text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN rag.text_id(COALESCE((SELECT string_agg(w.lexeme, ' '::text ORDER BY place.place, w.lexeme) AS string_agg FROM unnest(entity_id.words) w(lexeme, positions, weights), LATERAL unnest(w.positions) place(place)), lower(name)));

ALTER FUNCTION rag.entity_id(words tsvector, name text) OWNER TO rag_owner;

CREATE FUNCTION rag.essential_words(query rag.lexical_query, budget double precision) RETURNS tsquery
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    any_word float8 := (SELECT query.chunks * (1 - exp(sum(ln(greatest(1 - c / query.chunks, 1e-9)))))
                        FROM unnest(query.word_chunks) c);
    alone int := 0;
    last int;  -- of the words that are looked for at all
    taken float8 := 0;
    threshold float8;
    words text[];
BEGIN
    IF coalesce(cardinality(query.words), 1) = 1 OR any_word <= budget THEN
        RETURN query.every_term;
    END IF;
    WHILE taken + query.word_chunks[alone + 1] <= budget / 2 LOOP
        alone := alone + 1;
        taken := taken + query.word_chunks[alone];
    END LOOP;
    SELECT alone + count(*) INTO last FROM (
        SELECT place, sum(chunks) OVER (ORDER BY place) AS listed
        FROM unnest(query.word_chunks[alone + 1:alone + 8]) WITH ORDINALITY AS o (chunks, place)
    ) o
    WHERE place <= 2 OR listed <= 25 * budget;
    WITH RECURSIVE others AS (
        SELECT place, weight, chunks, (chunks / query.chunks) ^ 0.6 AS share
        FROM unnest(query.word_weights[alone + 1:last], query.word_chunks[alone + 1:last])
             WITH ORDINALITY AS o (weight, chunks, place)
    ), sets AS (
        SELECT place, 1 AS size, weight, 0::float8 AS weight_before, chunks AS rarest, share FROM others
        UNION ALL
        SELECT o.place, s.size + 1, s.weight + o.weight, s.weight, least(s.rarest, o.chunks), s.share * o.share
        FROM sets s JOIN others o ON o.place > s.place
        WHERE s.size < 4
    ), changes AS (
        -- A set comes in where the threshold falls to its weight, and goes where one of its parts comes in.
        SELECT v.threshold, v.expected, v.comes
        FROM (SELECT *, rarest ^ 0.4 * query.chunks ^ 0.6 * share AS expected FROM sets) s
        CROSS JOIN LATERAL (VALUES (s.weight, s.expected, true), (s.weight_before, -s.expected, false))
            AS v (threshold, expected, comes)
    ), totals AS (
        SELECT c.threshold, c.comes, sum(c.expected) OVER (ORDER BY c.threshold DESC) AS expected FROM changes c
    )
    SELECT coalesce(min(t.threshold) FILTER (WHERE t.threshold > (
               SELECT coalesce(max(over.threshold), 0) FROM totals over WHERE over.expected > budget - taken)),
               CASE WHEN alone = 0 THEN max(t.threshold) END)
    INTO threshold FROM totals t WHERE t.comes;
    words := query.words[1:alone];
    IF threshold IS NOT NULL THEN
        words := words || rag.words_that_reach(query.words[1:last], query.word_weights, alone + 1, threshold - 1e-9, 4);
    END IF;
    RETURN array_to_string(words, ' | ')::tsquery;
END $$;

ALTER FUNCTION rag.essential_words(query rag.lexical_query, budget double precision) OWNER TO rag_search;

CREATE FUNCTION rag.filled_list(listed rag.candidates, is_dense boolean, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, depth integer, source_condition text, exact boolean, at_least integer) RETURNS rag.candidates
    LANGUAGE plpgsql STABLE
    AS $$
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

ALTER FUNCTION rag.filled_list(listed rag.candidates, is_dense boolean, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, depth integer, source_condition text, exact boolean, at_least integer) OWNER TO rag_search;

CREATE FUNCTION rag.first_of_texts(profile rag.embedding_profiles, chunks uuid[], at_least integer) RETURNS rag.first_chunks
    LANGUAGE plpgsql STABLE
    AS $_$
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
END $_$;

ALTER FUNCTION rag.first_of_texts(profile rag.embedding_profiles, chunks uuid[], at_least integer) OWNER TO rag_search;

CREATE FUNCTION rag.follow_root() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    SELECT coalesce(r.options ->> 'visibility', 'bot'), r.options ->> 'user'
    INTO NEW.scope_type, NEW.scope_user_id
    FROM rag.source_roots r
    WHERE r.knowledge_space_id = NEW.knowledge_space_id AND (r.id = NEW.root_id OR EXISTS (
        SELECT FROM rag.source_files f WHERE f.root_id = r.id AND f.file_hash = NEW.file_hash))
    ORDER BY coalesce(r.options ->> 'visibility', 'bot') = 'user' DESC, r.id = NEW.root_id DESC, r.id
    LIMIT 1;
    RETURN NEW;
END $$;

ALTER FUNCTION rag.follow_root() OWNER TO rag_owner;

CREATE FUNCTION rag.fuse(dense rag.candidates, lexical rag.candidates, dense_weight double precision, method text, dense_floor double precision) RETURNS TABLE(id uuid, score double precision, dense_score double precision, lexical_score double precision)
    LANGUAGE sql IMMUTABLE
    AS $$
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

ALTER FUNCTION rag.fuse(dense rag.candidates, lexical rag.candidates, dense_weight double precision, method text, dense_floor double precision) OWNER TO rag_owner;

CREATE FUNCTION rag.graph_search(query_text text, max_hops integer, beam integer, top_k integer, filters jsonb DEFAULT '{}'::jsonb) RETURNS TABLE(chunk_id uuid, source_id uuid, source_name text, source_uri text, source_metadata jsonb, canonical_url text, content text, token_count integer, citation jsonb, metadata jsonb, score double precision, dense_score double precision, lexical_score double precision, also_at jsonb, space text, path jsonb)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    profile rag.embedding_profiles := rag.profile_in_scope();
    query rag.graph_query;
    tips rag.path[];
    walked rag.path[] := '{}';
    condition text;
    source_condition text;
    ranking rag.ranking;
    elsewhere jsonb[];
    ways jsonb;
    found rag.passages;
BEGIN
    PERFORM rag.check_search('lexical', NULL, query_text, top_k, false, 1, 0.5, 'minmax', filters, false);
    IF max_hops IS NULL OR beam IS NULL OR max_hops NOT BETWEEN 1 AND 5 OR beam NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'rag.graph_search: bad max_hops or beam' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF profile.id IS NULL THEN
        RETURN;
    END IF;
    source_condition := rag.source_condition(profile, filters);
    condition := rag.triple_condition(profile, source_condition);
    query := rag.analyse_graph_query(profile, query_text);
    IF query.word_count IS NULL THEN
        RETURN;
    END IF;
    tips := rag.named_entities(profile, query, beam, condition);
    FOR hop IN 1 .. max_hops LOOP
        EXIT WHEN tips IS NULL;
        tips := rag.next_hop(query, tips, beam, condition);
        walked := walked || tips;
    END LOOP;
    WITH led AS MATERIALIZED (
        SELECT w.triples, w.score, rag.chunk_of_triple(profile, w.triples[cardinality(w.triples)]) AS id
        FROM unnest(walked) AS w
    ), ways AS (
        SELECT DISTINCT ON (id) id, triples, score FROM led WHERE id IS NOT NULL ORDER BY id, score DESC, triples
    ), texts AS (
        SELECT DISTINCT ON (p.stands) p.stands, p.also_at, w.triples, w.score
        FROM ways w
        JOIN rag.places_of_texts(profile, ARRAY(SELECT id FROM ways), source_condition) p ON p.id = w.id
        ORDER BY p.stands, w.score DESC, w.triples
    )
    SELECT array_agg(t.stands ORDER BY t.score DESC, t.stands), array_agg(t.score ORDER BY t.score DESC, t.stands),
           array_agg(NULL::float8), array_agg(NULL::float8), array_agg(t.also_at ORDER BY t.score DESC, t.stands),
           jsonb_object_agg(t.stands, (
               SELECT jsonb_agg(jsonb_build_object(
                   'subject', one.subject, 'predicate', one.predicate, 'object', one.object,
                   'confidence', round(one.confidence::numeric, 4),
                   'chunk_id', rag.chunk_of_triple(profile, one.id)) ORDER BY u.place)
               FROM unnest(t.triples) WITH ORDINALITY AS u (id, place) JOIN rag.triples one ON one.id = u.id))
    INTO ranking.ids, ranking.scores, ranking.dense_scores, ranking.lexical_scores, elsewhere, ways
    FROM texts t;
    IF ranking.ids IS NULL THEN
        RETURN;
    END IF;
    found := rag.passages_of(profile, ranking, elsewhere, top_k, source_condition, true);
    RETURN QUERY SELECT r.*, ways -> r.chunk_id::text FROM unnest(found.rows) AS r;
END $$;

ALTER FUNCTION rag.graph_search(query_text text, max_hops integer, beam integer, top_k integer, filters jsonb) OWNER TO rag_search;

CREATE TABLE rag.source_documents (
    source_id uuid NOT NULL,
    checksum text NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    title text NOT NULL,
    text text NOT NULL,
    blocks jsonb DEFAULT '[]'::jsonb NOT NULL
);

ALTER TABLE ONLY rag.source_documents FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.source_documents OWNER TO rag_owner;

CREATE TABLE rag.source_profiles (
    embedding_profile_id bigint NOT NULL,
    source_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    status text NOT NULL,
    checksum text NOT NULL,
    chunk_count integer DEFAULT 0 NOT NULL,
    error_message text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    duplicate_of uuid,
    duplicate_checksum text,
    next_try_at timestamp with time zone,
    CONSTRAINT source_profiles_check CHECK (((duplicate_of IS NULL) = (duplicate_checksum IS NULL))),
    CONSTRAINT source_profiles_status_check CHECK ((status = ANY (ARRAY['ready'::text, 'failed'::text])))
);

ALTER TABLE ONLY rag.source_profiles FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.source_profiles OWNER TO rag_owner;

CREATE FUNCTION rag.has_version(source uuid) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((EXISTS (SELECT FROM rag.source_documents d WHERE (d.source_id = has_version.source))) OR (EXISTS (SELECT FROM rag.source_profiles p WHERE ((p.source_id = has_version.source) AND (p.status = 'ready'::text)))));

ALTER FUNCTION rag.has_version(source uuid) OWNER TO rag_owner;

CREATE FUNCTION rag.storage_of(profile rag.embedding_profiles) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN COALESCE(((profile).index ->> 'storage'::text), CASE WHEN ((profile).dimensions <= 2000) THEN 'vector'::text ELSE 'halfvec'::text END);

ALTER FUNCTION rag.storage_of(profile rag.embedding_profiles) OWNER TO rag_owner;

CREATE FUNCTION rag.vector_type(profile rag.embedding_profiles) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN format('%s(%s)'::text, rag.storage_of(profile), (profile).dimensions);

ALTER FUNCTION rag.vector_type(profile rag.embedding_profiles) OWNER TO rag_owner;

CREATE FUNCTION rag.index_distance(profile rag.embedding_profiles) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE rag.storage_of(profile) WHEN 'bit'::text THEN format('(binary_quantize(c.embedding)::%1$s <~> binary_quantize($1)::%1$s)'::text, rag.vector_type(profile)) ELSE format('(c.embedding::%1$s %2$s $1::%1$s)'::text, rag.vector_type(profile), rag.distance_operator(profile)) END;

ALTER FUNCTION rag.index_distance(profile rag.embedding_profiles) OWNER TO rag_owner;

CREATE TABLE rag.rate_limits (
    id bigint NOT NULL,
    tenant_id rag.key,
    provider text NOT NULL,
    model text,
    items bigint,
    tokens bigint,
    per_seconds integer DEFAULT 60 NOT NULL,
    CONSTRAINT rate_limits_check CHECK (((items IS NOT NULL) OR (tokens IS NOT NULL))),
    CONSTRAINT rate_limits_items_check CHECK ((items > 0)),
    CONSTRAINT rate_limits_per_seconds_check CHECK ((per_seconds > 0)),
    CONSTRAINT rate_limits_tokens_check CHECK ((tokens > 0))
);

ALTER TABLE ONLY rag.rate_limits FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.rate_limits OWNER TO rag_owner;

CREATE TABLE rag.rate_requests (
    id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    account text NOT NULL,
    items bigint NOT NULL,
    tokens bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    granted_at timestamp with time zone,
    CONSTRAINT rate_requests_items_check CHECK ((items >= 0)),
    CONSTRAINT rate_requests_tokens_check CHECK ((tokens >= 0))
);

ALTER TABLE ONLY rag.rate_requests FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.rate_requests OWNER TO rag_owner;

CREATE FUNCTION rag.is_counted(q rag.rate_requests, l rag.rate_limits) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN (((q).provider = (l).provider) AND (((l).tenant_id IS NULL) OR (((l).tenant_id)::text = ((q).tenant_id)::text)) AND (((l).model IS NULL) OR ((l).model = (q).model)));

ALTER FUNCTION rag.is_counted(q rag.rate_requests, l rag.rate_limits) OWNER TO rag_owner;

CREATE TABLE rag.knowledge_sources (
    id uuid NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    root_id uuid,
    file_hash bytea NOT NULL,
    source_type text NOT NULL,
    external_id text NOT NULL,
    name text NOT NULL,
    canonical_url text,
    checksum text NOT NULL,
    status text DEFAULT 'queued'::text NOT NULL,
    progress_percent smallint DEFAULT 0 NOT NULL,
    error_message text,
    failed_stage text,
    locale text,
    content_type text,
    scope_type text DEFAULT 'bot'::text NOT NULL,
    scope_user_id text,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    media jsonb,
    held_since timestamp with time zone,
    missing_since timestamp with time zone,
    forgotten jsonb,
    CONSTRAINT knowledge_sources_check CHECK (((scope_type = 'user'::text) = (scope_user_id IS NOT NULL))),
    CONSTRAINT knowledge_sources_failed_stage_check CHECK ((failed_stage = ANY (ARRAY['read'::text, 'publish'::text]))),
    CONSTRAINT knowledge_sources_progress_percent_check CHECK (((progress_percent >= 0) AND (progress_percent <= 100))),
    CONSTRAINT knowledge_sources_scope_type_check CHECK ((scope_type = ANY (ARRAY['bot'::text, 'user'::text]))),
    CONSTRAINT knowledge_sources_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'processing'::text, 'ready'::text, 'no_text'::text, 'failed'::text, 'deleted'::text, 'forgotten'::text])))
);

ALTER TABLE ONLY rag.knowledge_sources FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.knowledge_sources OWNER TO rag_owner;

CREATE FUNCTION rag.is_publishable(source rag.knowledge_sources, options jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((source).status = ANY (ARRAY['queued'::text, 'processing'::text, 'ready'::text, 'failed'::text])) OR (((source).status = 'no_text'::text) AND ((source).media IS NOT NULL) AND rag.embeds_media(options)));

ALTER FUNCTION rag.is_publishable(source rag.knowledge_sources, options jsonb) OWNER TO rag_owner;

CREATE FUNCTION rag.lead_files() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    WITH hidden AS (
        UPDATE rag.knowledge_sources s SET root_id = s.root_id
        FROM added a JOIN rag.source_roots r ON r.id = a.root_id AND r.options ->> 'visibility' = 'user'
        WHERE s.knowledge_space_id = a.knowledge_space_id AND s.file_hash = a.file_hash AND s.scope_type <> 'user'
        RETURNING s.knowledge_space_id
    )
    UPDATE rag.index_state i SET counts_shared_only = false
    FROM hidden h JOIN rag.embedding_profiles p ON p.knowledge_space_id = h.knowledge_space_id
    WHERE p.id = i.embedding_profile_id;
    RETURN NULL;
END $$;

ALTER FUNCTION rag.lead_files() OWNER TO rag_owner;

CREATE FUNCTION rag.lead_sources() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE rag.knowledge_sources s SET root_id = s.root_id  -- follow it anew
    WHERE s.root_id = NEW.id OR s.knowledge_space_id = NEW.knowledge_space_id AND s.file_hash IN (
        SELECT f.file_hash FROM rag.source_files f WHERE f.root_id = NEW.id);
    UPDATE rag.index_state i SET counts_shared_only = false
    FROM rag.embedding_profiles p
    WHERE p.id = i.embedding_profile_id AND p.knowledge_space_id = NEW.knowledge_space_id;
    RETURN NULL;
END $$;

ALTER FUNCTION rag.lead_sources() OWNER TO rag_owner;

CREATE FUNCTION rag.letters_for(word text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ARRAY(SELECT DISTINCT letter.letter FROM unnest(string_to_array((CASE WHEN (letters_for.word ~ '[a-z]'::text) THEN 'abcdefghijklmnopqrstuvwxyz'::text WHEN (letters_for.word ~ '[а-я]'::text) THEN 'абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґўјљњћђџ'::text WHEN (letters_for.word ~ '[α-ω]'::text) THEN 'αβγδεζηθικλμνξοπρστυφχψω'::text WHEN (letters_for.word ~ '[א-ת]'::text) THEN 'אבגדהוזחטיךכלםמןנסעףפץצקרשת'::text WHEN (letters_for.word ~ '[ء-ي]'::text) THEN 'ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيپچژگکی'::text WHEN (letters_for.word ~ '[ա-ֆ]'::text) THEN 'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ'::text WHEN (letters_for.word ~ '[ა-ჰ]'::text) THEN 'აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ'::text ELSE ''::text END || letters_for.word), NULL::text)) letter(letter));

ALTER FUNCTION rag.letters_for(word text) OWNER TO rag_owner;

CREATE FUNCTION rag.lexical_candidates(profile rag.embedding_profiles, query rag.lexical_query, how_many integer, source_condition text) RETURNS rag.candidates
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_indexscan TO 'off'
    SET random_page_cost TO '1'
    SET seq_page_cost TO '1'
    SET jit TO 'off'
    SET max_parallel_workers_per_gather TO '0'
    AS $_$
DECLARE
    found_rows rag.candidates;
    budget float8 := greatest(2000, 20 * how_many);
    words tsquery;
    statement text := format(
        'SELECT array_agg(id ORDER BY d, id), array_agg(-d / $3 ORDER BY d, id) FROM (
             SELECT c.id, c.lexical <#> $1 AS d
             FROM rag.knowledge_chunks c
             WHERE c.embedding_profile_id = %s AND c.tenant_id = %L AND c.fts @@ $2%s
             ORDER BY c.lexical <#> $1, c.id LIMIT %s
         ) best',
        profile.id, profile.tenant_id, source_condition, how_many);
BEGIN
    LOOP
        words := rag.essential_words(query, budget);
        EXECUTE statement INTO found_rows USING query.weights, words, query.best_possible;
        EXIT WHEN cardinality(found_rows.ids) >= how_many OR words = query.every_term;
        budget := 3 * budget;
    END LOOP;
    RETURN found_rows;
END $_$;

ALTER FUNCTION rag.lexical_candidates(profile rag.embedding_profiles, query rag.lexical_query, how_many integer, source_condition text) OWNER TO rag_search;

CREATE FUNCTION rag.lexical_length(fts tsvector) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT COALESCE(sum(cardinality(array_remove(unnest.weights, 'A'::text))), (0)::bigint) AS "coalesce" FROM unnest(lexical_length.fts) unnest(lexeme, positions, weights));

ALTER FUNCTION rag.lexical_length(fts tsvector) OWNER TO rag_owner;

CREATE FUNCTION rag.lies_under(name text, file text, uri text, prefixes text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (EXISTS (SELECT FROM unnest(lies_under.prefixes) prefix(prefix) WHERE (starts_with(lies_under.uri, prefix.prefix) OR starts_with(lies_under.name, ltrim(prefix.prefix, '/'::text)) OR starts_with(lies_under.file, ltrim(prefix.prefix, '/'::text)) OR (starts_with(prefix.prefix, '/'::text) AND starts_with(regexp_replace(lies_under.uri, '^[a-z0-9+.-]+://[^/]*'::text, ''::text), prefix.prefix)))));

ALTER FUNCTION rag.lies_under(name text, file text, uri text, prefixes text[]) OWNER TO rag_owner;

CREATE FUNCTION rag.listed_texts(is_dense boolean, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, depth integer, source_condition text, exact boolean, at_least integer) RETURNS rag.candidates
    LANGUAGE plpgsql STABLE
    AS $$
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

ALTER FUNCTION rag.listed_texts(is_dense boolean, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, depth integer, source_condition text, exact boolean, at_least integer) OWNER TO rag_search;

CREATE FUNCTION rag.meets(value jsonb, operator text, wanted jsonb) RETURNS boolean
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
DECLARE
    is_list boolean := coalesce(jsonb_typeof(value) = 'array', false);
    given text := CASE WHEN NOT is_list THEN value #>> '{}' END;
    asked text := wanted #>> '{}';
BEGIN
    IF operator = 'exists' THEN
        RETURN (value IS NOT NULL AND value <> 'null') = wanted::boolean;
    END IF;
    IF is_list THEN
        RETURN EXISTS (
            SELECT FROM jsonb_array_elements(value) e WHERE rag.meets(to_jsonb(e #>> '{}'), operator, wanted));
    END IF;
    IF operator = 'equals' THEN
        RETURN coalesce(given = asked, false);
    END IF;
    IF operator = 'in' THEN
        RETURN coalesce(given IN (SELECT rag.values_of(wanted)), false);
    END IF;
    RETURN coalesce(CASE WHEN jsonb_typeof(wanted) = 'number' THEN CASE operator
                             WHEN 'gt' THEN rag.as_number(given) > asked::numeric
                             WHEN 'gte' THEN rag.as_number(given) >= asked::numeric
                             WHEN 'lt' THEN rag.as_number(given) < asked::numeric
                             ELSE rag.as_number(given) <= asked::numeric END
                         ELSE CASE operator
                             WHEN 'gt' THEN rag.as_time(given) > rag.as_time(asked)
                             WHEN 'gte' THEN rag.as_time(given) >= rag.as_time(asked)
                             WHEN 'lt' THEN rag.as_time(given) < rag.as_time(asked)
                             ELSE rag.as_time(given) <= rag.as_time(asked) END END, false);
END $$;

ALTER FUNCTION rag.meets(value jsonb, operator text, wanted jsonb) OWNER TO rag_owner;

CREATE FUNCTION rag.missing_migrations(wanted text[]) RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    SELECT w.id FROM unnest(wanted) AS w (id)
    WHERE NOT EXISTS (SELECT FROM rag._yoyo_migration m WHERE m.migration_id = w.id) ORDER BY 1
$$;

ALTER FUNCTION rag.missing_migrations(wanted text[]) OWNER TO rag_owner;

CREATE FUNCTION rag.named_entities(profile rag.embedding_profiles, query rag.graph_query, beam integer, condition text) RETURNS rag.path[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $_$
DECLARE
    found rag.path[];
BEGIN
    EXECUTE format(
        'WITH asked AS (
             SELECT q.language, tsvector_to_array(q.words) AS words,
                    (SELECT string_agg('''''''' || replace(replace(w, ''\'', ''\\''), '''''''', '''''''''''') || '''''''', '' | '')
                     FROM unnest(tsvector_to_array(q.words)) w)::tsquery AS any_word
             FROM unnest($1, $2) AS q (language, words)
         ), named AS (
             SELECT c.subject_id AS id, c.subject_words AS words, a.words AS asked
             FROM asked a JOIN rag.triples c ON c.subject_words @@ a.any_word AND c.language = a.language WHERE %1$s
             UNION
             SELECT c.object_id, c.object_words, a.words
             FROM asked a JOIN rag.triples c ON c.object_words @@ a.any_word AND c.language = a.language WHERE %1$s
         ), matched AS (
             SELECT DISTINCT ON (n.id) n.id, m.met, cardinality(m.met)::float8 AS hits, length(n.words) AS size
             FROM named n CROSS JOIN LATERAL (
                 SELECT ARRAY(SELECT unnest(tsvector_to_array(n.words)) INTERSECT SELECT unnest(n.asked)) AS met
             ) m
             ORDER BY n.id, cardinality(m.met)::float8 / length(n.words) DESC
         ), ranked AS (
             SELECT id, met, hits / size * hits / (hits + 1) AS match, max(hits / size * hits / (hits + 1)) OVER () AS best
             FROM matched
         )
         SELECT array_agg(ROW(''{}'', ARRAY[id], met, 1, match)::rag.path ORDER BY match DESC, id)
         FROM (SELECT * FROM ranked WHERE match >= best / 2 ORDER BY match DESC, id LIMIT %2$s) best',
        condition, beam)
    INTO found USING query.languages, query.words;
    RETURN found;
END $_$;

ALTER FUNCTION rag.named_entities(profile rag.embedding_profiles, query rag.graph_query, beam integer, condition text) OWNER TO rag_search;

CREATE FUNCTION rag.near_words(profile rag.embedding_profiles, query_text text, unknown text[], source_condition text) RETURNS rag.near_word[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $_$
DECLARE
    config regconfig := (profile.lexical ->> 'language')::regconfig;
    known text[];
    words rag.near_word[];
    found rag.near_word[];
    readable rag.near_word[];
    one rag.near_word;
    is_there boolean;
BEGIN
    SELECT array_agg(ROW(asked, word, NULL, NULL)::rag.near_word) INTO words FROM (
        SELECT DISTINCT ON (lexeme) lexeme AS asked, word, place
        FROM (SELECT word, place FROM unnest(string_to_array(lower(query_text), ' ')) WITH ORDINALITY AS w (word, place)
              WHERE word ~ '^([a-z]{4,24}|[^a-zà-öø-ɏ]{4,24})$' AND word ~ '^[[:alpha:]]+$' LIMIT 200) plain,
             LATERAL unnest(tsvector_to_array(to_tsvector(config, word))) lexeme
        WHERE lexeme = ANY (unknown)
        ORDER BY lexeme, place
    ) meant;
    IF words IS NULL THEN
        RETURN NULL;
    END IF;
    known := ARRAY(SELECT unnest(tsvector_to_array(to_tsvector(config, query_text))) EXCEPT SELECT unnest(unknown));
    SELECT array_agg(ROW(w.asked, w.word, near.lexeme, near.chunk_count)::rag.near_word) INTO found
    FROM unnest(words[1:3]) w
    CROSS JOIN LATERAL (
        SELECT tsvector_to_array(to_tsvector(config, array_to_string(rag.one_edit_away(w.word), ' '))) AS lexemes
    ) away
    CROSS JOIN LATERAL (
        SELECT s.lexeme, s.chunk_count
        FROM rag.lexeme_stats s
        WHERE s.embedding_profile_id = profile.id AND s.lexeme = ANY (away.lexemes)
        ORDER BY left(s.lexeme, 1) = left(w.asked, 1) DESC, s.chunk_count DESC, s.lexeme
        LIMIT 2
    ) near
    WHERE NOT away.lexemes && known;
    FOREACH one IN ARRAY coalesce(found, '{}') LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM rag.knowledge_chunks c
                            WHERE c.embedding_profile_id = %s AND c.tenant_id = %L AND c.fts @@ $1%s)',
            profile.id, profile.tenant_id, source_condition)
        INTO is_there USING quote_literal(one.lexeme)::tsquery;
        IF is_there THEN
            readable := readable || one;
        END IF;
    END LOOP;
    RETURN readable;
END $_$;

ALTER FUNCTION rag.near_words(profile rag.embedding_profiles, query_text text, unknown text[], source_condition text) OWNER TO rag_search;

CREATE FUNCTION rag.next_hop(query rag.graph_query, paths rag.path[], beam integer, condition text) RETURNS rag.path[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $_$
DECLARE
    found rag.path[];
BEGIN
    EXECUTE format(
        'SELECT array_agg(ROW(triples, entities, met, confidence, score)::rag.path ORDER BY score DESC, triples) FROM (
             SELECT w.*, w.confidence * cardinality(w.met) / $3 * 0.9 ^ (cardinality(w.triples) - 1) AS score FROM (
                 SELECT p.triples || step.id AS triples, p.entities || step.next AS entities,
                        p.confidence * step.confidence AS confidence,
                        ARRAY(SELECT unnest(p.met) UNION
                              (SELECT unnest(tsvector_to_array(step.words)) INTERSECT
                               SELECT unnest(tsvector_to_array(q.words)))) AS met
                 FROM unnest($1) AS p
                 CROSS JOIN LATERAL (
                     (SELECT c.id, c.object_id AS next, c.confidence, c.language,
                             c.predicate_words || c.object_words AS words
                      FROM rag.triples c WHERE c.subject_id = p.entities[cardinality(p.entities)] AND %1$s
                      ORDER BY c.confidence DESC, c.id LIMIT 200)
                     UNION ALL
                     (SELECT c.id, c.subject_id, c.confidence, c.language, c.predicate_words || c.subject_words
                      FROM rag.triples c WHERE c.object_id = p.entities[cardinality(p.entities)] AND %1$s
                      ORDER BY c.confidence DESC, c.id LIMIT 200)
                 ) step
                 JOIN unnest(($2).languages, ($2).words) AS q (language, words) ON q.language = step.language
                 WHERE step.next <> ALL (p.entities)
             ) w
             ORDER BY score DESC, triples LIMIT %2$s
         ) best',
        condition, beam)
    INTO found USING paths, query, query.word_count;
    RETURN found;
END $_$;

ALTER FUNCTION rag.next_hop(query rag.graph_query, paths rag.path[], beam integer, condition text) OWNER TO rag_search;

CREATE FUNCTION rag.note_corpus_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'rag', 'pg_temp'
    AS $$
DECLARE
    tenant text;
    note uuid;
BEGIN
    IF TG_OP = 'DELETE' THEN tenant := OLD.tenant_id; ELSE tenant := NEW.tenant_id; END IF;
    IF current_setting('rag.noted_change', true) IS NOT DISTINCT FROM tenant
       OR TG_OP = 'UPDATE' AND to_jsonb(NEW) - TG_ARGV = to_jsonb(OLD) - TG_ARGV THEN
        RETURN NULL;
    END IF;
    INSERT INTO rag.corpus_changes (tenant_id) SELECT t.id FROM rag.tenants t WHERE t.id = tenant RETURNING id INTO note;
    -- Old notes go only along with a new one, so a set of them never comes again.
    DELETE FROM rag.corpus_changes WHERE id IN (
        SELECT o.id FROM rag.corpus_changes o WHERE o.tenant_id = tenant AND o.id <> note
        ORDER BY o.changed_at DESC, o.id OFFSET 15 FOR UPDATE SKIP LOCKED);
    PERFORM set_config('rag.noted_change', tenant, true);
    RETURN NULL;
END $$;

ALTER FUNCTION rag.note_corpus_change() OWNER TO rag_owner;

CREATE FUNCTION rag.one_edit_away(word text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    WITH letters AS MATERIALIZED (
        SELECT letter FROM unnest(rag.letters_for(word)) letter
    ), cuts AS MATERIALIZED (
        SELECT left(word, n) AS head, substr(word, n + 1) AS tail FROM generate_series(0, length(word)) n
    )
    SELECT array_agg(DISTINCT near) FROM (
        SELECT head || substr(tail, 2) AS near FROM cuts WHERE tail <> ''
        UNION ALL SELECT head || substr(tail, 2, 1) || left(tail, 1) || substr(tail, 3) FROM cuts WHERE length(tail) > 1
        UNION ALL SELECT head || letter || substr(tail, 2) FROM cuts, letters WHERE tail <> ''
        UNION ALL SELECT head || letter || tail FROM cuts, letters
    ) edits WHERE near <> word
$$;

ALTER FUNCTION rag.one_edit_away(word text) OWNER TO rag_owner;

CREATE FUNCTION rag.passages_of(profile rag.embedding_profiles, ranking rag.ranking, also_at jsonb[], top_k integer, source_condition text, copies boolean) RETURNS rag.passages
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $_$
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
END $_$;

ALTER FUNCTION rag.passages_of(profile rag.embedding_profiles, ranking rag.ranking, also_at jsonb[], top_k integer, source_condition text, copies boolean) OWNER TO rag_search;

CREATE FUNCTION rag.place_of(source rag.knowledge_sources, OUT file text, OUT place text) RETURNS record
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ROW(COALESCE(((source).metadata #>> '{rag:origin,file}'::text[]), CASE WHEN (strpos((source).external_id, '#'::text) = 0) THEN (source).name ELSE split_part((source).external_id, '#'::text, 1) END), ((source).metadata #>> '{rag:origin,place}'::text[]));

ALTER FUNCTION rag.place_of(source rag.knowledge_sources, OUT file text, OUT place text) OWNER TO rag_owner;

CREATE FUNCTION rag.places_of_texts(profile rag.embedding_profiles, chunks uuid[], source_condition text) RETURNS TABLE(id uuid, stands uuid, also_at jsonb)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $_$
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
END $_$;

ALTER FUNCTION rag.places_of_texts(profile rag.embedding_profiles, chunks uuid[], source_condition text) OWNER TO rag_search;

CREATE FUNCTION rag.private_sources(profile bigint) RETURNS SETOF uuid
    LANGUAGE sql STABLE
    AS $$
    SELECT s.id
    FROM rag.knowledge_sources s JOIN rag.embedding_profiles p ON p.knowledge_space_id = s.knowledge_space_id
    WHERE p.id = profile AND s.scope_type = 'user'
$$;

ALTER FUNCTION rag.private_sources(profile bigint) OWNER TO rag_owner;

CREATE FUNCTION rag.profile_in_scope() RETURNS rag.embedding_profiles
    LANGUAGE sql STABLE
    AS $$
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

ALTER FUNCTION rag.profile_in_scope() OWNER TO rag_search;

CREATE FUNCTION rag.profile_snapshot(profile_id bigint) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT md5(COALESCE(string_agg(((source_profiles.source_id)::text || source_profiles.checksum), ','::text ORDER BY source_profiles.source_id), ''::text)) AS md5 FROM rag.source_profiles WHERE ((source_profiles.embedding_profile_id = profile_snapshot.profile_id) AND (source_profiles.status = 'ready'::text)));

ALTER FUNCTION rag.profile_snapshot(profile_id bigint) OWNER TO rag_owner;

CREATE FUNCTION rag.push_document(of_key text, named text, of_type text, given bytea, described jsonb, version text, file bytea, actor text, most_documents bigint, most_bytes bigint) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
    space uuid;
    before rag.pushed_documents;
    room record;
BEGIN
    SELECT k.id INTO space FROM rag.knowledge_spaces k
    WHERE k.tenant_id = rag.scope_tenant() AND k.bot_id = rag.scope_bot() ORDER BY k.id LIMIT 1;
    IF space IS NULL THEN
        RETURN 'unknown';
    END IF;
    -- One after the other for a bot: two together must not have more than each of them alone may.
    PERFORM pg_advisory_xact_lock(hashtextextended('rag.push ' || rag.scope_tenant() || '/' || rag.scope_bot(), 0));
    INSERT INTO rag.source_roots (knowledge_space_id, tenant_id, bot_id, uri, options)
    VALUES (space, rag.scope_tenant(), rag.scope_bot(), rag.pushed_root(rag.scope_user()),
            rag.pushed_root_options(rag.scope_user()))
    ON CONFLICT DO NOTHING;
    SELECT * INTO before FROM rag.pushed_documents p
    WHERE p.tenant_id = rag.scope_tenant() AND p.bot_id = rag.scope_bot()
      AND p.user_id IS NOT DISTINCT FROM rag.scope_user() AND p.key = of_key;
    IF before.checksum = version AND before.content IS NOT NULL
       AND (before.name, before.metadata) = (named, described) AND before.content_type IS NOT DISTINCT FROM of_type THEN
        RETURN 'unchanged';
    END IF;
    IF before.checksum = version AND before.forgotten_at IS NOT NULL AND EXISTS (
        SELECT FROM rag.knowledge_sources s
        WHERE s.knowledge_space_id = space AND s.file_hash = file AND s.status = 'forgotten') THEN
        RETURN 'forgotten';
    END IF;
    SELECT * INTO room FROM rag.pushed_size(before.id);
    IF room.documents >= most_documents THEN
        RETURN 'documents';
    ELSIF room.bytes + octet_length(given) > most_bytes THEN
        RETURN 'bytes';
    END IF;
    INSERT INTO rag.pushed_documents AS p (
        tenant_id, bot_id, user_id, key, name, content_type, content, bytes, checksum, metadata, pushed_at, pushed_by)
    VALUES (rag.scope_tenant(), rag.scope_bot(), rag.scope_user(), of_key, named, of_type, given, octet_length(given),
            version, described, clock_timestamp(), actor)
    ON CONFLICT (tenant_id, bot_id, user_id, key) DO UPDATE SET
        name = excluded.name, content_type = excluded.content_type, content = excluded.content, bytes = excluded.bytes,
        checksum = excluded.checksum, metadata = excluded.metadata, pushed_by = excluded.pushed_by,
        pushed_at = greatest(excluded.pushed_at, p.pushed_at + interval '1 microsecond'),
        deleted_at = NULL, forgotten_at = NULL;
    RETURN 'pushed';
END $$;

ALTER FUNCTION rag.push_document(of_key text, named text, of_type text, given bytea, described jsonb, version text, file bytea, actor text, most_documents bigint, most_bytes bigint) OWNER TO rag_owner;

CREATE FUNCTION rag.pushed_root(of_user text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (of_user IS NULL) THEN 'push://documents'::text ELSE ('push://user/'::text || (SELECT string_agg(CASE WHEN ((chr(bytes.b) ~ '[A-Za-z0-9_.~-]'::text) AND (bytes.b < 128)) THEN chr(bytes.b) ELSE ('%'::text || upper(lpad(to_hex(bytes.b), 2, '0'::text))) END, ''::text ORDER BY bytes.n) AS string_agg FROM (SELECT n.n, get_byte(convert_to(pushed_root.of_user, 'UTF8'::name), n.n) AS b FROM generate_series(0, (octet_length(pushed_root.of_user) - 1)) n(n)) bytes)) END;

ALTER FUNCTION rag.pushed_root(of_user text) OWNER TO rag_owner;

CREATE FUNCTION rag.pushed_root_options(of_user text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN (jsonb_build_object('max_loss_percent', 100) || CASE WHEN (of_user IS NULL) THEN '{}'::jsonb ELSE jsonb_build_object('visibility', 'user', 'user', of_user) END);

ALTER FUNCTION rag.pushed_root_options(of_user text) OWNER TO rag_owner;

CREATE FUNCTION rag.pushed_size(but bigint) RETURNS TABLE(documents bigint, bytes bigint)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    SELECT count(*), coalesce(sum(p.bytes), 0)::bigint FROM rag.pushed_documents p
    WHERE p.tenant_id = rag.scope_tenant() AND p.bot_id = rag.scope_bot() AND p.content IS NOT NULL
      AND p.id IS DISTINCT FROM but
$$;

ALTER FUNCTION rag.pushed_size(but bigint) OWNER TO rag_search;

CREATE FUNCTION rag.ranked(mode text, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, dense rag.candidates, lexical rag.candidates, dense_weight double precision, fusion text) RETURNS rag.ranking
    LANGUAGE plpgsql STABLE
    AS $$
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

ALTER FUNCTION rag.ranked(mode text, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, dense rag.candidates, lexical rag.candidates, dense_weight double precision, fusion text) OWNER TO rag_search;

CREATE FUNCTION rag.record_answer(query uuid, cited uuid[]) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    WITH changed AS (
        UPDATE rag.query_log SET citations = ARRAY(
            SELECT DISTINCT c FROM unnest(cited) AS c
            WHERE results @> jsonb_build_array(jsonb_build_object('chunk_id', c::text)))
        WHERE (tenant_id, bot_id) = (SELECT rag.scope_tenant(), rag.scope_bot()) AND query_id = record_answer.query
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM changed)
$$;

ALTER FUNCTION rag.record_answer(query uuid, cited uuid[]) OWNER TO rag_search;

CREATE FUNCTION rag.record_feedback(query uuid, chunk uuid, helpful boolean) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
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

ALTER FUNCTION rag.record_feedback(query uuid, chunk uuid, helpful boolean) OWNER TO rag_search;

CREATE FUNCTION rag.refuse_profile_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    known text[] := ARRAY['status', 'last_error', 'last_error_at']
        || CASE WHEN to_jsonb(OLD) ->> 'origin' IS NULL THEN ARRAY['origin'] ELSE '{}' END;
BEGIN
    IF TG_TABLE_NAME = 'profile_specs' OR to_jsonb(NEW) - known IS DISTINCT FROM to_jsonb(OLD) - known THEN
        RAISE EXCEPTION 'profile "%" is immutable: add a profile under another name instead', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

ALTER FUNCTION rag.refuse_profile_change() OWNER TO rag_owner;

CREATE FUNCTION rag.scope_bot() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN NULLIF(current_setting('rag.bot'::text, true), ''::text);

ALTER FUNCTION rag.scope_bot() OWNER TO rag_owner;

CREATE FUNCTION rag.scope_verified() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

ALTER FUNCTION rag.scope_verified() OWNER TO rag_search;

CREATE FUNCTION rag.scope_tenant() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (current_setting('role'::text) = 'rag_ingest'::text) THEN NULLIF(current_setting('rag.tenant'::text, true), ''::text) WHEN ((current_setting('rag.tenant'::text, true) <> ''::text) AND rag.scope_verified()) THEN current_setting('rag.tenant'::text, true) ELSE NULL::text END;

ALTER FUNCTION rag.scope_tenant() OWNER TO rag_owner;

CREATE FUNCTION rag.scope_user() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN NULLIF(current_setting('rag.user'::text, true), ''::text);

ALTER FUNCTION rag.scope_user() OWNER TO rag_owner;

CREATE FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, candidates integer DEFAULT 100, dense_weight double precision DEFAULT 0.5, fusion text DEFAULT 'minmax'::text, filters jsonb DEFAULT '{}'::jsonb, exact boolean DEFAULT false) RETURNS TABLE(chunk_id uuid, source_id uuid, source_name text, source_metadata jsonb, canonical_url text, content text, token_count integer, citation jsonb, metadata jsonb, score double precision, dense_score double precision, lexical_score double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    SELECT chunk_id, source_id, source_name, source_metadata, canonical_url, content, token_count, citation, metadata,
           score, dense_score, lexical_score
    FROM rag.search(mode, query_vector, query_text, top_k, true, candidates, dense_weight, fusion, filters, exact)
$$;

ALTER FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) OWNER TO rag_search;

CREATE FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer DEFAULT 100, dense_weight double precision DEFAULT 0.5, fusion text DEFAULT 'minmax'::text, filters jsonb DEFAULT '{}'::jsonb, exact boolean DEFAULT false) RETURNS TABLE(chunk_id uuid, source_id uuid, source_name text, source_uri text, source_metadata jsonb, canonical_url text, content text, token_count integer, citation jsonb, metadata jsonb, score double precision, dense_score double precision, lexical_score double precision, also_at jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    SELECT chunk_id, source_id, source_name, source_uri, source_metadata, canonical_url, content, token_count, citation,
           metadata, score, dense_score, lexical_score, also_at
    FROM rag.search_space(mode, query_vector, query_text, top_k, copies, candidates, dense_weight, fusion, filters, exact)
$$;

ALTER FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) OWNER TO rag_search;

CREATE FUNCTION rag.search_space(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer DEFAULT 100, dense_weight double precision DEFAULT 0.5, fusion text DEFAULT 'minmax'::text, filters jsonb DEFAULT '{}'::jsonb, exact boolean DEFAULT false) RETURNS SETOF rag.passage
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
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
        query := rag.analysed(profile, query_text, source_condition);
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

ALTER FUNCTION rag.search_space(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) OWNER TO rag_search;

CREATE FUNCTION rag.shared_bot() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    SELECT k.bot_id::text FROM rag.knowledge_spaces k
    WHERE k.tenant_id = (SELECT rag.scope_tenant()) AND rag.scope_bot() IS NOT NULL AND k.visibility_scope = 'tenant'
$$;

ALTER FUNCTION rag.shared_bot() OWNER TO rag_search;

CREATE FUNCTION rag.similarity_of_distance(profile rag.embedding_profiles) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN format('greatest(-1, least(1, %s))'::text, CASE (profile).distance_metric WHEN 'cosine'::text THEN '1 - d'::text WHEN 'ip'::text THEN '-d'::text ELSE '1 - d * d / 2'::text END);

ALTER FUNCTION rag.similarity_of_distance(profile rag.embedding_profiles) OWNER TO rag_owner;

CREATE FUNCTION rag.source_condition(profile rag.embedding_profiles, filters jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
    conditions text := '';
    has_private boolean;
    one record;
BEGIN
    SELECT EXISTS (
        SELECT FROM rag.knowledge_sources s
        WHERE s.knowledge_space_id = profile.knowledge_space_id AND s.scope_type = 'user'
    ) INTO has_private;
    IF has_private THEN
        conditions := format(' AND (s.scope_type = ''bot'' OR s.scope_user_id = %L)', rag.scope_user());
    END IF;
    IF filters = '{}' AND conditions = '' THEN
        RETURN '';
    END IF;
    FOR one IN
        SELECT f.key, c.test FROM jsonb_each(filters) f
        JOIN (VALUES
            ('source_ids', 's.id::text = ANY (%L::text[])'), ('source_names', 's.name = ANY (%L::text[])'),
            ('source_types', 's.source_type = ANY (%L::text[])'), ('locales', 's.locale = ANY (%L::text[])'),
            ('content_types', 's.content_type = ANY (%L::text[])'),
            ('roots', 'EXISTS (SELECT FROM rag.source_roots r WHERE r.id = s.root_id
                       AND (r.uri = ANY (%1$L::text[]) OR r.id::text = ANY (%1$L::text[])))'),
            ('path_prefixes', 'rag.lies_under(s.name, s.metadata -> ''rag:origin'' ->> ''file'', s.external_id,
                %L::text[])'),
            ('tags', 'EXISTS (SELECT FROM rag.values_of(s.metadata -> ''tags'') v WHERE v = ANY (%L::text[]))')
        ) AS c (key, test) ON c.key = f.key
    LOOP
        conditions := conditions || ' AND '
            || format(one.test, ARRAY(SELECT jsonb_array_elements_text(filters -> one.key)));
    END LOOP;
    IF filters ? 'metadata' THEN
        conditions := conditions || format(' AND s.metadata @> %L::jsonb', filters -> 'metadata');
    END IF;
    IF filters ? 'since' THEN
        conditions := conditions
            || format(' AND rag.source_date(s.metadata, s.updated_at) >= %L::timestamptz', filters ->> 'since');
    END IF;
    IF filters ? 'until' THEN
        conditions := conditions
            || format(' AND rag.source_date(s.metadata, s.updated_at) < %L::timestamptz', filters ->> 'until');
    END IF;
    FOR one IN
        SELECT w.key, o.key AS operator, o.value
        FROM jsonb_each(coalesce(filters -> 'where', '{}')) w CROSS JOIN LATERAL jsonb_each(w.value) o
    LOOP
        -- One array for all sources: of a long list each would make a table of its own.
        conditions := conditions || CASE one.operator
            WHEN 'in' THEN format(' AND EXISTS (SELECT FROM rag.values_of(s.metadata -> %L) v WHERE v = ANY (%L::text[]))',
                                  one.key, ARRAY(SELECT rag.values_of(one.value)))
            ELSE format(' AND rag.meets(s.metadata -> %L, %L, %L::jsonb)', one.key, one.operator, one.value) END;
    END LOOP;
    RETURN format(
        ' AND c.source_id IN (SELECT s.id FROM rag.knowledge_sources s WHERE s.knowledge_space_id = %L%s)',
        profile.knowledge_space_id, conditions);
END $_$;

ALTER FUNCTION rag.source_condition(profile rag.embedding_profiles, filters jsonb) OWNER TO rag_search;

CREATE FUNCTION rag.source_date(metadata jsonb, changed_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN COALESCE(rag.as_time((metadata ->> 'modified'::text)), rag.as_time((metadata ->> 'updated'::text)), rag.as_time((metadata ->> 'date'::text)), rag.as_time((metadata ->> 'published'::text)), changed_at);

ALTER FUNCTION rag.source_date(metadata jsonb, changed_at timestamp with time zone) OWNER TO rag_owner;

CREATE FUNCTION rag.take_turn(my_ticket bigint, my_provider text, my_model text, my_account text, my_items bigint, my_tokens bigint, slack double precision, nap double precision, OUT ticket bigint, OUT wait_s double precision, OUT locked_s double precision) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'rag', 'pg_temp'
    AS $$
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

ALTER FUNCTION rag.take_turn(my_ticket bigint, my_provider text, my_model text, my_account text, my_items bigint, my_tokens bigint, slack double precision, nap double precision, OUT ticket bigint, OUT wait_s double precision, OUT locked_s double precision) OWNER TO rag_owner;

CREATE FUNCTION rag.tenants_with_open_jobs() RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'pg_temp'
    AS $$
    SELECT DISTINCT tenant_id::text FROM rag.embedding_jobs WHERE state IN ('submitting', 'running') ORDER BY 1
$$;

ALTER FUNCTION rag.tenants_with_open_jobs() OWNER TO rag_owner;

CREATE FUNCTION rag.text_terms(config regconfig, prepared text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN (strpos(prepared, chr(10)) = 0) THEN to_tsvector(config, prepared) ELSE (to_tsvector(config, split_part(prepared, chr(10), 1)) || setweight(to_tsvector(config, split_part(prepared, chr(10), 2)), 'A'::"char")) END;

ALTER FUNCTION rag.text_terms(config regconfig, prepared text) OWNER TO rag_owner;

CREATE FUNCTION rag.texts_of_spans(sources uuid[], versions text[], firsts integer[], lasts integer[]) RETURNS TABLE(number bigint, content text)
    LANGUAGE sql STABLE
    AS $$
    WITH spans AS (
        SELECT * FROM unnest(sources, versions, firsts, lasts)
            WITH ORDINALITY AS s (source_id, version, first, last, number)
    ), small AS (
        SELECT DISTINCT s.source_id, s.version, piece, piece / 16 AS large_piece
        FROM spans s CROSS JOIN LATERAL generate_series(s.first / 32768, (s.last - 1) / 32768) AS piece
    ), large AS MATERIALIZED (
        SELECT l.*, substring(d.text FROM l.large_piece * 524288 + 1 FOR 524288) AS content
        FROM (SELECT DISTINCT source_id, version, large_piece FROM small) l
        JOIN rag.source_documents d ON d.source_id = l.source_id AND d.checksum = l.version
    ), pieces AS MATERIALIZED (
        SELECT source_id, version, p.piece * 32768 AS first, (p.piece + 1) * 32768 AS last,
               substring(l.content FROM p.piece % 16 * 32768 + 1 FOR 32768) AS content
        FROM small p JOIN large l USING (source_id, version, large_piece)
    )
    SELECT s.number, string_agg(
        substring(p.content FROM greatest(s.first - p.first, 0) + 1
                            FOR least(s.last, p.last) - greatest(s.first, p.first)), '' ORDER BY p.first)
    FROM spans s
    JOIN pieces p ON p.source_id = s.source_id AND p.version = s.version AND p.first < s.last AND p.last > s.first
    GROUP BY s.number
$$;

ALTER FUNCTION rag.texts_of_spans(sources uuid[], versions text[], firsts integer[], lasts integer[]) OWNER TO rag_owner;

CREATE FUNCTION rag.token_of(token_hash bytea) RETURNS TABLE(id uuid, tenant text, bot text, user_id text, may text[], is_revoked boolean, is_expired boolean, expires_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'rag', 'public', 'pg_temp'
    AS $$
    SELECT t.id, t.tenant_id::text, t.bot_id::text, t.user_id, t.may, t.revoked_at IS NOT NULL,
           coalesce(t.expires_at <= now(), false), t.expires_at
    FROM rag.api_tokens t WHERE t.hash = token_hash
$$;

ALTER FUNCTION rag.token_of(token_hash bytea) OWNER TO rag_search;

CREATE FUNCTION rag.triple_condition(profile rag.embedding_profiles, source_condition text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN format('c.knowledge_space_id = %1$L AND c.tenant_id = %2$L
         AND (c.embedding_profile_id IS NULL OR c.embedding_profile_id = %3$s)
         AND EXISTS (SELECT FROM rag.source_profiles sp
                     WHERE sp.embedding_profile_id = %3$s AND sp.source_id = c.source_id AND sp.tenant_id = %2$L
                       AND sp.checksum = c.checksum AND sp.status = ''ready'')%4$s'::text, (profile).knowledge_space_id, (profile).tenant_id, (profile).id, source_condition);

ALTER FUNCTION rag.triple_condition(profile rag.embedding_profiles, source_condition text) OWNER TO rag_owner;

CREATE FUNCTION rag.trust(dense rag.candidates, lexical rag.candidates, dense_weight double precision) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT CASE WHEN (best.best_lexical IS NULL) THEN GREATEST(best.best_dense, (0)::double precision) WHEN (best.best_dense IS NULL) THEN best.best_lexical ELSE ((trust.dense_weight * GREATEST(best.best_dense, (0)::double precision)) + (((1)::double precision - trust.dense_weight) * best.best_lexical)) END AS "case" FROM (SELECT (SELECT max(score.score) AS max FROM unnest((trust.dense).scores) score(score)) AS best_dense, (SELECT max(score.score) AS max FROM unnest((trust.lexical).scores) score(score)) AS best_lexical) best);

ALTER FUNCTION rag.trust(dense rag.candidates, lexical rag.candidates, dense_weight double precision) OWNER TO rag_owner;

CREATE FUNCTION rag.user_mark(tenant text, "user" text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substr(encode(sha256(convert_to(((tenant || chr(10)) || "user"), 'UTF8'::name)), 'hex'::text), 1, 32);

ALTER FUNCTION rag.user_mark(tenant text, "user" text) OWNER TO rag_owner;

CREATE FUNCTION rag.values_of(value jsonb) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE jsonb_typeof(value) WHEN 'array' THEN one #>> '{}' ELSE value #>> '{}' END
    FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[null]' END) AS elements (one)
$$;

ALTER FUNCTION rag.values_of(value jsonb) OWNER TO rag_owner;

CREATE FUNCTION rag.who_asks(OUT tenant text, OUT bot text, OUT mark text) RETURNS record
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT s.tenant, s.bot, coalesce(rag.user_mark(s.tenant, s."user"), '')
    FROM (SELECT rag.scope_tenant(), rag.scope_bot(), rag.scope_user()) AS s (tenant, bot, "user")
$$;

ALTER FUNCTION rag.who_asks(OUT tenant text, OUT bot text, OUT mark text) OWNER TO rag_owner;

CREATE FUNCTION rag.words_that_reach(words text[], weights double precision[], first integer, needed double precision, size integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    ways text[] := '{}';
    beside text;
BEGIN
    FOR n IN first..cardinality(words) LOOP
        IF weights[n] >= needed THEN
            ways := ways || words[n];
        ELSE
            EXIT WHEN size * weights[n] < needed;
            beside := rag.words_that_reach(words, weights, n + 1, needed - weights[n], size - 1);
            IF beside <> '' THEN
                ways := ways || format('%s & (%s)', words[n], beside);
            END IF;
        END IF;
    END LOOP;
    RETURN array_to_string(ways, ' | ');
END $$;

ALTER FUNCTION rag.words_that_reach(words text[], weights double precision[], first integer, needed double precision, size integer) OWNER TO rag_search;

CREATE FUNCTION rag.wrong_filters(filters jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE((SELECT string_agg(format('filters: %s'::text, f.key), ', '::text ORDER BY f.key) AS string_agg FROM jsonb_each(wrong_filters.filters) f(key, value) WHERE CASE WHEN (f.key = ANY (ARRAY['source_ids'::text, 'source_names'::text, 'source_types'::text, 'locales'::text, 'content_types'::text, 'roots'::text, 'path_prefixes'::text, 'tags'::text])) THEN ((jsonb_typeof(f.value) <> 'array'::text) OR jsonb_path_exists(f.value, '$[*]?(@.type() != "string")'::jsonpath)) WHEN (f.key = 'metadata'::text) THEN (jsonb_typeof(f.value) <> 'object'::text) WHEN (f.key = ANY (ARRAY['since'::text, 'until'::text])) THEN ((jsonb_typeof(f.value) <> 'string'::text) OR (NOT pg_input_is_valid((f.value #>> '{}'::text[]), 'timestamptz'::text))) WHEN (f.key = 'where'::text) THEN ((jsonb_typeof(f.value) <> 'object'::text) OR (EXISTS (SELECT FROM jsonb_each(CASE jsonb_typeof(f.value) WHEN 'object'::text THEN f.value ELSE '{}'::jsonb END) w(key, value) WHERE ((jsonb_typeof(w.value) <> 'object'::text) OR (w.value = '{}'::jsonb) OR (EXISTS (SELECT FROM jsonb_each(CASE jsonb_typeof(w.value) WHEN 'object'::text THEN w.value ELSE '{}'::jsonb END) o(key, value) WHERE CASE WHEN (o.key = 'exists'::text) THEN (jsonb_typeof(o.value) <> 'boolean'::text) WHEN (o.key = 'equals'::text) THEN (jsonb_typeof(o.value) <> ALL (ARRAY['string'::text, 'number'::text, 'boolean'::text])) WHEN (o.key = 'in'::text) THEN (jsonb_typeof(o.value) <> 'array'::text) WHEN (o.key = ANY (ARRAY['gt'::text, 'gte'::text, 'lt'::text, 'lte'::text])) THEN (jsonb_typeof(o.value) <> ALL (ARRAY['string'::text, 'number'::text])) ELSE true END)))))) ELSE true END), ''::text);

ALTER FUNCTION rag.wrong_filters(filters jsonb) OWNER TO rag_owner;

CREATE TABLE rag._yoyo_log (
    id character varying(36) NOT NULL,
    migration_hash character varying(64),
    migration_id character varying(255),
    operation character varying(10),
    username character varying(255),
    hostname character varying(255),
    comment character varying(255),
    created_at_utc timestamp without time zone
);

ALTER TABLE rag._yoyo_log OWNER TO rag_owner;

CREATE TABLE rag._yoyo_migration (
    migration_hash character varying(64) NOT NULL,
    migration_id character varying(255),
    applied_at_utc timestamp without time zone
);

ALTER TABLE rag._yoyo_migration OWNER TO rag_owner;

CREATE TABLE rag._yoyo_version (
    version integer NOT NULL,
    installed_at_utc timestamp without time zone
);

ALTER TABLE rag._yoyo_version OWNER TO rag_owner;

CREATE TABLE rag.api_tokens (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    user_id text,
    name text NOT NULL,
    hash bytea NOT NULL,
    may text[] NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    actor text DEFAULT COALESCE(NULLIF(current_setting('rag.actor'::text, true), ''::text), (SESSION_USER)::text) NOT NULL,
    CONSTRAINT api_tokens_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT api_tokens_may_check CHECK (((may <@ ARRAY['search'::text, 'feedback'::text, 'push'::text]) AND (cardinality(may) > 0))),
    CONSTRAINT api_tokens_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
    CONSTRAINT api_tokens_user_id_check CHECK ((user_id <> ''::text))
);

ALTER TABLE ONLY rag.api_tokens FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.api_tokens OWNER TO rag_owner;

CREATE TABLE rag.bots (
    tenant_id rag.key NOT NULL,
    id rag.key NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY rag.bots FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.bots OWNER TO rag_owner;

CREATE TABLE rag.corpus_changes (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    tenant_id rag.key NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY rag.corpus_changes FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.corpus_changes OWNER TO rag_owner;

CREATE TABLE rag.embedding_cache (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    model_key text NOT NULL,
    content_hash bytea NOT NULL,
    embedding public.vector NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    role text DEFAULT 'document'::text NOT NULL,
    CONSTRAINT embedding_cache_role_check CHECK ((role = ANY (ARRAY['document'::text, 'query'::text])))
);

ALTER TABLE ONLY rag.embedding_cache FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_cache OWNER TO rag_owner;

CREATE TABLE rag.embedding_job_items (
    job_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    content_hash bytea NOT NULL,
    "position" integer NOT NULL,
    sample text,
    state text DEFAULT 'pending'::text NOT NULL,
    error text,
    CONSTRAINT embedding_job_items_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'done'::text, 'failed'::text])))
);

ALTER TABLE ONLY rag.embedding_job_items FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_job_items OWNER TO rag_owner;

CREATE TABLE rag.embedding_job_sources (
    embedding_profile_id bigint NOT NULL,
    source_id uuid NOT NULL,
    checksum text NOT NULL,
    job_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL
);

ALTER TABLE ONLY rag.embedding_job_sources FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_job_sources OWNER TO rag_owner;

CREATE TABLE rag.embedding_jobs (
    id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    profile rag.key NOT NULL,
    model_key text NOT NULL,
    route text NOT NULL,
    display_name text NOT NULL,
    remote_name text,
    remote_state text,
    result_file text,
    state text DEFAULT 'submitting'::text NOT NULL,
    uploads integer DEFAULT 0 NOT NULL,
    items integer NOT NULL,
    tokens bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    submitted_at timestamp with time zone,
    ended_at timestamp with time zone,
    deadline timestamp with time zone NOT NULL,
    error text,
    CONSTRAINT embedding_jobs_items_check CHECK ((items > 0)),
    CONSTRAINT embedding_jobs_state_check CHECK ((state = ANY (ARRAY['submitting'::text, 'running'::text, 'done'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT embedding_jobs_tokens_check CHECK ((tokens >= 0))
);

ALTER TABLE ONLY rag.embedding_jobs FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_jobs OWNER TO rag_owner;

ALTER TABLE rag.embedding_profiles ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.embedding_profiles_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.embedding_usage (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    profile rag.key NOT NULL,
    model_key text NOT NULL,
    role text NOT NULL,
    day date DEFAULT CURRENT_DATE NOT NULL,
    items bigint DEFAULT 0 NOT NULL,
    cache_hits bigint DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    cost_usd numeric DEFAULT 0 NOT NULL,
    timed_items bigint DEFAULT 0 NOT NULL,
    seconds double precision DEFAULT 0 NOT NULL,
    CONSTRAINT embedding_usage_role_check CHECK ((role = ANY (ARRAY['document'::text, 'query'::text, 'triples'::text])))
);

ALTER TABLE ONLY rag.embedding_usage FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_usage OWNER TO rag_owner;

CREATE TABLE rag.eval_runs (
    id bigint NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    embedding_profile_id bigint NOT NULL,
    eval_set_id bigint NOT NULL,
    mode text NOT NULL,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    snapshot text NOT NULL,
    run_hash text NOT NULL,
    metrics jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT eval_runs_mode_check CHECK ((mode = ANY (ARRAY['dense'::text, 'lexical'::text, 'hybrid'::text, 'retriever'::text])))
);

ALTER TABLE ONLY rag.eval_runs FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.eval_runs OWNER TO rag_owner;

ALTER TABLE rag.eval_runs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.eval_runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.eval_sets (
    id bigint NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    content_hash text NOT NULL,
    queries jsonb NOT NULL,
    qrels jsonb NOT NULL,
    imported_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY rag.eval_sets FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.eval_sets OWNER TO rag_owner;

ALTER TABLE rag.eval_sets ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.eval_sets_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.floors (
    embedding_profile_id bigint NOT NULL,
    mode text NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    floor double precision NOT NULL,
    dense_weight double precision,
    evidence jsonb NOT NULL,
    actor text DEFAULT COALESCE(NULLIF(current_setting('rag.actor'::text, true), ''::text), (SESSION_USER)::text) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT floors_dense_weight_check CHECK (((dense_weight >= (0)::double precision) AND (dense_weight <= (1)::double precision))),
    CONSTRAINT floors_floor_check CHECK (((floor >= ('-1'::integer)::double precision) AND (floor <= (1)::double precision))),
    CONSTRAINT floors_mode_check CHECK ((mode = ANY (ARRAY['dense'::text, 'lexical'::text, 'hybrid'::text])))
);

ALTER TABLE ONLY rag.floors FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.floors OWNER TO rag_owner;

CREATE TABLE rag.found_weights (
    embedding_profile_id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    dense_weight double precision,
    evidence jsonb NOT NULL,
    statistics_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT found_weights_dense_weight_check CHECK (((dense_weight >= (0)::double precision) AND (dense_weight <= (1)::double precision)))
);

ALTER TABLE ONLY rag.found_weights FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.found_weights OWNER TO rag_owner;

CREATE TABLE rag.gate_verdicts (
    id bigint NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    candidate_profile_id bigint NOT NULL,
    baseline_profile_id bigint NOT NULL,
    candidate_run_id bigint NOT NULL,
    baseline_run_id bigint NOT NULL,
    candidate_snapshot text NOT NULL,
    baseline_snapshot text NOT NULL,
    policy jsonb NOT NULL,
    criteria jsonb NOT NULL,
    outcome text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    asked_alike boolean DEFAULT true NOT NULL,
    CONSTRAINT gate_verdicts_outcome_check CHECK ((outcome = ANY (ARRAY['passed'::text, 'refused'::text, 'undecided'::text])))
);

ALTER TABLE ONLY rag.gate_verdicts FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.gate_verdicts OWNER TO rag_owner;

ALTER TABLE rag.gate_verdicts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.gate_verdicts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.index_state (
    embedding_profile_id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    average_length double precision,
    dense_floor double precision,
    chunks_at_statistics bigint DEFAULT 0 NOT NULL,
    statistics_at timestamp with time zone,
    chunks_at_hnsw bigint DEFAULT 0 NOT NULL,
    ef_search integer DEFAULT 100 NOT NULL,
    recall_at_10 double precision,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    counts_shared_only boolean DEFAULT false NOT NULL,
    oversampling smallint,
    CONSTRAINT index_state_ef_search_check CHECK (((ef_search >= 1) AND (ef_search <= 1000))),
    CONSTRAINT index_state_oversampling_check CHECK (((oversampling >= 1) AND (oversampling <= 1000)))
);

ALTER TABLE ONLY rag.index_state FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.index_state OWNER TO rag_owner;

CREATE TABLE rag.knowledge_chunks (
    id uuid NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    source_id uuid NOT NULL,
    embedding_profile_id bigint NOT NULL,
    chunk_index integer NOT NULL,
    content text NOT NULL,
    token_count integer NOT NULL,
    citation jsonb NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    fts tsvector NOT NULL,
    lexical public.sparsevec NOT NULL,
    embedding public.vector NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT knowledge_chunks_content_check CHECK ((content <> ''::text))
)
PARTITION BY LIST (embedding_profile_id);

ALTER TABLE ONLY rag.knowledge_chunks FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.knowledge_chunks OWNER TO rag_owner;

CREATE TABLE rag.knowledge_spaces (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    name rag.key DEFAULT 'default'::text NOT NULL,
    visibility_scope text DEFAULT 'bot'::text NOT NULL,
    active_profile_id bigint,
    canary_profile_id bigint,
    canary_percent smallint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    previous_profile_id bigint,
    CONSTRAINT knowledge_spaces_canary_percent_check CHECK (((canary_percent >= 0) AND (canary_percent <= 100))),
    CONSTRAINT knowledge_spaces_check CHECK (((canary_profile_id IS NULL) = (canary_percent = 0))),
    CONSTRAINT knowledge_spaces_visibility_scope_check CHECK ((visibility_scope = ANY (ARRAY['bot'::text, 'tenant'::text, 'user'::text])))
);

ALTER TABLE ONLY rag.knowledge_spaces FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.knowledge_spaces OWNER TO rag_owner;

CREATE TABLE rag.lexeme_stats (
    embedding_profile_id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    lexeme text NOT NULL,
    chunk_count integer NOT NULL
);

ALTER TABLE ONLY rag.lexeme_stats FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.lexeme_stats OWNER TO rag_owner;

CREATE TABLE rag.page_signatures (
    source_id uuid NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    checksum text NOT NULL,
    minhash bytea NOT NULL,
    blocks bigint[] NOT NULL
);

ALTER TABLE ONLY rag.page_signatures FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.page_signatures OWNER TO rag_owner;

CREATE TABLE rag.profile_events (
    id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    knowledge_space_id uuid NOT NULL,
    embedding_profile_id bigint,
    event text NOT NULL,
    actor text DEFAULT COALESCE(NULLIF(current_setting('rag.actor'::text, true), ''::text), (SESSION_USER)::text) NOT NULL,
    evidence jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT profile_events_event_check CHECK ((event = ANY (ARRAY['created'::text, 'ready'::text, 'activated'::text, 'promoted'::text, 'forced'::text, 'rolled_back'::text, 'canary'::text, 'retired'::text, 'dropped'::text, 'forgotten'::text, 'allowed'::text])))
);

ALTER TABLE ONLY rag.profile_events FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.profile_events OWNER TO rag_owner;

ALTER TABLE rag.profile_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.profile_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.profile_settings (
    profile rag.key NOT NULL,
    max_cost_usd numeric,
    mode text DEFAULT 'sync'::text NOT NULL,
    CONSTRAINT profile_settings_max_cost_usd_check CHECK ((max_cost_usd >= (0)::numeric)),
    CONSTRAINT profile_settings_mode_check CHECK ((mode = ANY (ARRAY['sync'::text, 'batch'::text])))
);

ALTER TABLE ONLY rag.profile_settings FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.profile_settings OWNER TO rag_owner;

CREATE TABLE rag.profile_specs (
    name rag.key NOT NULL,
    spec jsonb NOT NULL,
    spec_hash text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY rag.profile_specs FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.profile_specs OWNER TO rag_owner;

CREATE VIEW rag.profile_work WITH (security_invoker='true') AS
 SELECT p.id AS embedding_profile_id,
    s.id AS source_id,
    s.tenant_id,
    s.bot_id,
    s.external_id,
    s.name,
    s.content_type,
    s.locale,
    s.status,
    s.checksum,
    sp.checksum AS published_checksum,
        CASE
            WHEN rag.embeds_media(p.options) THEN s.media
            ELSE NULL::jsonb
        END AS media,
        CASE
            WHEN (NOT rag.is_publishable(s.*, p.options)) THEN
            CASE
                WHEN (sp.source_id IS NOT NULL) THEN 'gone'::text
                ELSE NULL::text
            END
            WHEN ((sp.source_id IS NULL) AND (s.status <> 'failed'::text)) THEN 'missing'::text
            WHEN (sp.source_id IS NULL) THEN
            CASE
                WHEN (EXISTS ( SELECT
                   FROM rag.source_documents d
                  WHERE ((d.source_id = s.id) AND (d.checksum = s.checksum)))) THEN 'due'::text
                ELSE NULL::text
            END
            WHEN ((sp.next_try_at <= now()) AND ((sp.checksum = s.checksum) OR (s.failed_stage = 'publish'::text))) THEN 'due'::text
            WHEN ((sp.status = 'ready'::text) AND (sp.checksum = s.checksum) AND ((sp.duplicate_of IS NULL) OR (EXISTS ( SELECT
               FROM (rag.source_profiles o
                 JOIN rag.knowledge_sources os ON ((os.id = o.source_id)))
              WHERE ((o.embedding_profile_id = p.id) AND (o.source_id = sp.duplicate_of) AND (o.status = 'ready'::text) AND (o.checksum = sp.duplicate_checksum) AND (os.checksum = o.checksum) AND (os.status <> ALL (ARRAY['deleted'::text, 'no_text'::text]))))))) THEN NULL::text
            WHEN ((s.status = 'failed'::text) OR ((sp.status = 'failed'::text) AND (sp.checksum = s.checksum))) THEN 'failed'::text
            WHEN ((sp.status = 'ready'::text) AND (sp.checksum <> s.checksum)) THEN 'missing'::text
            ELSE 'due'::text
        END AS work
   FROM ((rag.embedding_profiles p
     JOIN rag.knowledge_sources s ON ((s.knowledge_space_id = p.knowledge_space_id)))
     LEFT JOIN LATERAL ( SELECT source_profiles.source_id,
            source_profiles.checksum,
            source_profiles.status,
            source_profiles.next_try_at,
            source_profiles.duplicate_of,
            source_profiles.duplicate_checksum
           FROM rag.source_profiles
          WHERE ((source_profiles.embedding_profile_id = p.id) AND (source_profiles.source_id = s.id))
         OFFSET 0) sp ON (true));

ALTER VIEW rag.profile_work OWNER TO rag_owner;

CREATE TABLE rag.pushed_documents (
    id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    user_id text,
    key text NOT NULL,
    name text NOT NULL,
    content_type text,
    content bytea,
    bytes integer NOT NULL,
    checksum text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    pushed_at timestamp with time zone NOT NULL,
    pushed_by text NOT NULL,
    read_at timestamp with time zone,
    deleted_at timestamp with time zone,
    forgotten_at timestamp with time zone,
    CONSTRAINT pushed_documents_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT pushed_documents_check CHECK (((content IS NULL) = ((deleted_at IS NOT NULL) OR (forgotten_at IS NOT NULL)))),
    CONSTRAINT pushed_documents_content_check CHECK ((octet_length(content) <= 209715200)),
    CONSTRAINT pushed_documents_content_type_check CHECK ((octet_length(content_type) <= 200)),
    CONSTRAINT pushed_documents_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 1000))),
    CONSTRAINT pushed_documents_metadata_check CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT pushed_documents_name_check CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 1000))),
    CONSTRAINT pushed_documents_user_id_check CHECK (((octet_length(user_id) >= 1) AND (octet_length(user_id) <= 1000)))
);

ALTER TABLE ONLY rag.pushed_documents FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.pushed_documents OWNER TO rag_owner;

ALTER TABLE rag.pushed_documents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.pushed_documents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.query_log (
    tenant_id rag.key DEFAULT rag.scope_tenant() NOT NULL,
    bot_id rag.key DEFAULT rag.scope_bot() NOT NULL,
    query_id uuid NOT NULL,
    user_mark text DEFAULT rag.user_mark(rag.scope_tenant(), rag.scope_user()),
    asked_at timestamp with time zone NOT NULL,
    query text NOT NULL,
    profile text NOT NULL,
    retriever text NOT NULL,
    mode text,
    top_k integer NOT NULL,
    filters jsonb,
    rung text,
    degraded boolean NOT NULL,
    error text,
    top_similarity double precision,
    results jsonb NOT NULL,
    timings_ms jsonb NOT NULL,
    citations uuid[],
    feedback jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT query_log_query_check CHECK ((length(query) <= 2000)),
    CONSTRAINT query_log_results_check CHECK ((jsonb_typeof(results) = 'array'::text))
);

ALTER TABLE ONLY rag.query_log FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.query_log OWNER TO rag_owner;

CREATE TABLE rag.rate_blocks (
    provider text NOT NULL,
    model text NOT NULL,
    account text NOT NULL,
    blocked_until timestamp with time zone NOT NULL
);

ALTER TABLE ONLY rag.rate_blocks FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.rate_blocks OWNER TO rag_owner;

ALTER TABLE rag.rate_limits ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.rate_limits_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE rag.rate_requests ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.rate_requests_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.refused_texts (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    model_key text NOT NULL,
    content_hash bytea NOT NULL,
    reason text NOT NULL,
    attempts integer DEFAULT 1 NOT NULL,
    refused_at timestamp with time zone DEFAULT now() NOT NULL,
    next_try_at timestamp with time zone
);

ALTER TABLE ONLY rag.refused_texts FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.refused_texts OWNER TO rag_owner;

CREATE TABLE rag.scope_keys (
    id text NOT NULL,
    inner_block bytea NOT NULL,
    outer_block bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT scope_keys_id_check CHECK ((id ~ '^[A-Za-z0-9_-]{1,32}$'::text)),
    CONSTRAINT scope_keys_inner_block_check CHECK ((octet_length(inner_block) = 64)),
    CONSTRAINT scope_keys_outer_block_check CHECK ((octet_length(outer_block) = 64))
);

ALTER TABLE ONLY rag.scope_keys FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.scope_keys OWNER TO rag_owner;

CREATE TABLE rag.scope_signing (
    only_one boolean DEFAULT true NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    turned_on_by text NOT NULL,
    CONSTRAINT scope_signing_only_one_check CHECK (only_one)
);

ALTER TABLE ONLY rag.scope_signing FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.scope_signing OWNER TO rag_owner;

CREATE TABLE rag.source_files (
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    root_id uuid NOT NULL,
    file_hash bytea NOT NULL,
    uri text NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    checksum text NOT NULL,
    parser_version text NOT NULL,
    etag text,
    last_modified text,
    held_since timestamp with time zone,
    read_at timestamp with time zone,
    ctime_ns bigint,
    inode bigint
);

ALTER TABLE ONLY rag.source_files FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.source_files OWNER TO rag_owner;

CREATE VIEW rag.source_overview WITH (security_invoker='true') AS
 SELECT s.tenant_id,
    s.bot_id,
    s.id AS source_id,
    s.name,
    s.source_type,
    s.status,
    s.progress_percent,
    s.error_message,
    p.name AS profile,
    sp.status AS profile_status,
    sp.chunk_count,
    (sp.checksum = s.checksum) AS up_to_date,
    s.updated_at
   FROM ((rag.knowledge_sources s
     LEFT JOIN rag.source_profiles sp ON ((sp.source_id = s.id)))
     LEFT JOIN rag.embedding_profiles p ON ((p.id = sp.embedding_profile_id)));

ALTER VIEW rag.source_overview OWNER TO rag_owner;

CREATE TABLE rag.source_roots (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    uri text NOT NULL,
    last_error text,
    scanned_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    next_scan_at timestamp with time zone,
    scan jsonb,
    CONSTRAINT source_roots_visibility CHECK (((COALESCE((options ->> 'visibility'::text), 'bot'::text) = 'user'::text) = (COALESCE((options ->> 'user'::text), ''::text) <> ''::text)))
);

ALTER TABLE ONLY rag.source_roots FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.source_roots OWNER TO rag_owner;

CREATE TABLE rag.tenants (
    id rag.key NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY rag.tenants FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.tenants OWNER TO rag_owner;

CREATE TABLE rag.triple_answers (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    model_key text NOT NULL,
    content_hash bytea NOT NULL,
    triples jsonb NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY rag.triple_answers FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.triple_answers OWNER TO rag_owner;

CREATE TABLE rag.triples (
    id bigint NOT NULL,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    source_id uuid NOT NULL,
    checksum text NOT NULL,
    embedding_profile_id bigint,
    start_at integer NOT NULL,
    end_at integer NOT NULL,
    subject text NOT NULL,
    predicate text NOT NULL,
    object text NOT NULL,
    confidence real NOT NULL,
    language text NOT NULL,
    subject_id uuid NOT NULL,
    object_id uuid NOT NULL,
    subject_words tsvector NOT NULL,
    predicate_words tsvector NOT NULL,
    object_words tsvector NOT NULL,
    actor text DEFAULT COALESCE(NULLIF(current_setting('rag.actor'::text, true), ''::text), (SESSION_USER)::text) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT triples_check CHECK ((end_at > start_at)),
    CONSTRAINT triples_confidence_check CHECK (((confidence > (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT triples_object_check CHECK (((length(object) >= 1) AND (length(object) <= 500))),
    CONSTRAINT triples_predicate_check CHECK (((length(predicate) >= 1) AND (length(predicate) <= 500))),
    CONSTRAINT triples_start_at_check CHECK ((start_at >= 0)),
    CONSTRAINT triples_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 500)))
);

ALTER TABLE ONLY rag.triples FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.triples OWNER TO rag_owner;

ALTER TABLE rag.triples ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.triples_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE rag.tuned_weights (
    embedding_profile_id bigint NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    dense_weight double precision NOT NULL,
    evidence jsonb NOT NULL,
    actor text DEFAULT COALESCE(NULLIF(current_setting('rag.actor'::text, true), ''::text), (SESSION_USER)::text) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tuned_weights_dense_weight_check CHECK (((dense_weight >= (0)::double precision) AND (dense_weight <= (1)::double precision)))
);

ALTER TABLE ONLY rag.tuned_weights FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.tuned_weights OWNER TO rag_owner;

CREATE TABLE rag.work_attempts (
    tenant_id rag.key NOT NULL,
    profile text DEFAULT ''::text NOT NULL,
    attempts integer NOT NULL,
    last_error text NOT NULL,
    last_at timestamp with time zone NOT NULL,
    next_try_at timestamp with time zone NOT NULL,
    run_id text NOT NULL,
    work text DEFAULT ''::text NOT NULL,
    CONSTRAINT work_attempts_attempts_check CHECK ((attempts > 0))
);

ALTER TABLE ONLY rag.work_attempts FORCE ROW LEVEL SECURITY;

ALTER TABLE rag.work_attempts OWNER TO rag_owner;

CREATE TABLE rag.yoyo_lock (
    locked integer DEFAULT 1 NOT NULL,
    ctime timestamp without time zone,
    pid integer NOT NULL
);

ALTER TABLE rag.yoyo_lock OWNER TO rag_owner;

ALTER TABLE ONLY rag._yoyo_log
    ADD CONSTRAINT _yoyo_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag._yoyo_migration
    ADD CONSTRAINT _yoyo_migration_pkey PRIMARY KEY (migration_hash);

ALTER TABLE ONLY rag._yoyo_version
    ADD CONSTRAINT _yoyo_version_pkey PRIMARY KEY (version);

ALTER TABLE ONLY rag.api_tokens
    ADD CONSTRAINT api_tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY rag.api_tokens
    ADD CONSTRAINT api_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.bots
    ADD CONSTRAINT bots_pkey PRIMARY KEY (tenant_id, id);

ALTER TABLE ONLY rag.corpus_changes
    ADD CONSTRAINT corpus_changes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.embedding_cache
    ADD CONSTRAINT embedding_cache_pkey PRIMARY KEY (tenant_id, model_key, role, content_hash);

ALTER TABLE ONLY rag.embedding_job_items
    ADD CONSTRAINT embedding_job_items_pkey PRIMARY KEY (job_id, content_hash);

ALTER TABLE ONLY rag.embedding_job_sources
    ADD CONSTRAINT embedding_job_sources_pkey PRIMARY KEY (embedding_profile_id, source_id, job_id);

ALTER TABLE ONLY rag.embedding_jobs
    ADD CONSTRAINT embedding_jobs_display_name_key UNIQUE (display_name);

ALTER TABLE ONLY rag.embedding_jobs
    ADD CONSTRAINT embedding_jobs_id_tenant_id_bot_id_key UNIQUE (id, tenant_id, bot_id);

ALTER TABLE ONLY rag.embedding_jobs
    ADD CONSTRAINT embedding_jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.embedding_profiles
    ADD CONSTRAINT embedding_profiles_id_knowledge_space_id_tenant_id_bot_id_key UNIQUE (id, knowledge_space_id, tenant_id, bot_id);

ALTER TABLE ONLY rag.embedding_profiles
    ADD CONSTRAINT embedding_profiles_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.embedding_usage
    ADD CONSTRAINT embedding_usage_pkey PRIMARY KEY (tenant_id, bot_id, profile, model_key, role, day);

ALTER TABLE ONLY rag.eval_runs
    ADD CONSTRAINT eval_runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.eval_sets
    ADD CONSTRAINT eval_sets_knowledge_space_id_content_hash_key UNIQUE (knowledge_space_id, content_hash);

ALTER TABLE ONLY rag.eval_sets
    ADD CONSTRAINT eval_sets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.floors
    ADD CONSTRAINT floors_pkey PRIMARY KEY (embedding_profile_id, mode);

ALTER TABLE ONLY rag.found_weights
    ADD CONSTRAINT found_weights_pkey PRIMARY KEY (embedding_profile_id);

ALTER TABLE ONLY rag.gate_verdicts
    ADD CONSTRAINT gate_verdicts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.index_state
    ADD CONSTRAINT index_state_pkey PRIMARY KEY (embedding_profile_id);

ALTER TABLE ONLY rag.knowledge_chunks
    ADD CONSTRAINT knowledge_chunks_pkey PRIMARY KEY (embedding_profile_id, id);

ALTER TABLE ONLY rag.knowledge_sources
    ADD CONSTRAINT knowledge_sources_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_id_tenant_id_bot_id_key UNIQUE (id, tenant_id, bot_id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_tenant_id_bot_id_name_key UNIQUE (tenant_id, bot_id, name);

ALTER TABLE ONLY rag.lexeme_stats
    ADD CONSTRAINT lexeme_stats_pkey PRIMARY KEY (embedding_profile_id, lexeme);

ALTER TABLE ONLY rag.page_signatures
    ADD CONSTRAINT page_signatures_pkey PRIMARY KEY (source_id);

ALTER TABLE ONLY rag.profile_events
    ADD CONSTRAINT profile_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.profile_settings
    ADD CONSTRAINT profile_settings_pkey PRIMARY KEY (profile);

ALTER TABLE ONLY rag.profile_specs
    ADD CONSTRAINT profile_specs_pkey PRIMARY KEY (name);

ALTER TABLE ONLY rag.pushed_documents
    ADD CONSTRAINT pushed_documents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.query_log
    ADD CONSTRAINT query_log_pkey PRIMARY KEY (tenant_id, bot_id, query_id);

ALTER TABLE ONLY rag.rate_blocks
    ADD CONSTRAINT rate_blocks_pkey PRIMARY KEY (provider, model, account);

ALTER TABLE ONLY rag.rate_limits
    ADD CONSTRAINT rate_limits_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.rate_limits
    ADD CONSTRAINT rate_limits_tenant_id_provider_model_key UNIQUE NULLS NOT DISTINCT (tenant_id, provider, model);

ALTER TABLE ONLY rag.rate_requests
    ADD CONSTRAINT rate_requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.refused_texts
    ADD CONSTRAINT refused_texts_pkey PRIMARY KEY (tenant_id, model_key, content_hash);

ALTER TABLE ONLY rag.scope_keys
    ADD CONSTRAINT scope_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.scope_signing
    ADD CONSTRAINT scope_signing_pkey PRIMARY KEY (only_one);

ALTER TABLE ONLY rag.source_documents
    ADD CONSTRAINT source_documents_pkey PRIMARY KEY (source_id, checksum);

ALTER TABLE ONLY rag.source_files
    ADD CONSTRAINT source_files_pkey PRIMARY KEY (root_id, file_hash);

ALTER TABLE ONLY rag.source_profiles
    ADD CONSTRAINT source_profiles_pkey PRIMARY KEY (embedding_profile_id, source_id);

ALTER TABLE ONLY rag.source_roots
    ADD CONSTRAINT source_roots_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.triple_answers
    ADD CONSTRAINT triple_answers_pkey PRIMARY KEY (tenant_id, model_key, content_hash);

ALTER TABLE ONLY rag.triples
    ADD CONSTRAINT triples_pkey PRIMARY KEY (id);

ALTER TABLE ONLY rag.tuned_weights
    ADD CONSTRAINT tuned_weights_pkey PRIMARY KEY (embedding_profile_id);

ALTER TABLE ONLY rag.work_attempts
    ADD CONSTRAINT work_attempts_pkey PRIMARY KEY (tenant_id, profile);

ALTER TABLE ONLY rag.yoyo_lock
    ADD CONSTRAINT yoyo_lock_pkey PRIMARY KEY (locked);

CREATE UNIQUE INDEX api_tokens_name ON rag.api_tokens USING btree (tenant_id, name) WHERE (revoked_at IS NULL);

CREATE INDEX corpus_changes_tenant ON rag.corpus_changes USING btree (tenant_id, changed_at);

CREATE INDEX embedding_job_items_hash ON rag.embedding_job_items USING btree (tenant_id, content_hash);

CREATE INDEX embedding_job_sources_job ON rag.embedding_job_sources USING btree (job_id);

CREATE INDEX embedding_jobs_open ON rag.embedding_jobs USING btree (tenant_id) WHERE (state = ANY (ARRAY['submitting'::text, 'running'::text]));

CREATE UNIQUE INDEX embedding_profiles_name ON rag.embedding_profiles USING btree (knowledge_space_id, name) WHERE (status <> 'retired'::text);

CREATE INDEX gate_verdicts_candidate ON rag.gate_verdicts USING btree (candidate_profile_id, created_at);

CREATE INDEX knowledge_chunks_source ON ONLY rag.knowledge_chunks USING btree (source_id);

CREATE INDEX knowledge_chunks_text ON ONLY rag.knowledge_chunks USING btree (rag.text_id(content));

CREATE INDEX knowledge_sources_file ON rag.knowledge_sources USING btree (knowledge_space_id, file_hash);

CREATE INDEX knowledge_sources_private ON rag.knowledge_sources USING btree (knowledge_space_id) WHERE (scope_type = 'user'::text);

CREATE INDEX knowledge_sources_root ON rag.knowledge_sources USING btree (root_id);

CREATE UNIQUE INDEX knowledge_spaces_shared ON rag.knowledge_spaces USING btree (tenant_id) WHERE (visibility_scope = 'tenant'::text);

CREATE INDEX page_signatures_space ON rag.page_signatures USING btree (knowledge_space_id);

CREATE INDEX profile_events_bot ON rag.profile_events USING btree (tenant_id, bot_id, created_at);

CREATE UNIQUE INDEX pushed_documents_key ON rag.pushed_documents USING btree (tenant_id, bot_id, user_id, key) NULLS NOT DISTINCT;

CREATE INDEX query_log_time ON rag.query_log USING btree (tenant_id, asked_at);

CREATE INDEX rate_requests_provider ON rag.rate_requests USING btree (provider, granted_at);

CREATE INDEX rate_requests_tenant ON rag.rate_requests USING btree (tenant_id);

CREATE INDEX source_profiles_source ON rag.source_profiles USING btree (source_id);

CREATE UNIQUE INDEX source_roots_uri ON rag.source_roots USING btree (knowledge_space_id, sha256((replace(uri, '\'::text, '\\'::text))::bytea));

CREATE INDEX triples_object ON rag.triples USING btree (knowledge_space_id, object_id, confidence DESC);

CREATE INDEX triples_object_words ON rag.triples USING gin (object_words);

CREATE INDEX triples_profile ON rag.triples USING btree (embedding_profile_id) WHERE (embedding_profile_id IS NOT NULL);

CREATE UNIQUE INDEX triples_said ON rag.triples USING btree (source_id, checksum, embedding_profile_id, subject_id, object_id, rag.text_id(lower(predicate)), start_at, end_at) NULLS NOT DISTINCT;

CREATE INDEX triples_subject ON rag.triples USING btree (knowledge_space_id, subject_id, confidence DESC);

CREATE INDEX triples_subject_words ON rag.triples USING gin (subject_words);

CREATE TRIGGER changes_answers AFTER UPDATE ON rag.embedding_profiles FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('last_error', 'last_error_at');

CREATE TRIGGER changes_answers AFTER INSERT OR DELETE OR UPDATE ON rag.floors FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('evidence', 'actor', 'created_at');

CREATE TRIGGER changes_answers AFTER INSERT OR DELETE OR UPDATE ON rag.found_weights FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('evidence', 'statistics_at', 'created_at');

CREATE TRIGGER changes_answers AFTER UPDATE ON rag.index_state FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('updated_at', 'recall_at_10');

CREATE TRIGGER changes_answers AFTER DELETE OR UPDATE ON rag.knowledge_sources FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('progress_percent', 'error_message', 'failed_stage', 'held_since', 'missing_since');

CREATE TRIGGER changes_answers AFTER UPDATE ON rag.knowledge_spaces FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change();

CREATE TRIGGER changes_answers AFTER INSERT OR DELETE OR UPDATE ON rag.source_profiles FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('error_message', 'next_try_at', 'updated_at');

CREATE TRIGGER changes_answers AFTER UPDATE ON rag.source_roots FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('scan', 'scanned_at', 'next_scan_at', 'last_error');

CREATE TRIGGER changes_answers AFTER INSERT OR DELETE OR UPDATE ON rag.triples FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change();

CREATE TRIGGER changes_answers AFTER INSERT OR DELETE OR UPDATE ON rag.tuned_weights FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('evidence', 'actor', 'created_at');

CREATE TRIGGER immutable BEFORE UPDATE ON rag.embedding_profiles FOR EACH ROW EXECUTE FUNCTION rag.refuse_profile_change();

CREATE TRIGGER immutable BEFORE UPDATE ON rag.profile_specs FOR EACH ROW EXECUTE FUNCTION rag.refuse_profile_change();

CREATE TRIGGER knowledge_sources_root BEFORE INSERT OR UPDATE OF root_id ON rag.knowledge_sources FOR EACH ROW WHEN ((new.root_id IS NOT NULL)) EXECUTE FUNCTION rag.follow_root();

CREATE TRIGGER source_files_visibility AFTER INSERT ON rag.source_files REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rag.lead_files();

CREATE TRIGGER source_roots_visibility AFTER UPDATE OF options ON rag.source_roots FOR EACH ROW WHEN ((((old.options -> 'visibility'::text) IS DISTINCT FROM (new.options -> 'visibility'::text)) OR ((old.options -> 'user'::text) IS DISTINCT FROM (new.options -> 'user'::text)))) EXECUTE FUNCTION rag.lead_sources();

ALTER TABLE ONLY rag.api_tokens
    ADD CONSTRAINT api_tokens_tenant_id_bot_id_fkey FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots(tenant_id, id);

ALTER TABLE ONLY rag.bots
    ADD CONSTRAINT bots_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES rag.tenants(id);

ALTER TABLE ONLY rag.embedding_job_items
    ADD CONSTRAINT embedding_job_items_job_id_tenant_id_bot_id_fkey FOREIGN KEY (job_id, tenant_id, bot_id) REFERENCES rag.embedding_jobs(id, tenant_id, bot_id);

ALTER TABLE ONLY rag.embedding_job_sources
    ADD CONSTRAINT embedding_job_sources_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.embedding_job_sources
    ADD CONSTRAINT embedding_job_sources_job_id_fkey FOREIGN KEY (job_id) REFERENCES rag.embedding_jobs(id);

ALTER TABLE ONLY rag.embedding_jobs
    ADD CONSTRAINT embedding_jobs_profile_fkey FOREIGN KEY (profile) REFERENCES rag.profile_specs(name);

ALTER TABLE ONLY rag.embedding_jobs
    ADD CONSTRAINT embedding_jobs_tenant_id_bot_id_fkey FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots(tenant_id, id);

ALTER TABLE ONLY rag.embedding_profiles
    ADD CONSTRAINT embedding_profiles_knowledge_space_id_tenant_id_bot_id_fkey FOREIGN KEY (knowledge_space_id, tenant_id, bot_id) REFERENCES rag.knowledge_spaces(id, tenant_id, bot_id);

ALTER TABLE ONLY rag.eval_runs
    ADD CONSTRAINT eval_runs_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.eval_runs
    ADD CONSTRAINT eval_runs_eval_set_id_fkey FOREIGN KEY (eval_set_id) REFERENCES rag.eval_sets(id);

ALTER TABLE ONLY rag.eval_sets
    ADD CONSTRAINT eval_sets_knowledge_space_id_tenant_id_bot_id_fkey FOREIGN KEY (knowledge_space_id, tenant_id, bot_id) REFERENCES rag.knowledge_spaces(id, tenant_id, bot_id);

ALTER TABLE ONLY rag.floors
    ADD CONSTRAINT floors_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.found_weights
    ADD CONSTRAINT found_weights_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.gate_verdicts
    ADD CONSTRAINT gate_verdicts_baseline_profile_id_fkey FOREIGN KEY (baseline_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.gate_verdicts
    ADD CONSTRAINT gate_verdicts_baseline_run_id_fkey FOREIGN KEY (baseline_run_id) REFERENCES rag.eval_runs(id);

ALTER TABLE ONLY rag.gate_verdicts
    ADD CONSTRAINT gate_verdicts_candidate_profile_id_fkey FOREIGN KEY (candidate_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.gate_verdicts
    ADD CONSTRAINT gate_verdicts_candidate_run_id_fkey FOREIGN KEY (candidate_run_id) REFERENCES rag.eval_runs(id);

ALTER TABLE ONLY rag.index_state
    ADD CONSTRAINT index_state_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.knowledge_sources
    ADD CONSTRAINT knowledge_sources_knowledge_space_id_tenant_id_bot_id_fkey FOREIGN KEY (knowledge_space_id, tenant_id, bot_id) REFERENCES rag.knowledge_spaces(id, tenant_id, bot_id);

ALTER TABLE ONLY rag.knowledge_sources
    ADD CONSTRAINT knowledge_sources_root_id_fkey FOREIGN KEY (root_id) REFERENCES rag.source_roots(id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_active_profile_id_id_tenant_id_bot_id_fkey FOREIGN KEY (active_profile_id, id, tenant_id, bot_id) REFERENCES rag.embedding_profiles(id, knowledge_space_id, tenant_id, bot_id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_canary_profile_id_id_tenant_id_bot_id_fkey FOREIGN KEY (canary_profile_id, id, tenant_id, bot_id) REFERENCES rag.embedding_profiles(id, knowledge_space_id, tenant_id, bot_id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_previous_profile_id_id_tenant_id_bot_id_fkey FOREIGN KEY (previous_profile_id, id, tenant_id, bot_id) REFERENCES rag.embedding_profiles(id, knowledge_space_id, tenant_id, bot_id);

ALTER TABLE ONLY rag.knowledge_spaces
    ADD CONSTRAINT knowledge_spaces_tenant_id_bot_id_fkey FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots(tenant_id, id);

ALTER TABLE ONLY rag.lexeme_stats
    ADD CONSTRAINT lexeme_stats_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.page_signatures
    ADD CONSTRAINT page_signatures_source_id_fkey FOREIGN KEY (source_id) REFERENCES rag.knowledge_sources(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.profile_settings
    ADD CONSTRAINT profile_settings_profile_fkey FOREIGN KEY (profile) REFERENCES rag.profile_specs(name);

ALTER TABLE ONLY rag.pushed_documents
    ADD CONSTRAINT pushed_documents_tenant_id_bot_id_fkey FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots(tenant_id, id);

ALTER TABLE ONLY rag.query_log
    ADD CONSTRAINT query_log_tenant_id_bot_id_fkey FOREIGN KEY (tenant_id, bot_id) REFERENCES rag.bots(tenant_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.rate_limits
    ADD CONSTRAINT rate_limits_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES rag.tenants(id);

ALTER TABLE ONLY rag.rate_requests
    ADD CONSTRAINT rate_requests_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES rag.tenants(id);

ALTER TABLE ONLY rag.source_documents
    ADD CONSTRAINT source_documents_source_id_fkey FOREIGN KEY (source_id) REFERENCES rag.knowledge_sources(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.source_files
    ADD CONSTRAINT source_files_root_id_fkey FOREIGN KEY (root_id) REFERENCES rag.source_roots(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.source_profiles
    ADD CONSTRAINT source_profiles_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id);

ALTER TABLE ONLY rag.source_profiles
    ADD CONSTRAINT source_profiles_source_id_fkey FOREIGN KEY (source_id) REFERENCES rag.knowledge_sources(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.source_roots
    ADD CONSTRAINT source_roots_knowledge_space_id_tenant_id_bot_id_fkey FOREIGN KEY (knowledge_space_id, tenant_id, bot_id) REFERENCES rag.knowledge_spaces(id, tenant_id, bot_id);

ALTER TABLE ONLY rag.triples
    ADD CONSTRAINT triples_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.triples
    ADD CONSTRAINT triples_knowledge_space_id_tenant_id_bot_id_fkey FOREIGN KEY (knowledge_space_id, tenant_id, bot_id) REFERENCES rag.knowledge_spaces(id, tenant_id, bot_id);

ALTER TABLE ONLY rag.triples
    ADD CONSTRAINT triples_source_id_checksum_fkey FOREIGN KEY (source_id, checksum) REFERENCES rag.source_documents(source_id, checksum) ON DELETE CASCADE;

ALTER TABLE ONLY rag.tuned_weights
    ADD CONSTRAINT tuned_weights_embedding_profile_id_fkey FOREIGN KEY (embedding_profile_id) REFERENCES rag.embedding_profiles(id) ON DELETE CASCADE;

ALTER TABLE ONLY rag.work_attempts
    ADD CONSTRAINT work_attempts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES rag.tenants(id);

ALTER TABLE rag.api_tokens ENABLE ROW LEVEL SECURITY;

CREATE POLICY app ON rag.corpus_changes FOR SELECT TO rag_app USING (((tenant_id)::text = ( SELECT rag.scope_tenant() AS scope_tenant)));

CREATE POLICY app ON rag.embedding_profiles FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)));

CREATE POLICY app ON rag.floors FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)));

CREATE POLICY app ON rag.found_weights FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)));

CREATE POLICY app ON rag.knowledge_chunks FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = knowledge_chunks.source_id)))));

CREATE POLICY app ON rag.knowledge_sources FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)) AND ((scope_type = 'bot'::text) OR (((tenant_id)::text, (bot_id)::text, scope_user_id) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot,
    rag.scope_user() AS scope_user)))));

CREATE POLICY app ON rag.knowledge_spaces FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)));

CREATE POLICY app ON rag.pushed_documents TO rag_app USING ((((tenant_id)::text, (bot_id)::text, COALESCE(user_id, ''::text)) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot,
    COALESCE(rag.scope_user(), ''::text) AS "coalesce"))) WITH CHECK ((((tenant_id)::text = rag.scope_tenant()) AND ((bot_id)::text = rag.scope_bot()) AND (NOT (user_id IS DISTINCT FROM rag.scope_user()))));

CREATE POLICY app ON rag.query_log FOR INSERT TO rag_app WITH CHECK (((((tenant_id)::text, (bot_id)::text, COALESCE(user_mark, ''::text)) = ( SELECT w.tenant,
    w.bot,
    w.mark
   FROM rag.who_asks() w(tenant, bot, mark))) AND (asked_at <= now()) AND (citations IS NULL) AND (feedback = '{}'::jsonb)));

CREATE POLICY app ON rag.source_documents FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = source_documents.source_id)))));

CREATE POLICY app ON rag.source_profiles FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = source_profiles.source_id)))));

CREATE POLICY app ON rag.triples FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = triples.source_id)))));

CREATE POLICY app ON rag.tuned_weights FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.scope_bot() AS scope_bot)));

CREATE POLICY app_push ON rag.source_roots FOR INSERT TO rag_app WITH CHECK ((((tenant_id)::text = rag.scope_tenant()) AND ((bot_id)::text = rag.scope_bot()) AND (uri = rag.pushed_root(rag.scope_user())) AND (options = rag.pushed_root_options(rag.scope_user()))));

CREATE POLICY app_shared ON rag.embedding_profiles FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)));

CREATE POLICY app_shared ON rag.floors FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)));

CREATE POLICY app_shared ON rag.found_weights FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)));

CREATE POLICY app_shared ON rag.knowledge_chunks FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = knowledge_chunks.source_id)))));

CREATE POLICY app_shared ON rag.knowledge_sources FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)) AND ((scope_type = 'bot'::text) OR (((tenant_id)::text, (bot_id)::text, scope_user_id) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot,
    rag.scope_user() AS scope_user)))));

CREATE POLICY app_shared ON rag.knowledge_spaces FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)));

CREATE POLICY app_shared ON rag.source_documents FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = source_documents.source_id)))));

CREATE POLICY app_shared ON rag.source_profiles FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = source_profiles.source_id)))));

CREATE POLICY app_shared ON rag.triples FOR SELECT TO rag_app USING (((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)) AND (EXISTS ( SELECT
   FROM rag.knowledge_sources s
  WHERE (s.id = triples.source_id)))));

CREATE POLICY app_shared ON rag.tuned_weights FOR SELECT TO rag_app USING ((((tenant_id)::text, (bot_id)::text) = ( SELECT rag.scope_tenant() AS scope_tenant,
    rag.shared_bot() AS shared_bot)));

ALTER TABLE rag.bots ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.corpus_changes ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_cache ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_job_items ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_job_sources ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_jobs ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_profiles ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.embedding_usage ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.eval_runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.eval_sets ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.floors ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.found_weights ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.gate_verdicts ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.index_state ENABLE ROW LEVEL SECURITY;

CREATE POLICY ingest ON rag.api_tokens TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.bots TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.corpus_changes TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.embedding_cache TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.embedding_job_items TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.embedding_job_sources TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.embedding_jobs TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.embedding_profiles TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.embedding_usage TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.eval_runs TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.eval_sets TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.floors TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.found_weights TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.gate_verdicts TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.index_state TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.knowledge_chunks TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.knowledge_sources TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.knowledge_spaces TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.lexeme_stats TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.page_signatures TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.profile_events TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.profile_settings TO rag_ingest USING (true) WITH CHECK (true);

CREATE POLICY ingest ON rag.profile_specs TO rag_ingest USING (true) WITH CHECK (true);

CREATE POLICY ingest ON rag.pushed_documents TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.query_log TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.rate_blocks TO rag_ingest USING (true) WITH CHECK (true);

CREATE POLICY ingest ON rag.rate_limits TO rag_ingest USING (((tenant_id IS NULL) OR ((tenant_id)::text = rag.scope_tenant()))) WITH CHECK (((tenant_id IS NULL) OR ((tenant_id)::text = rag.scope_tenant())));

CREATE POLICY ingest ON rag.rate_requests TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.refused_texts TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.source_documents TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.source_files TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.source_profiles TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.source_roots TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.tenants TO rag_ingest USING (true) WITH CHECK (((id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.triple_answers TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.triples TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.tuned_weights TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest ON rag.work_attempts TO rag_ingest USING (((tenant_id)::text = rag.scope_tenant())) WITH CHECK (((tenant_id)::text = rag.scope_tenant()));

CREATE POLICY ingest_delete ON rag.tenants AS RESTRICTIVE FOR DELETE TO rag_ingest USING (((id)::text = rag.scope_tenant()));

CREATE POLICY ingest_update ON rag.tenants AS RESTRICTIVE FOR UPDATE TO rag_ingest USING (((id)::text = rag.scope_tenant()));

ALTER TABLE rag.knowledge_chunks ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.knowledge_sources ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.knowledge_spaces ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.lexeme_stats ENABLE ROW LEVEL SECURITY;

CREATE POLICY operator ON rag.scope_keys TO rag_owner USING (true) WITH CHECK (true);

CREATE POLICY operator ON rag.scope_signing TO rag_owner USING (true) WITH CHECK (true);

CREATE POLICY overview ON rag.embedding_jobs FOR SELECT TO rag_owner USING (true);

CREATE POLICY owner ON rag.corpus_changes TO rag_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON rag.tenants FOR SELECT TO rag_owner USING (true);

ALTER TABLE rag.page_signatures ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.profile_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.profile_settings ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.profile_specs ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.pushed_documents ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.query_log ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.rate_blocks ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.rate_limits ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.rate_requests ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.refused_texts ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.scope_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.scope_signing ENABLE ROW LEVEL SECURITY;

CREATE POLICY search ON rag.api_tokens FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.embedding_profiles FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.index_state FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.knowledge_chunks FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.knowledge_sources FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.knowledge_spaces FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.lexeme_stats FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.pushed_documents FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.query_log TO rag_search USING ((((tenant_id)::text, (bot_id)::text, COALESCE(user_mark, ''::text)) = ( SELECT w.tenant,
    w.bot,
    w.mark
   FROM rag.who_asks() w(tenant, bot, mark))));

CREATE POLICY search ON rag.scope_keys FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.scope_signing FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.source_profiles FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.source_roots FOR SELECT TO rag_search USING (true);

CREATE POLICY search ON rag.triples FOR SELECT TO rag_search USING (true);

ALTER TABLE rag.source_documents ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.source_files ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.source_profiles ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.source_roots ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.tenants ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.triple_answers ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.triples ENABLE ROW LEVEL SECURITY;

ALTER TABLE rag.tuned_weights ENABLE ROW LEVEL SECURITY;

CREATE POLICY turns ON rag.profile_settings TO rag_owner USING (true) WITH CHECK (true);

CREATE POLICY turns ON rag.rate_blocks TO rag_owner USING (true) WITH CHECK (true);

CREATE POLICY turns ON rag.rate_limits TO rag_owner USING (true) WITH CHECK (true);

CREATE POLICY turns ON rag.rate_requests TO rag_owner USING (true) WITH CHECK (true);

ALTER TABLE rag.work_attempts ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA rag TO rag_ingest;
GRANT USAGE ON SCHEMA rag TO rag_app;
GRANT USAGE ON SCHEMA rag TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.embedding_profiles TO rag_ingest;
GRANT SELECT ON TABLE rag.embedding_profiles TO rag_app;
GRANT SELECT ON TABLE rag.embedding_profiles TO rag_search;

REVOKE ALL ON FUNCTION rag.analyse_graph_query(profile rag.embedding_profiles, query_text text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.analyse_query(profile_id bigint, config regconfig, query_text text, near rag.near_word[]) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.analyse_query(profile_id bigint, config regconfig, query_text text, near rag.near_word[]) TO rag_ingest;

REVOKE ALL ON FUNCTION rag.analysed(profile rag.embedding_profiles, query_text text, source_condition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.check_search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.check_search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) TO rag_search;

REVOKE ALL ON FUNCTION rag.chunk_of_triple(profile rag.embedding_profiles, triple bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.complete_candidates(profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, dense rag.candidates, lexical rag.candidates) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.dense_candidates(profile rag.embedding_profiles, query_vector public.vector, how_many integer, source_condition text, exact boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.enqueued_tokens(my_route text) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.enqueued_tokens(my_route text) TO rag_ingest;

REVOKE ALL ON FUNCTION rag.essential_words(query rag.lexical_query, budget double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.filled_list(listed rag.candidates, is_dense boolean, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, depth integer, source_condition text, exact boolean, at_least integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.first_of_texts(profile rag.embedding_profiles, chunks uuid[], at_least integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.graph_search(query_text text, max_hops integer, beam integer, top_k integer, filters jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.graph_search(query_text text, max_hops integer, beam integer, top_k integer, filters jsonb) TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.source_documents TO rag_ingest;
GRANT SELECT ON TABLE rag.source_documents TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.source_profiles TO rag_ingest;
GRANT SELECT ON TABLE rag.source_profiles TO rag_app;
GRANT SELECT ON TABLE rag.source_profiles TO rag_search;

GRANT ALL ON FUNCTION rag.has_version(source uuid) TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.rate_limits TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.rate_requests TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.knowledge_sources TO rag_ingest;
GRANT SELECT ON TABLE rag.knowledge_sources TO rag_search;
GRANT SELECT ON TABLE rag.knowledge_sources TO rag_app;

REVOKE ALL ON FUNCTION rag.lexical_candidates(profile rag.embedding_profiles, query rag.lexical_query, how_many integer, source_condition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.listed_texts(is_dense boolean, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, depth integer, source_condition text, exact boolean, at_least integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.missing_migrations(wanted text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.missing_migrations(wanted text[]) TO rag_app;

REVOKE ALL ON FUNCTION rag.named_entities(profile rag.embedding_profiles, query rag.graph_query, beam integer, condition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.near_words(profile rag.embedding_profiles, query_text text, unknown text[], source_condition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.next_hop(query rag.graph_query, paths rag.path[], beam integer, condition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.note_corpus_change() FROM PUBLIC;
GRANT ALL ON FUNCTION rag.note_corpus_change() TO rag_ingest;

REVOKE ALL ON FUNCTION rag.passages_of(profile rag.embedding_profiles, ranking rag.ranking, also_at jsonb[], top_k integer, source_condition text, copies boolean) FROM PUBLIC;

GRANT ALL ON FUNCTION rag.place_of(source rag.knowledge_sources, OUT file text, OUT place text) TO rag_ingest;

REVOKE ALL ON FUNCTION rag.places_of_texts(profile rag.embedding_profiles, chunks uuid[], source_condition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.private_sources(profile bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.private_sources(profile bigint) TO rag_ingest;

REVOKE ALL ON FUNCTION rag.profile_in_scope() FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.push_document(of_key text, named text, of_type text, given bytea, described jsonb, version text, file bytea, actor text, most_documents bigint, most_bytes bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.push_document(of_key text, named text, of_type text, given bytea, described jsonb, version text, file bytea, actor text, most_documents bigint, most_bytes bigint) TO rag_app;

REVOKE ALL ON FUNCTION rag.pushed_size(but bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.pushed_size(but bigint) TO rag_app;

REVOKE ALL ON FUNCTION rag.ranked(mode text, profile rag.embedding_profiles, query_vector public.vector, query rag.lexical_query, dense rag.candidates, lexical rag.candidates, dense_weight double precision, fusion text) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.record_answer(query uuid, cited uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.record_answer(query uuid, cited uuid[]) TO rag_app;

REVOKE ALL ON FUNCTION rag.record_feedback(query uuid, chunk uuid, helpful boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.record_feedback(query uuid, chunk uuid, helpful boolean) TO rag_app;

REVOKE ALL ON FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) TO rag_app;

REVOKE ALL ON FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.search(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) TO rag_app;

REVOKE ALL ON FUNCTION rag.search_space(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.search_space(mode text, query_vector public.vector, query_text text, top_k integer, copies boolean, candidates integer, dense_weight double precision, fusion text, filters jsonb, exact boolean) TO rag_app;

REVOKE ALL ON FUNCTION rag.shared_bot() FROM PUBLIC;
GRANT ALL ON FUNCTION rag.shared_bot() TO rag_app;

REVOKE ALL ON FUNCTION rag.source_condition(profile rag.embedding_profiles, filters jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION rag.take_turn(my_ticket bigint, my_provider text, my_model text, my_account text, my_items bigint, my_tokens bigint, slack double precision, nap double precision, OUT ticket bigint, OUT wait_s double precision, OUT locked_s double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.take_turn(my_ticket bigint, my_provider text, my_model text, my_account text, my_items bigint, my_tokens bigint, slack double precision, nap double precision, OUT ticket bigint, OUT wait_s double precision, OUT locked_s double precision) TO rag_ingest;

REVOKE ALL ON FUNCTION rag.tenants_with_open_jobs() FROM PUBLIC;
GRANT ALL ON FUNCTION rag.tenants_with_open_jobs() TO rag_ingest;

REVOKE ALL ON FUNCTION rag.token_of(token_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.token_of(token_hash bytea) TO rag_app;

REVOKE ALL ON FUNCTION rag.triple_condition(profile rag.embedding_profiles, source_condition text) FROM PUBLIC;
GRANT ALL ON FUNCTION rag.triple_condition(profile rag.embedding_profiles, source_condition text) TO rag_search;

REVOKE ALL ON FUNCTION rag.words_that_reach(words text[], weights double precision[], first integer, needed double precision, size integer) FROM PUBLIC;

GRANT ALL ON FUNCTION rag.wrong_filters(filters jsonb) TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.api_tokens TO rag_ingest;
GRANT SELECT ON TABLE rag.api_tokens TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.bots TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.corpus_changes TO rag_ingest;
GRANT SELECT ON TABLE rag.corpus_changes TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.embedding_cache TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.embedding_job_items TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.embedding_job_sources TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.embedding_jobs TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.embedding_usage TO rag_ingest;

GRANT SELECT,INSERT,DELETE ON TABLE rag.eval_runs TO rag_ingest;

GRANT SELECT,INSERT,DELETE ON TABLE rag.eval_sets TO rag_ingest;

GRANT UPDATE(imported_at) ON TABLE rag.eval_sets TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.floors TO rag_ingest;
GRANT SELECT ON TABLE rag.floors TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.found_weights TO rag_ingest;
GRANT SELECT ON TABLE rag.found_weights TO rag_app;

GRANT SELECT,INSERT,DELETE ON TABLE rag.gate_verdicts TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.index_state TO rag_ingest;
GRANT SELECT ON TABLE rag.index_state TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.knowledge_chunks TO rag_ingest;
GRANT SELECT ON TABLE rag.knowledge_chunks TO rag_search;
GRANT SELECT ON TABLE rag.knowledge_chunks TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.knowledge_spaces TO rag_ingest;
GRANT SELECT ON TABLE rag.knowledge_spaces TO rag_app;
GRANT SELECT ON TABLE rag.knowledge_spaces TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.lexeme_stats TO rag_ingest;
GRANT SELECT ON TABLE rag.lexeme_stats TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.page_signatures TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.profile_events TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.profile_settings TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.profile_specs TO rag_ingest;

GRANT SELECT ON TABLE rag.profile_work TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.pushed_documents TO rag_ingest;
GRANT SELECT,INSERT,UPDATE ON TABLE rag.pushed_documents TO rag_app;
GRANT SELECT ON TABLE rag.pushed_documents TO rag_search;

GRANT SELECT,DELETE ON TABLE rag.query_log TO rag_ingest;
GRANT INSERT ON TABLE rag.query_log TO rag_app;
GRANT SELECT ON TABLE rag.query_log TO rag_search;

GRANT UPDATE(citations) ON TABLE rag.query_log TO rag_search;

GRANT UPDATE(feedback) ON TABLE rag.query_log TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.rate_blocks TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.refused_texts TO rag_ingest;

GRANT SELECT ON TABLE rag.scope_keys TO rag_search;

GRANT SELECT ON TABLE rag.scope_signing TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.source_files TO rag_ingest;

GRANT SELECT ON TABLE rag.source_overview TO rag_ingest;
GRANT SELECT ON TABLE rag.source_overview TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.source_roots TO rag_ingest;
GRANT SELECT ON TABLE rag.source_roots TO rag_search;

GRANT INSERT(knowledge_space_id) ON TABLE rag.source_roots TO rag_app;

GRANT INSERT(tenant_id) ON TABLE rag.source_roots TO rag_app;

GRANT INSERT(bot_id) ON TABLE rag.source_roots TO rag_app;

GRANT INSERT(uri) ON TABLE rag.source_roots TO rag_app;

GRANT INSERT(options) ON TABLE rag.source_roots TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.tenants TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.triple_answers TO rag_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.triples TO rag_ingest;
GRANT SELECT ON TABLE rag.triples TO rag_app;
GRANT SELECT ON TABLE rag.triples TO rag_search;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.tuned_weights TO rag_ingest;
GRANT SELECT ON TABLE rag.tuned_weights TO rag_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rag.work_attempts TO rag_ingest;
