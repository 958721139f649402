-- depends: 0051.bounded-words 0052.storage

-- Searches may go to a replica, which has a migration some moments after its primary. Whoever searches asks there which
-- ones are missing, and cannot read the list itself.

CREATE FUNCTION rag.missing_migrations(wanted text[]) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = rag, public, pg_temp AS $$
    SELECT w.id FROM unnest(wanted) AS w (id)
    WHERE NOT EXISTS (SELECT FROM rag._yoyo_migration m WHERE m.migration_id = w.id) ORDER BY 1
$$;
REVOKE EXECUTE ON FUNCTION rag.missing_migrations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.missing_migrations TO rag_app;
