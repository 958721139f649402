-- What must exist before the migrations can run as rag_owner. Runs as the login user at every `rag up`;
-- every statement is idempotent. Roles belong to the server, so two databases may race to create them.

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['rag_owner', 'rag_ingest', 'rag_app', 'rag_search'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS', role_name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- another database of this server made it
        END;
    END LOOP;
END $$;

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['rag_owner', 'rag_ingest', 'rag_app'] LOOP
        -- A login user that is no superuser may only SET ROLE to what it has been granted.
        IF NOT pg_has_role(session_user, role_name, 'SET') THEN
            EXECUTE format('GRANT %I TO %I WITH INHERIT FALSE, SET TRUE', role_name, session_user);
        END IF;
    END LOOP;
    -- rag_owner hands the search functions over to rag_search; it must not inherit its reading rights.
    IF NOT pg_has_role('rag_owner', 'rag_search', 'SET') THEN
        GRANT rag_search TO rag_owner WITH INHERIT FALSE, SET TRUE;
    END IF;
END $$;

CREATE EXTENSION IF NOT EXISTS vector;

CREATE SCHEMA IF NOT EXISTS rag AUTHORIZATION rag_owner;
SET ROLE rag_owner;
GRANT USAGE ON SCHEMA rag TO rag_ingest, rag_app, rag_search;
RESET ROLE;

DO $$
BEGIN
    IF NOT has_database_privilege('rag_ingest', current_database(), 'TEMPORARY') THEN
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO rag_ingest', current_database());
    END IF;
END $$;
