-- The logins of the embedded server: one for each role, with that role and nothing else. Runs as its superuser when it
-- is set up. A session of theirs that leaves its role (RESET ROLE) is nobody.
--
-- They have no passwords: whoever reaches the socket is the user who runs the server, or root.

DO $$
DECLARE
    role_name text;
    login_name text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rag logins', 0));
    FOREACH role_name IN ARRAY ARRAY['rag_owner', 'rag_ingest', 'rag_app'] LOOP
        login_name := role_name || '_login';
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login_name) THEN
            EXECUTE format('CREATE ROLE %I', login_name);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION', login_name);
        EXECUTE format('ALTER ROLE %I SET search_path = rag, public, extensions', login_name);
        EXECUTE format('GRANT %I TO %I WITH INHERIT FALSE, SET TRUE', role_name, login_name);
    END LOOP;
END $$;
