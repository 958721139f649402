-- depends: 0031.visibility

-- What a source is chosen by: its name, root, path, tags and date, and any key of its metadata. Values of documents are
-- what somebody wrote: one that is no number or date lies in no range, and never stops a search.

CREATE FUNCTION rag.as_number(value text) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN pg_input_is_valid(value, 'numeric') AND value !~* 'nan|inf' THEN value::numeric END;
CREATE FUNCTION rag.as_time(value text) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN value ~ '^\d{4}-\d{2}-\d{2}([T ].*)?$' AND pg_input_is_valid(value, 'timestamptz')
                THEN value::timestamptz END;

-- The date that a source gives itself, else when it was last changed here.
CREATE FUNCTION rag.source_date(metadata jsonb, changed_at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE
PARALLEL SAFE
    RETURN coalesce(rag.as_time(metadata ->> 'modified'), rag.as_time(metadata ->> 'updated'),
                    rag.as_time(metadata ->> 'date'), rag.as_time(metadata ->> 'published'), changed_at);

-- Values are compared as text, so that 7 and "7" are the same; of a list one element is enough.
CREATE FUNCTION rag.values_of(value jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE jsonb_typeof(value) WHEN 'array' THEN one #>> '{}' ELSE value #>> '{}' END
    FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[null]' END) AS elements (one)
$$;
CREATE FUNCTION rag.meets(value jsonb, operator text, wanted jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE operator
        WHEN 'exists' THEN (value IS NOT NULL AND value <> 'null') = wanted::boolean
        WHEN 'equals' THEN EXISTS (SELECT FROM rag.values_of(value) v WHERE v = wanted #>> '{}')
        WHEN 'in' THEN EXISTS (SELECT FROM rag.values_of(value) v JOIN rag.values_of(wanted) w ON v = w)
        ELSE EXISTS (
            SELECT FROM rag.values_of(value) v
            WHERE CASE WHEN jsonb_typeof(wanted) = 'number' THEN CASE operator
                           WHEN 'gt' THEN rag.as_number(v) > rag.as_number(wanted #>> '{}')
                           WHEN 'gte' THEN rag.as_number(v) >= rag.as_number(wanted #>> '{}')
                           WHEN 'lt' THEN rag.as_number(v) < rag.as_number(wanted #>> '{}')
                           ELSE rag.as_number(v) <= rag.as_number(wanted #>> '{}') END
                       ELSE CASE operator
                           WHEN 'gt' THEN rag.as_time(v) > rag.as_time(wanted #>> '{}')
                           WHEN 'gte' THEN rag.as_time(v) >= rag.as_time(wanted #>> '{}')
                           WHEN 'lt' THEN rag.as_time(v) < rag.as_time(wanted #>> '{}')
                           ELSE rag.as_time(v) <= rag.as_time(wanted #>> '{}') END END)
    END
$$;

-- A path as the source is named, that of the file that it lies in, an address, or the path of one.
CREATE FUNCTION rag.lies_under(name text, file text, uri text, prefixes text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN EXISTS (
        SELECT FROM unnest(prefixes) AS prefix
        WHERE starts_with(uri, prefix) OR starts_with(name, ltrim(prefix, '/')) OR starts_with(file, ltrim(prefix, '/'))
           OR starts_with(prefix, '/') AND starts_with(regexp_replace(uri, '^[a-z0-9+.-]+://[^/]*', ''), prefix));

-- What is wrong with filters, '' for nothing: each key is known and of its kind.
CREATE FUNCTION rag.wrong_filters(filters jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce((
        SELECT string_agg(format('filters: %s', f.key), ', ' ORDER BY f.key) FROM jsonb_each(filters) f
        WHERE CASE
            WHEN f.key IN ('source_ids', 'source_names', 'source_types', 'locales', 'content_types', 'roots',
                           'path_prefixes', 'tags')
            THEN jsonb_typeof(f.value) <> 'array' OR jsonb_path_exists(f.value, '$[*] ? (@.type() <> "string")')
            WHEN f.key = 'metadata' THEN jsonb_typeof(f.value) <> 'object'
            WHEN f.key IN ('since', 'until')
            THEN jsonb_typeof(f.value) <> 'string' OR NOT pg_input_is_valid(f.value #>> '{}', 'timestamptz')
            WHEN f.key = 'where' THEN jsonb_typeof(f.value) <> 'object' OR EXISTS (
                SELECT FROM jsonb_each(CASE jsonb_typeof(f.value) WHEN 'object' THEN f.value ELSE '{}' END) w
                WHERE jsonb_typeof(w.value) <> 'object' OR w.value = '{}' OR EXISTS (
                    SELECT FROM jsonb_each(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value ELSE '{}' END) o
                    WHERE CASE
                        WHEN o.key = 'exists' THEN jsonb_typeof(o.value) <> 'boolean'
                        WHEN o.key = 'equals' THEN jsonb_typeof(o.value) NOT IN ('string', 'number', 'boolean')
                        WHEN o.key = 'in' THEN jsonb_typeof(o.value) <> 'array'
                        WHEN o.key IN ('gt', 'gte', 'lt', 'lte') THEN jsonb_typeof(o.value) NOT IN ('string', 'number')
                        ELSE true END))
            ELSE true END), '');

CREATE OR REPLACE FUNCTION rag.check_search(
    mode text, query_vector vector, query_text text, top_k int, copies boolean, candidates int, dense_weight float8,
    fusion text, filters jsonb, exact boolean
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
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

GRANT SELECT ON rag.source_roots TO rag_search;
CREATE POLICY search ON rag.source_roots FOR SELECT TO rag_search USING (true);
GRANT EXECUTE ON FUNCTION rag.wrong_filters TO rag_search;
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
        conditions := conditions
            || format(' AND rag.meets(s.metadata -> %L, %L, %L::jsonb)', one.key, one.operator, one.value);
    END LOOP;
    RETURN format(
        ' AND c.source_id IN (SELECT s.id FROM rag.knowledge_sources s WHERE s.knowledge_space_id = %L%s)',
        profile.knowledge_space_id, conditions);
END $$;
RESET ROLE;
REVOKE CREATE ON SCHEMA rag FROM rag_search;
