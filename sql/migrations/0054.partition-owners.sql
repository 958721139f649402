-- depends: 0050.near-words
-- transactional: false

-- A partition's rows are tied to its tenant, bot and space by a check of a mark, and no more by a foreign key: each of those
-- left two triggers on embedding_profiles, which every session read after every change of a profile, whosever it was.
-- Partitions from before the foreign key, whose checks named their tenant, get the mark too.
--
-- Some of it locks a table against readers, so this waits for a moment in which nobody reads, 20 ms at a time, and lets go
-- of each partition before it turns to the next. It may be done twice.
DO $$
DECLARE
    one record;
    statement text;
BEGIN
    -- Row-level security holds the owner back too.
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            DROP POLICY IF EXISTS partition_owners ON rag.embedding_profiles;
            CREATE POLICY partition_owners ON rag.embedding_profiles FOR SELECT TO rag_owner USING (true);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    COMMIT;
    FOR one IN
        SELECT c.relname, EXISTS (
                   SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = 'belongs_to_space') AS has_mark,
               sha256((p.knowledge_space_id::text || ' ' || p.tenant_id || ' ' || p.bot_id)::bytea) AS mark,
               (SELECT string_agg(format('DROP CONSTRAINT %I', k.conname), ', ')
                FROM pg_constraint k
                LEFT JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
                WHERE k.conrelid = c.oid
                  AND (k.conname = 'belongs_to_profile'
                       OR k.contype = 'c' AND a.attname IN ('tenant_id', 'bot_id', 'knowledge_space_id'))) AS drops
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        JOIN rag.embedding_profiles p ON c.relname = 'knowledge_chunks_p' || p.id
        WHERE i.inhparent = 'rag.knowledge_chunks'::regclass AND NOT i.inhdetachpending
    LOOP
        FOREACH statement IN ARRAY ARRAY[
            CASE WHEN NOT one.has_mark THEN format(
                'ALTER TABLE rag.%I ADD CONSTRAINT belongs_to_space CHECK ('
                'sha256((knowledge_space_id::text || '' '' || tenant_id || '' '' || bot_id)::bytea) = %L) NOT VALID',
                one.relname, one.mark) END,
            format('ALTER TABLE rag.%I VALIDATE CONSTRAINT belongs_to_space', one.relname),
            format('ALTER TABLE rag.%I ', one.relname) || one.drops]
        LOOP
            LOOP
                BEGIN
                    PERFORM set_config('lock_timeout', '20ms', true);
                    IF statement IS NOT NULL THEN
                        EXECUTE statement;
                    END IF;
                    EXIT;
                EXCEPTION WHEN lock_not_available THEN
                    PERFORM pg_sleep(0.2);
                END;
            END LOOP;
            COMMIT;
        END LOOP;
    END LOOP;
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            DROP POLICY partition_owners ON rag.embedding_profiles;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
