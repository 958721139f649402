-- depends: 0038.triples-usage

-- Parts of texts, one for each span of code points. A text is a megabyte or more, and the database counts its characters
-- from the first one on for each part that it cuts out: so it is cut into large pieces first, these into small ones,
-- each of them once, and the spans are cut out of those.
CREATE FUNCTION rag.texts_of_spans(sources uuid[], versions text[], firsts int[], lasts int[])
RETURNS TABLE (number bigint, content text) LANGUAGE sql STABLE AS $$
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

GRANT CREATE ON SCHEMA rag TO rag_search;
SET LOCAL ROLE rag_search;

-- The part of WHERE that depends on sources; '' where every source of the space may be seen, so that the common case
-- stays free of it.
CREATE OR REPLACE FUNCTION rag.source_condition(profile rag.embedding_profiles, filters jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
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
END $$;
RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
