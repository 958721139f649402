-- depends: 0032.shared-spaces

-- What texts say, as triples of subject, predicate and object. A triple stands at a place in the text of one version of
-- one source, and lives as long as that version: a profile finds it while it serves that version and no other, so what
-- a publication replaces or a withdrawal takes away is gone in the same transaction. Which chunk it leads to, the place
-- says, in each profile.
CREATE TABLE rag.triples (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    knowledge_space_id uuid NOT NULL,
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,
    source_id uuid NOT NULL,
    checksum text NOT NULL,  -- the version
    embedding_profile_id bigint REFERENCES rag.embedding_profiles (id) ON DELETE CASCADE,  -- of imported ones: null, for all
    start_at int NOT NULL CHECK (start_at >= 0),  -- in code points of the version's text
    end_at int NOT NULL CHECK (end_at > start_at),
    subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 500),
    predicate text NOT NULL CHECK (length(predicate) BETWEEN 1 AND 500),
    object text NOT NULL CHECK (length(object) BETWEEN 1 AND 500),
    confidence real NOT NULL CHECK (confidence > 0 AND confidence <= 1),
    language text NOT NULL,  -- the text search configuration that its words were analysed with
    subject_id uuid NOT NULL,  -- one entity has one id, in whichever of its forms it is written
    object_id uuid NOT NULL,
    subject_words tsvector NOT NULL,
    predicate_words tsvector NOT NULL,
    object_words tsvector NOT NULL,
    actor text NOT NULL DEFAULT coalesce(nullif(current_setting('rag.actor', true), ''), session_user),
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (source_id, checksum) REFERENCES rag.source_documents (source_id, checksum) ON DELETE CASCADE,
    FOREIGN KEY (knowledge_space_id, tenant_id, bot_id) REFERENCES rag.knowledge_spaces (id, tenant_id, bot_id)
);
CREATE FUNCTION rag.entity_id(words tsvector, name text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN rag.text_id(coalesce(
        (SELECT string_agg(lexeme, ' ' ORDER BY place, lexeme) FROM unnest(words) w, unnest(w.positions) AS place),
        lower(name)));

-- The same is said once at a place; it can be said again at another, and found by other profiles.
CREATE UNIQUE INDEX triples_said ON rag.triples (
    source_id, checksum, embedding_profile_id, subject_id, object_id, rag.text_id(lower(predicate)), start_at, end_at
) NULLS NOT DISTINCT;
CREATE INDEX triples_subject ON rag.triples (knowledge_space_id, subject_id, confidence DESC);
CREATE INDEX triples_object ON rag.triples (knowledge_space_id, object_id, confidence DESC);
CREATE INDEX triples_subject_words ON rag.triples USING gin (subject_words);
CREATE INDEX triples_object_words ON rag.triples USING gin (object_words);
CREATE INDEX triples_profile ON rag.triples (embedding_profile_id) WHERE embedding_profile_id IS NOT NULL;

-- What a model found in a text. Asked once for each text, model and prompt; without `triples` it gave no answer, and
-- `error` says why.
CREATE TABLE rag.triple_answers (
    tenant_id rag.key NOT NULL,
    bot_id rag.key NOT NULL,  -- whose text was read first; its erasure takes the answer along
    model_key text NOT NULL,
    content_hash bytea NOT NULL,
    triples jsonb,
    error text,
    tokens bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, model_key, content_hash),
    CHECK ((triples IS NULL) = (error IS NOT NULL))
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['triples', 'triple_answers'] LOOP
        EXECUTE format('ALTER TABLE rag.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE rag.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON rag.%I TO rag_ingest', t);
        EXECUTE format(
            'CREATE POLICY ingest ON rag.%I TO rag_ingest
             USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant())', t);
    END LOOP;
END $$;
-- Sources are read under their own policy, so what is private to a user stays private here too.
GRANT SELECT ON rag.triples TO rag_app;
CREATE POLICY app ON rag.triples FOR SELECT TO rag_app USING (
    tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot()
    AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
);
CREATE POLICY app_shared ON rag.triples FOR SELECT TO rag_app USING (
    tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
    AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
);
GRANT SELECT ON rag.triples TO rag_search;
CREATE POLICY search ON rag.triples FOR SELECT TO rag_search USING (true);

-- A way from an entity of the query: triples in the order they are walked, the entities it has been at, the last one
-- last, and which of the query's words it accounts for.
CREATE TYPE rag.path AS (triples bigint[], entities uuid[], met text[], confidence float8, score float8);
CREATE TYPE rag.graph_query AS (languages text[], words tsvector[], word_count int);

-- The query's words, as each of the space's profiles reads them: a triple is met by words of its own language.
CREATE FUNCTION rag.analyse_graph_query(profile rag.embedding_profiles, query_text text)
RETURNS rag.graph_query LANGUAGE sql STABLE AS $$
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

-- The condition that a triple `c` is one that the profile serves and the scope may see.
CREATE FUNCTION rag.triple_condition(profile rag.embedding_profiles, source_condition text) RETURNS text
LANGUAGE sql IMMUTABLE
    RETURN format(
        'c.knowledge_space_id = %1$L AND c.tenant_id = %2$L
         AND (c.embedding_profile_id IS NULL OR c.embedding_profile_id = %3$s)
         AND EXISTS (SELECT FROM rag.source_profiles sp
                     WHERE sp.embedding_profile_id = %3$s AND sp.source_id = c.source_id AND sp.tenant_id = %2$L
                       AND sp.checksum = c.checksum AND sp.status = ''ready'')%4$s',
        profile.knowledge_space_id, profile.tenant_id, profile.id, source_condition);

-- The entities that the query names, best first. One whose words all stand in the query counts most, and one of more
-- words counts more; what is not half as good as the best is met by chance.
CREATE FUNCTION rag.named_entities(
    profile rag.embedding_profiles, query rag.graph_query, beam int, condition text
) RETURNS rag.path[] LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
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
END $$;

-- The best ways that go one triple further. A way is as good as all of its triples are certain together, times the
-- share of the query's words that it accounts for; of two that account for the same the shorter one is better. Of an
-- entity that very many triples name, the 200 most certain on each side are read.
CREATE FUNCTION rag.next_hop(
    query rag.graph_query, paths rag.path[], beam int, condition text
) RETURNS rag.path[] LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
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
END $$;

-- The chunk of the profile that most of a triple's place lies in; null where it has none.
CREATE FUNCTION rag.chunk_of_triple(profile rag.embedding_profiles, triple bigint) RETURNS uuid
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
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
END $$;

-- The chunks that triples lead to from what the query names, best first, each with the best way to it. A text that lies
-- at several places comes once, as in rag.search.
CREATE FUNCTION rag.graph_search(query_text text, max_hops int, beam int, top_k int, filters jsonb DEFAULT '{}')
RETURNS TABLE (
    chunk_id uuid, source_id uuid, source_name text, source_uri text, source_metadata jsonb, canonical_url text,
    content text, token_count int, citation jsonb, metadata jsonb,
    score float8, dense_score float8, lexical_score float8, also_at jsonb, space text, path jsonb
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
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

GRANT CREATE ON SCHEMA rag TO rag_search;
REVOKE EXECUTE ON FUNCTION
    rag.analyse_graph_query, rag.triple_condition, rag.named_entities, rag.next_hop, rag.chunk_of_triple,
    rag.graph_search
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.triple_condition TO rag_search;
GRANT EXECUTE ON FUNCTION rag.graph_search TO rag_app;
ALTER FUNCTION rag.analyse_graph_query OWNER TO rag_search;
ALTER FUNCTION rag.named_entities OWNER TO rag_search;
ALTER FUNCTION rag.next_hop OWNER TO rag_search;
ALTER FUNCTION rag.chunk_of_triple OWNER TO rag_search;
ALTER FUNCTION rag.graph_search OWNER TO rag_search;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
