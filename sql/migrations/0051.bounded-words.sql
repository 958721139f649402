-- depends: 0054.partition-owners

-- What a search for words reads is bounded, however long the query is and however many chunks there are. Chunks with any
-- of the words grow with the profile, and of a paragraph they are nearly all. The best of them have words that are
-- together rare: so rare words are looked for by themselves and frequent ones in company, by the threshold of WAND
-- (Broder et al., "Efficient query evaluation using a two-level retrieval process", 2003), which is written as a tsquery
-- that the GIN index answers before a row is read.

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

ALTER TYPE rag.lexical_query DROP ATTRIBUTE essential, DROP ATTRIBUTE best_without_essential,
    ADD ATTRIBUTE words text[],          -- the terms in quotes: first those that no counted chunk has, then by weight
    ADD ATTRIBUTE word_weights float8[],
    ADD ATTRIBUTE word_chunks float8[],  -- in how many chunks each was counted
    ADD ATTRIBUTE chunks float8;         -- of how many

-- Sets of at most `size` words, from the one at `first` on, that weigh what is needed and hold no smaller such set: a
-- tsquery of each word with what has to stand beside it. Words that weigh more come before others. '' where there is none.
CREATE FUNCTION rag.words_that_reach(words text[], weights float8[], first int, needed float8, size int)
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
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

-- What is looked for so that about `budget` chunks are read: any word where no more chunks have one; else the words that
-- weigh most, while half of that many have them, and of the eight that follow all sets whose weight reaches a threshold,
-- which is as low as the rest of the budget lets it be. Of frequent words alone that is the heaviest set, however many
-- have it. How many chunks have all words of a set is guessed: where n have
-- the rarest, n times the share of chunks that have another, to the power of .6, for each other. That is between chance
-- (1) and always (0), and near the middle of what was counted in texts.
CREATE FUNCTION rag.essential_words(query rag.lexical_query, budget float8) RETURNS tsquery LANGUAGE plpgsql STABLE AS $$
DECLARE
    any_word float8 := (SELECT query.chunks * (1 - exp(sum(ln(greatest(1 - c / query.chunks, 1e-9)))))
                        FROM unnest(query.word_chunks) c);
    alone int := 0;
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
    WITH RECURSIVE others AS (
        SELECT place, weight, chunks, (chunks / query.chunks) ^ 0.6 AS share
        FROM unnest(query.word_weights[alone + 1:alone + 8], query.word_chunks[alone + 1:alone + 8])
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
        words := words || rag.words_that_reach(
            query.words[1:alone + 8], query.word_weights, alone + 1, threshold - 1e-9, 4);
    END IF;
    RETURN array_to_string(words, ' | ')::tsquery;
END $$;

REVOKE EXECUTE ON FUNCTION rag.words_that_reach, rag.essential_words FROM PUBLIC;
GRANT CREATE ON SCHEMA rag TO rag_search;
ALTER FUNCTION rag.words_that_reach OWNER TO rag_search;
ALTER FUNCTION rag.essential_words OWNER TO rag_search;
SET LOCAL ROLE rag_search;

CREATE OR REPLACE FUNCTION rag.analyse_query(
    profile_id bigint, config regconfig, query_text text, near rag.near_word[] DEFAULT '{}'
) RETURNS rag.lexical_query LANGUAGE plpgsql STABLE AS $$
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

-- Where fewer are found than asked for (a filter leaves few, or fewer than expected hold words together), more is read.
-- Every row is scored by all words. Nothing in it is worth compiling, or a process more.
CREATE OR REPLACE FUNCTION rag.lexical_candidates(
    profile rag.embedding_profiles, query rag.lexical_query, how_many int, source_condition text
) RETURNS rag.candidates LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET random_page_cost = 1 SET seq_page_cost = 1
SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
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
        budget := 8 * budget;
    END LOOP;
    RETURN found_rows;
END $$;

RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
