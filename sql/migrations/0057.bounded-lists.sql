-- depends: 0056.roots-of-a-space

-- Of frequent words the index reads whole lists before it knows which chunks have several of them: with a million chunks
-- that took 100 ms and more of a search, of which the chunks themselves took 20. So those that follow the words that are
-- looked for alone are as many, at most eight and at least two, as have so many places in these lists together; it is
-- the words that weigh least that are no longer looked for, and each row is scored by all words as before. And where fewer
-- chunks are found than asked for, three times as many are looked for, and no more eight times: one paragraph of eight
-- holds words that stand together less often than is guessed, and 16,000 chunks were read where 4,000 would have done.

GRANT CREATE ON SCHEMA rag TO rag_search;
SET LOCAL ROLE rag_search;

-- What is looked for so that about `budget` chunks are read: any word where no more chunks have one; else the words that
-- weigh most, while half of that many have them, and of those that follow, which are eight, or as few as stand in 25
-- times `budget` chunks when each is counted by itself, all sets whose weight reaches a threshold, which is as low as the
-- rest of the budget lets it be. Of frequent words alone that is the heaviest set, however many have it. How many chunks
-- have all words of a set is guessed: where n have the rarest, n times the share of chunks that have another, to the
-- power of .6, for each other. That is between chance (1) and always (0), and near the middle of what was counted in texts.
CREATE OR REPLACE FUNCTION rag.essential_words(query rag.lexical_query, budget float8) RETURNS tsquery LANGUAGE plpgsql STABLE AS $$
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
        budget := 3 * budget;
    END LOOP;
    RETURN found_rows;
END $$;

RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
