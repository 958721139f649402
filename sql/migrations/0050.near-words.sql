-- depends: 0047.terms

-- A word that no chunk has is looked for as it may have been meant: by the words of the profile that are one edit away
-- (a letter too many, too few, another one, two in the wrong order: Damerau, "A technique for computer detection and
-- correction of spelling errors", 1964). They count for less than what was asked, and the search says so.

-- What a search is made of changes as a whole: those under way end first, and those that come wait, where each begins, for
-- as long as the rest of this takes. So it waits for a moment in which nobody reads, 20 ms at a time.
DO $$
DECLARE
    usual text := current_setting('lock_timeout');
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            LOCK TABLE rag.embedding_profiles IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', usual, true);
END $$;

CREATE TYPE rag.near_word AS (
    asked text,        -- the lexeme of the query that no counted chunk has
    word text,         -- the word of the query that it was made of
    lexeme text,       -- what is looked for as well
    chunk_count bigint
);

-- Letters that a word may have been meant with: those of its script and its own.
CREATE FUNCTION rag.letters_for(word text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ARRAY(SELECT DISTINCT letter FROM unnest(string_to_array(
        CASE WHEN word ~ '[a-z]' THEN 'abcdefghijklmnopqrstuvwxyz'
             WHEN word ~ '[а-я]' THEN 'абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґўјљњћђџ'
             WHEN word ~ '[α-ω]' THEN 'αβγδεζηθικλμνξοπρστυφχψω'
             WHEN word ~ '[א-ת]' THEN 'אבגדהוזחטיךכלםמןנסעףפץצקרשת'
             WHEN word ~ '[ء-ي]' THEN 'ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيپچژگکی'
             WHEN word ~ '[ա-ֆ]' THEN 'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ'
             WHEN word ~ '[ა-ჰ]' THEN 'აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ'
             ELSE '' END || word, NULL)) letter);

-- Every word that is one edit away: about 54 times the length of an English one.
CREATE FUNCTION rag.one_edit_away(word text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
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

-- At most three words of the query, of letters alone, 4 to 24 of them (codes and numbers mean what they say), and for
-- each at most two lexemes of the profile: of those that begin alike before others, the most frequent. Edits are made
-- of words and not of lexemes, since a slip in an ending keeps its stem from being found. A word with accents is left
-- alone, and so is one that the query has in another spelling, too: each is asked without its accents as well. What no
-- text has that the search may read is not told: the counts are of a time when a text may have been shared, or there.
CREATE FUNCTION rag.near_words(
    profile rag.embedding_profiles, query_text text, unknown text[], source_condition text
) RETURNS rag.near_word[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off AS $$
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
END $$;

ALTER TYPE rag.lexical_query ADD ATTRIBUTE unknown text[];  -- lexemes that no counted chunk has

DROP FUNCTION rag.analyse_query(bigint, regconfig, text);

-- As before, and with words that are near: what was asked counts as much as the rarest of them, and each of them .7 of itself.
CREATE FUNCTION rag.analyse_query(profile_id bigint, config regconfig, query_text text, near rag.near_word[] DEFAULT '{}')
RETURNS rag.lexical_query LANGUAGE sql STABLE AS $$
    WITH asked AS (
        SELECT q.lexeme, cardinality(q.positions) AS times, coalesce(s.chunk_count, 0) AS df,
               greatest(i.chunks_at_statistics, s.chunk_count, 1) AS chunks
        FROM unnest(to_tsvector(config, query_text)) q
        LEFT JOIN rag.lexeme_stats s ON s.embedding_profile_id = profile_id AND s.lexeme = q.lexeme
        LEFT JOIN rag.index_state i ON i.embedding_profile_id = profile_id
    ), meant AS (
        SELECT a.lexeme, a.times, a.chunks, a.df = 0 AS is_unknown, 1.0 AS share,
               coalesce((SELECT min(n.chunk_count) FROM unnest(near) n WHERE n.asked = a.lexeme), a.df) AS df
        FROM asked a
        UNION ALL
        SELECT n.lexeme, max(a.times), max(a.chunks), false, 0.7, max(n.chunk_count)
        FROM unnest(near) n JOIN asked a ON a.lexeme = n.asked
        WHERE n.lexeme NOT IN (SELECT lexeme FROM asked)
        GROUP BY n.lexeme
    ), terms AS (
        SELECT lexeme, is_unknown, share * times * ln(1 + (chunks - df + 0.5) / (df + 0.5)) AS weight,
               df > 0.02 * chunks AS frequent
        FROM meant
        ORDER BY weight DESC, lexeme
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
        coalesce(2.2 * sum(weight) FILTER (WHERE skipped), 0),
        array_agg(lexeme) FILTER (WHERE is_unknown)
    )::rag.lexical_query
    FROM split
$$;

-- The words of a search as its profile means them. What was also looked for stands in `rag.read_as` until the transaction
-- ends: an object with the lexemes by the word that was asked, or ''.
CREATE FUNCTION rag.analysed(profile rag.embedding_profiles, query_text text, source_condition text)
RETURNS rag.lexical_query
LANGUAGE plpgsql STABLE AS $$
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
END $$;

REVOKE EXECUTE ON FUNCTION rag.near_words, rag.analyse_query, rag.analysed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.analyse_query TO rag_ingest;
GRANT CREATE ON SCHEMA rag TO rag_search;
ALTER FUNCTION rag.near_words OWNER TO rag_search;
ALTER FUNCTION rag.analyse_query OWNER TO rag_search;
ALTER FUNCTION rag.analysed OWNER TO rag_search;
SET LOCAL ROLE rag_search;

CREATE OR REPLACE FUNCTION rag.search_space(
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

RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
