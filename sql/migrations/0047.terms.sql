-- depends: 0046.scopes-once
-- transactional: false

-- Which version of terms the texts of a profile were published with, and its queries are prepared with.
--
-- A new column locks the table against readers, so this waits for a moment in which nobody reads, 20 ms at a time. It may
-- be done twice.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            ALTER TABLE rag.embedding_profiles ADD COLUMN IF NOT EXISTS terms smallint NOT NULL DEFAULT 1 CHECK (terms > 0);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
