-- Every statement that the product sends, by name. Parameters are psycopg's; the search statement itself is
-- the function rag.search. Everything runs inside a transaction whose scope has been set.

-- reachable_roles --
-- The current role, and the login if asked for, each with every role that it may become by any way.
SELECT quote_ident(w.name) AS who, quote_ident(r.rolname) AS role, r.rolsuper AS is_super, r.rolbypassrls AS bypasses,
       r.rolcreaterole AS creates_roles, r.rolreplication AS replicates,
       (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'rag' AND c.relkind IN ('r', 'p') AND c.relowner = r.oid) AS owned,
       ARRAY(SELECT quote_ident(n.nspname) FROM pg_namespace n
             WHERE %(login)s AND n.nspname IN ('rag', 'public')
               AND has_schema_privilege(r.oid, n.oid, 'CREATE')) AS plants,
       ARRAY(SELECT DISTINCT m.roleid::regrole::text FROM pg_auth_members m
             WHERE m.member = me.oid AND pg_has_role(m.roleid, r.oid, 'MEMBER')) AS through
FROM (SELECT session_user AS name WHERE %(login)s UNION SELECT current_user) w
JOIN pg_roles me ON me.rolname = w.name
JOIN pg_roles r ON r.oid = me.oid OR (NOT me.rolsuper AND pg_has_role(me.oid, r.oid, 'MEMBER'))
ORDER BY w.name = session_user DESC, r.oid = me.oid DESC, r.rolname

-- missing_migrations --
-- Of the migrations of this version, those that the server does not have, as the app may ask.
SELECT m AS id FROM rag.missing_migrations(%(wanted)s) AS m

-- is_replica --
-- Whether the server follows another one.
SELECT pg_is_in_recovery() AS is_replica

-- server_standing --
-- How far a server is: in bytes of the log that it has written, or replayed as a replica, and seconds since the last
-- change that it replayed was made.
SELECT pg_is_in_recovery() AS is_replica,
       pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END,
                       '0/0')::bigint AS position,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS since_s

-- has_logins --
-- Whether each of these roles has its login, which may become it.
SELECT bool_and(l.oid IS NOT NULL AND pg_has_role(l.oid, r.name::name, 'SET'))
FROM unnest(%(roles)s::text[]) AS r (name) LEFT JOIN pg_roles l ON l.rolname = r.name || '_login'

-- add_tenant --
-- Its id if it is new, and nothing if it was there.
INSERT INTO rag.tenants (id) VALUES (%(tenant)s) ON CONFLICT DO NOTHING RETURNING id

-- add_bot --
-- Its id if it is new, and nothing if it was there.
INSERT INTO rag.bots (tenant_id, id) VALUES (%(tenant)s, %(bot)s) ON CONFLICT DO NOTHING RETURNING id

-- add_space --
-- Each bot has one space so far, with the default name.
INSERT INTO rag.knowledge_spaces (tenant_id, bot_id, visibility_scope) VALUES (%(tenant)s, %(bot)s, %(visibility)s)
ON CONFLICT DO NOTHING

-- space_visibility --
-- With whom the sources of a bot's space are shared.
SELECT visibility_scope FROM rag.knowledge_spaces
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s AND name = 'default'

-- filter_values --
-- What shared sources of a bot, and those that all bots of the tenant share, may be chosen by.
WITH seen AS (
    SELECT s.name, s.source_type, s.locale, s.content_type, s.metadata, s.updated_at FROM rag.knowledge_sources s
    WHERE s.tenant_id = %(tenant)s AND s.bot_id IN (%(bot)s, %(shared)s) AND s.status <> 'deleted'
      AND s.scope_type = 'bot')
SELECT key, value FROM (
    (SELECT 'source' AS key, name AS value FROM seen GROUP BY name ORDER BY max(updated_at) DESC LIMIT 10000)
    UNION SELECT 'type', source_type FROM seen
    UNION SELECT 'locale', locale FROM seen
    UNION SELECT 'content_type', content_type FROM seen
    UNION SELECT 'tag', t.tag FROM seen CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE jsonb_typeof(metadata -> 'tags') WHEN 'array' THEN metadata -> 'tags' ELSE '[]' END) AS t (tag)
) found WHERE value IS NOT NULL ORDER BY key, value

-- metadata_keys --
-- Of the sources of a bot, and of what all bots of the tenant share.
SELECT DISTINCT k.key FROM rag.knowledge_sources s CROSS JOIN LATERAL jsonb_object_keys(s.metadata) AS k (key)
WHERE s.tenant_id = %(tenant)s AND s.bot_id IN (%(bot)s, %(shared)s) AND s.status <> 'deleted' AND k.key <> 'rag:origin'
ORDER BY k.key

-- list_tenants --
-- All of them, whoever is in scope.
SELECT id FROM rag.tenants ORDER BY id

-- list_bots --
-- All bots of a tenant.
SELECT id FROM rag.bots WHERE tenant_id = %(tenant)s ORDER BY id

-- list_spaces --
-- The spaces of a tenant, or of one bot.
SELECT id, tenant_id AS tenant, bot_id AS bot, active_profile_id, canary_profile_id
FROM rag.knowledge_spaces
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
ORDER BY bot_id, name

-- add_root --
-- A root that is known stays as it is; an index takes its hash, because a uri may be longer than a key.
INSERT INTO rag.source_roots (knowledge_space_id, tenant_id, bot_id, uri)
VALUES (%(space)s, %(tenant)s, %(bot)s, %(uri)s)
ON CONFLICT (knowledge_space_id, sha256(replace(uri, '\', '\\')::bytea)) DO NOTHING

-- list_roots --
-- The roots of a tenant, or of one bot, oldest first.
SELECT id, knowledge_space_id AS space_id, tenant_id AS tenant, bot_id AS bot, uri, options, scan, scanned_at,
       next_scan_at, last_error
FROM rag.source_roots
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
ORDER BY bot_id, created_at, id

-- root_scanned --
-- When the root was looked at, what of it could not be read, and what was found, if it could be listed.
UPDATE rag.source_roots
SET scanned_at = now(), last_error = %(error)s, scan = coalesce(%(scan)s, scan),
    next_scan_at = now() + make_interval(secs => %(next_in_s)s::int)
WHERE id = %(root)s

-- update_root_scan --
-- What was found there is known otherwise now.
UPDATE rag.source_roots SET scan = %(scan)s WHERE id = %(root)s

-- set_root_options --
-- All of them, but for those that are as by default.
UPDATE rag.source_roots SET options = %(options)s WHERE id = %(root)s

-- count_root_sources --
-- Without deleted and forgotten ones.
SELECT count(*) FROM rag.knowledge_sources WHERE root_id = %(root)s AND status NOT IN ('deleted', 'forgotten')

-- count_root_held --
-- Sources that are held back: those of held files, and those that are gone from their files.
SELECT count(*) AS sources, min(least(s.held_since, f.held_since)) AS since
FROM rag.knowledge_sources s
LEFT JOIN rag.source_files f ON f.root_id = %(root)s AND f.file_hash = s.file_hash AND f.held_since IS NOT NULL
WHERE s.root_id = %(root)s AND s.status NOT IN ('deleted', 'forgotten')
  AND (s.held_since IS NOT NULL OR f.root_id IS NOT NULL)

-- hold_files --
-- Files that are gone and kept, from the first time on that they were.
UPDATE rag.source_files SET held_since = now()
WHERE root_id = %(root)s AND file_hash = ANY(%(files)s) AND held_since IS NULL

-- release_files --
-- Files that are there again.
UPDATE rag.source_files SET held_since = NULL
WHERE root_id = %(root)s AND held_since IS NOT NULL AND file_hash <> ALL(%(files)s)

-- hold_sources --
-- Sources that are gone from their files and kept, from the first time on that they were.
UPDATE rag.knowledge_sources SET held_since = now() WHERE id = ANY(%(sources)s) AND held_since IS NULL

-- held_files --
-- Files of a root that are gone and kept, by the hashes of their uris.
SELECT file_hash FROM rag.source_files WHERE root_id = %(root)s AND held_since IS NOT NULL

-- held_records --
-- Sources of a root that are gone from their files and kept.
SELECT id FROM rag.knowledge_sources
WHERE root_id = %(root)s AND held_since IS NOT NULL AND status NOT IN ('deleted', 'forgotten')

-- share_files --
-- Files that another root of the space has read, as that one knows them.
INSERT INTO rag.source_files AS f (
    knowledge_space_id, tenant_id, bot_id, root_id, file_hash, uri, size, mtime_ns, checksum, parser_version,
    etag, last_modified, read_at)
SELECT DISTINCT ON (o.file_hash) o.knowledge_space_id, o.tenant_id, o.bot_id, %(root)s, o.file_hash, o.uri, o.size,
       o.mtime_ns, o.checksum, o.parser_version, o.etag, o.last_modified, o.read_at
FROM rag.source_files o
WHERE o.knowledge_space_id = %(space)s AND o.root_id <> %(root)s AND o.file_hash = ANY(%(files)s)
  AND o.held_since IS NULL
ORDER BY o.file_hash, o.mtime_ns DESC
ON CONFLICT (root_id, file_hash) DO UPDATE SET
    size = excluded.size, mtime_ns = excluded.mtime_ns, checksum = excluded.checksum,
    parser_version = excluded.parser_version, etag = excluded.etag, last_modified = excluded.last_modified,
    read_at = excluded.read_at, held_since = NULL, ctime_ns = excluded.ctime_ns, inode = excluded.inode

-- files_of_other_roots --
-- Of these files of a root, those that another root of the space has too, and does not miss.
SELECT DISTINCT file_hash FROM rag.source_files
WHERE knowledge_space_id = %(space)s AND root_id <> %(root)s AND file_hash = ANY(%(files)s) AND held_since IS NULL

-- leave_sources --
-- The sources of these files belong to another root that has the files.
UPDATE rag.knowledge_sources s SET root_id = f.root_id
FROM rag.source_files f
WHERE s.knowledge_space_id = %(space)s AND s.root_id = %(root)s AND s.file_hash = ANY(%(files)s)
  AND f.knowledge_space_id = %(space)s AND f.root_id <> %(root)s AND f.file_hash = s.file_hash AND f.held_since IS NULL

-- adopt_files --
-- Files of a root that lie under another one, which looks at its next scan whether it has them.
INSERT INTO rag.source_files (
    knowledge_space_id, tenant_id, bot_id, root_id, file_hash, uri, size, mtime_ns, checksum, parser_version,
    etag, last_modified, read_at)
SELECT knowledge_space_id, tenant_id, bot_id, %(by)s, file_hash, uri, size, mtime_ns, checksum, parser_version,
       etag, last_modified, read_at
FROM rag.source_files
WHERE root_id = %(root)s AND (uri = %(uri)s OR starts_with(uri, %(prefix)s))
ON CONFLICT (root_id, file_hash) DO NOTHING

-- delete_root_sources --
-- All that a root has; the rows stay until every profile has taken its chunks away.
UPDATE rag.knowledge_sources
SET status = 'deleted', progress_percent = 100, error_message = NULL, held_since = NULL, updated_at = now()
WHERE root_id = %(root)s AND status NOT IN ('deleted', 'forgotten')

-- drop_root --
-- With what is known of its files; deleted sources remain without a root.
WITH freed AS (UPDATE rag.knowledge_sources SET root_id = NULL WHERE root_id = %(root)s)
DELETE FROM rag.source_roots WHERE id = %(root)s

-- rename_root --
-- What was seen there stays; whether it can be read at its new place is not known yet.
UPDATE rag.source_roots SET uri = %(uri)s, last_error = NULL WHERE id = %(root)s

-- moved_files_table --
-- Where the old and the new places of files lie until the end of the transaction that moves them.
CREATE TEMP TABLE IF NOT EXISTS moved_files (
    old_uri text, old_hash bytea, new_uri text, new_hash bytea, size bigint, mtime_ns bigint, checksum text,
    parser_version text, etag text, last_modified text, read_at timestamptz
) ON COMMIT DROP

-- fill_moved_files --
-- The hash of a uri is what stands for it in keys.
INSERT INTO moved_files (old_uri, old_hash, new_uri, new_hash)
SELECT old, sha256(convert_to(old, 'UTF8')), new, sha256(convert_to(new, 'UTF8'))
FROM unnest(%(old)s::text[], %(new)s::text[]) AS m (old, new)

-- delete_replaced_sources --
-- Sources that lie where the moved ones will: the same files, read as others before.
UPDATE rag.knowledge_sources s
SET status = 'deleted', progress_percent = 100, error_message = NULL, held_since = NULL, updated_at = now()
FROM moved_files m
WHERE s.knowledge_space_id = %(space)s AND s.file_hash = m.new_hash AND s.status NOT IN ('deleted', 'forgotten')
  AND NOT EXISTS (SELECT FROM moved_files o WHERE o.old_hash = s.file_hash)

-- take_moved_files --
-- What is known of the files at their old places.
UPDATE moved_files m
SET size = f.size, mtime_ns = f.mtime_ns, checksum = f.checksum, parser_version = f.parser_version, etag = f.etag,
    last_modified = f.last_modified, read_at = f.read_at
FROM rag.source_files f WHERE f.root_id = %(root)s AND f.file_hash = m.old_hash

-- drop_moved_files --
-- At both places, for all roots of the space: another root that has one of them reads it as a new file.
DELETE FROM rag.source_files f USING moved_files m
WHERE f.knowledge_space_id = %(space)s AND f.file_hash IN (m.old_hash, m.new_hash)

-- put_moved_files --
-- What is known of the files at their new places.
INSERT INTO rag.source_files (
    knowledge_space_id, tenant_id, bot_id, root_id, file_hash, uri, size, mtime_ns, checksum, parser_version,
    etag, last_modified, read_at)
SELECT r.knowledge_space_id, r.tenant_id, r.bot_id, r.id, m.new_hash, m.new_uri, m.size, m.mtime_ns, m.checksum,
       m.parser_version, m.etag, m.last_modified, m.read_at
FROM moved_files m JOIN rag.source_roots r ON r.id = %(root)s WHERE m.checksum IS NOT NULL

-- move_sources --
-- The same sources, with the ids that they have, at another place.
UPDATE rag.knowledge_sources s
SET file_hash = m.new_hash, root_id = %(root)s,
    external_id = m.new_uri || substr(s.external_id, length(m.old_uri) + 1),
    canonical_url = CASE s.canonical_url WHEN m.old_uri THEN m.new_uri ELSE s.canonical_url END,
    name = CASE s.name WHEN m.old_uri THEN m.new_uri ELSE s.name END
FROM moved_files m
WHERE s.knowledge_space_id = %(space)s AND s.file_hash = m.old_hash

-- merge_root_files --
-- What is known of files that only the other root has.
UPDATE rag.source_files f SET root_id = %(into)s
WHERE f.root_id = %(root)s
  AND NOT EXISTS (SELECT FROM rag.source_files o WHERE o.root_id = %(into)s AND o.file_hash = f.file_hash)

-- merge_root_sources --
-- All of them, deleted ones too.
UPDATE rag.knowledge_sources SET root_id = %(into)s WHERE root_id = %(root)s

-- kept_source_ids --
-- Ids of sources by what they are called now, those of deleted ones first; and whose the ids are that would be derived.
SELECT id, external_id, knowledge_space_id = %(space)s AND file_hash = ANY(%(files)s) AS is_at_place
FROM rag.knowledge_sources
WHERE knowledge_space_id = %(space)s AND file_hash = ANY(%(files)s) OR id = ANY(%(derived)s)
ORDER BY status <> 'deleted'

-- add_spec --
-- A profile is never changed: one of the same name stays as it is.
INSERT INTO rag.profile_specs (name, spec, spec_hash) VALUES (%(name)s, %(spec)s, %(spec_hash)s)
ON CONFLICT (name) DO NOTHING

-- list_specs --
-- The catalogue, or one profile of it, as each was written down.
SELECT spec FROM rag.profile_specs
WHERE %(name)s::text IS NULL OR name = %(name)s ORDER BY created_at, name

-- add_built_profile --
-- Unless the space has a profile of this name that is not retired.
INSERT INTO rag.embedding_profiles (
    knowledge_space_id, tenant_id, bot_id, name, provider, model, dimensions, distance_metric,
    task_instruction, normalized, chunking, index, lexical, options, terms, spec_hash)
VALUES (
    %(space)s, %(tenant)s, %(bot)s, %(name)s, %(provider)s, %(model)s, %(dimensions)s, %(distance_metric)s,
    %(task_instruction)s, %(normalized)s, %(chunking)s, %(index)s, %(lexical)s, %(options)s, %(terms)s, %(spec_hash)s)
ON CONFLICT (knowledge_space_id, name) WHERE status <> 'retired' DO NOTHING

-- add_index_state --
-- A profile's row for its statistics and indexes, empty at first.
INSERT INTO rag.index_state (embedding_profile_id, tenant_id, bot_id)
VALUES (%(profile)s, %(tenant)s, %(bot)s) ON CONFLICT DO NOTHING

-- forget_publication --
-- For a partition that is new or was lost: nothing is published in it, and nothing was counted.
WITH forgotten AS (DELETE FROM rag.source_profiles WHERE embedding_profile_id = %(profile)s)
UPDATE rag.index_state SET chunks_at_statistics = 0, chunks_at_hnsw = 0, statistics_at = NULL
WHERE embedding_profile_id = %(profile)s

-- list_built_profiles --
-- What a tenant has that is not retired; `spec` is the whole row, with the profile's fields among its columns.
SELECT p.id, p.knowledge_space_id AS space_id, p.tenant_id AS tenant, p.bot_id AS bot, p.status, to_jsonb(p) AS spec
FROM rag.embedding_profiles p
WHERE p.tenant_id = %(tenant)s AND p.status <> 'retired'
  AND (%(bot)s::text IS NULL OR p.bot_id = %(bot)s)
  AND (%(name)s::text IS NULL OR p.name = %(name)s)
ORDER BY p.bot_id, p.created_at, p.id

-- profiles_so_far --
-- What a bot has and had, retired and dropped profiles too, each with its `spec` as above.
SELECT p.id, p.knowledge_space_id AS space_id, p.tenant_id AS tenant, p.bot_id AS bot, p.status, to_jsonb(p) AS spec
FROM rag.embedding_profiles p WHERE p.knowledge_space_id = %(space)s ORDER BY p.id

-- note_embedding --
-- Where the vectors are made is written down once.
UPDATE rag.embedding_profiles
SET origin = coalesce(origin, %(origin)s), last_error = %(error)s,
    last_error_at = CASE WHEN %(error)s::text IS NOT NULL THEN now() END
WHERE id = %(profile)s

-- add_event --
-- A line in the audit of a profile.
INSERT INTO rag.profile_events (tenant_id, bot_id, knowledge_space_id, embedding_profile_id, event, evidence)
VALUES (%(tenant)s, %(bot)s, %(space)s, %(profile)s, %(event)s, %(evidence)s)

-- lock_profile --
-- Who publishes into or counts a profile alone waits here for all others, until the transaction ends.
SELECT pg_advisory_xact_lock(%(profile)s)

-- share_profile --
-- Who publishes beside others waits only for those who want the profile alone.
SELECT pg_advisory_xact_lock_shared(%(profile)s)

-- mark_complete_profile --
-- A profile is complete when every source that can be read is published in it as it is now, or has failed.
UPDATE rag.embedding_profiles p SET status = 'ready'
WHERE p.id = %(profile)s AND p.status = 'building'
  AND EXISTS (SELECT FROM rag.source_profiles sp WHERE sp.embedding_profile_id = p.id AND sp.status = 'ready')
  AND NOT EXISTS (SELECT FROM rag.profile_work w WHERE w.embedding_profile_id = %(profile)s AND w.work = 'missing')
RETURNING p.id

-- activate_first_profile --
-- Only a space that serves nothing yet takes a profile without a promotion.
UPDATE rag.knowledge_spaces k SET active_profile_id = %(profile)s
WHERE k.id = %(space)s AND k.active_profile_id IS NULL
RETURNING k.id

-- set_profile_active --
-- The first profile of a space, once the space points to it.
UPDATE rag.embedding_profiles SET status = 'active' WHERE id = %(profile)s

-- embeds_media --
-- Whether any profile of the space embeds files as such.
SELECT EXISTS (SELECT FROM rag.embedding_profiles
               WHERE knowledge_space_id = %(space)s AND status <> 'retired' AND rag.embeds_media(options))

-- file_states --
-- What is known of each file of a root since it was read; of one that never could be, only that it has sources.
SELECT uri, size, mtime_ns, checksum, parser_version, etag, last_modified, held_since IS NOT NULL AS held, ctime_ns,
       inode, read_at
FROM rag.source_files WHERE root_id = %(root)s
UNION ALL
SELECT DISTINCT split_part(s.external_id, '#', 1), -1, 0, '', '', NULL, NULL, false, NULL::bigint, NULL::bigint,
       NULL::timestamptz
FROM rag.knowledge_sources s
WHERE s.root_id = %(root)s AND s.status NOT IN ('deleted', 'forgotten')
  AND NOT EXISTS (SELECT FROM rag.source_files f WHERE f.root_id = s.root_id AND f.file_hash = s.file_hash)

-- roots_of_sources --
-- Where each of these sources lies under, as far as its root is remembered.
SELECT s.id, r.uri FROM rag.knowledge_sources s JOIN rag.source_roots r ON r.id = s.root_id WHERE s.id = ANY(%(sources)s)

-- forget_files --
-- Files that are gone, by the hash of their uri.
DELETE FROM rag.source_files WHERE root_id = %(root)s AND file_hash = ANY(%(files)s)

-- let_files_be_reread --
-- The files of a bot, so that the next scan reads all of them again, however they look.
UPDATE rag.source_files SET read_at = 'epoch' WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s

-- read_anew --
-- The files of a root, so that the next scan makes of them what its options say now, whether their bytes are the same.
UPDATE rag.source_files SET parser_version = parser_version || ', as before' WHERE root_id = %(root)s

-- read_held_anew --
-- The files of a root that are there, and of which sources are held back, so that the next scan reads them again.
UPDATE rag.source_files f SET parser_version = f.parser_version || ', as before'
FROM rag.knowledge_sources s
WHERE f.root_id = %(root)s AND s.root_id = f.root_id AND s.file_hash = f.file_hash AND s.held_since IS NOT NULL
  AND s.status NOT IN ('deleted', 'forgotten')

-- forget_unread_files --
-- The files of sources that failed or hold no text, so that the next scan reads them again.
DELETE FROM rag.source_files f USING rag.knowledge_sources s
WHERE f.tenant_id = %(tenant)s AND f.bot_id = %(bot)s
  AND s.knowledge_space_id = f.knowledge_space_id AND s.file_hash = f.file_hash AND s.status IN ('failed', 'no_text')

-- source_states_of_files --
-- The sources that came from these files, without deleted ones.
SELECT s.id, s.file_hash, s.external_id, s.checksum, s.status, s.media, s.missing_since IS NOT NULL AS is_missing,
       s.name, s.error_message AS error, s.forgotten ->> 'file' AS forgotten_file, s.forgotten ->> 'text' AS forgotten_text,
       s.status <> 'failed' OR rag.has_version(s.id) AS has_version
FROM rag.knowledge_sources s
WHERE s.knowledge_space_id = %(space)s AND s.file_hash = ANY(%(files)s) AND s.status <> 'deleted'

-- staged_sources_table --
-- Where sources lie until the end of the transaction that writes them.
CREATE TEMP TABLE IF NOT EXISTS staged_sources (
    id uuid, file_hash bytea, source_type text, external_id text, name text, canonical_url text,
    checksum text, status text, error_message text, locale text, content_type text, metadata text, media text,
    title text, text text, blocks text, revives boolean
) ON COMMIT DROP

-- copy_staged_sources --
-- In the order of the columns of the table above.
COPY staged_sources FROM STDIN

-- upsert_sources --
-- A version that some profile serves already (the file was changed and changed back) is ready at once.
-- What fails is left to the next statement, if there is a version to keep. What was forgotten, perhaps a moment ago,
-- comes back only as another version.
INSERT INTO rag.knowledge_sources AS s (
    id, knowledge_space_id, tenant_id, bot_id, root_id, file_hash, source_type, external_id, name,
    canonical_url, checksum, status, progress_percent, error_message, failed_stage, locale, content_type, metadata,
    media)
SELECT id, %(space)s, %(tenant)s, %(bot)s, %(root)s, file_hash, source_type, external_id, name,
       canonical_url, checksum, status, CASE status WHEN 'processing' THEN 30 ELSE 0 END, error_message,
       CASE status WHEN 'failed' THEN 'read' END,
       locale, content_type, metadata::jsonb, media::jsonb
FROM staged_sources
ON CONFLICT (id) DO UPDATE SET
    root_id = excluded.root_id, file_hash = excluded.file_hash, source_type = excluded.source_type,
    name = excluded.name, canonical_url = excluded.canonical_url, checksum = excluded.checksum,
    (status, progress_percent) = (
        SELECT CASE WHEN served THEN 'ready' ELSE excluded.status END,
               CASE WHEN served THEN 100 ELSE excluded.progress_percent END
        FROM (SELECT excluded.status = 'processing' AND EXISTS (
                  SELECT FROM rag.source_profiles sp
                  WHERE sp.source_id = s.id AND sp.status = 'ready' AND sp.checksum = excluded.checksum) AS served)),
    error_message = excluded.error_message, failed_stage = excluded.failed_stage, locale = excluded.locale,
    content_type = excluded.content_type, metadata = excluded.metadata, media = excluded.media, updated_at = now(),
    missing_since = NULL, forgotten = NULL, held_since = NULL
WHERE (excluded.status <> 'failed' OR s.status = 'deleted')
  AND (s.status <> 'forgotten' OR s.id IN (SELECT t.id FROM staged_sources t WHERE t.revives))

-- fail_sources --
-- The version that is still served keeps all that describes it.
UPDATE rag.knowledge_sources s
SET status = 'failed', progress_percent = 0, error_message = f.error_message, failed_stage = 'read', updated_at = now(),
    checksum = CASE WHEN rag.has_version(s.id) THEN s.checksum ELSE f.checksum END, missing_since = NULL
FROM staged_sources f WHERE f.id = s.id AND f.status = 'failed' AND s.status <> 'forgotten'

-- relabel_sources --
-- Versions that are stored, as they are called and stand now. That is no other version.
UPDATE rag.knowledge_sources s SET name = m.name, metadata = m.metadata::jsonb, missing_since = NULL, held_since = NULL
FROM unnest(%(sources)s::uuid[], %(names)s::text[], %(metadata)s::text[]) AS m (id, name, metadata)
WHERE m.id = s.id AND (s.name <> m.name OR s.metadata <> m.metadata::jsonb OR s.missing_since IS NOT NULL
                       OR s.held_since IS NOT NULL)

-- hide_sources --
-- Since when they are not seen in their file, while a part of it cannot be read.
UPDATE rag.knowledge_sources SET missing_since = now() WHERE id = ANY(%(sources)s) AND missing_since IS NULL

-- upsert_documents --
-- The text of a version; a version never changes its text. Sources are looked up by their ids, whatever the planner holds
-- true: it takes those of a new tenant for one, and compared each with all that are staged.
INSERT INTO rag.source_documents (source_id, checksum, tenant_id, bot_id, title, text, blocks)
SELECT t.id, t.checksum, %(tenant)s, %(bot)s, t.title, t.text, t.blocks::jsonb
FROM staged_sources t
WHERE t.text IS NOT NULL AND (SELECT s.status FROM rag.knowledge_sources s WHERE s.id = t.id) <> 'forgotten'
ON CONFLICT DO NOTHING

-- put_page_signature --
-- What a page is compared by, for the version that was read last.
INSERT INTO rag.page_signatures (source_id, knowledge_space_id, tenant_id, bot_id, checksum, minhash, blocks)
SELECT s.id, s.knowledge_space_id, s.tenant_id, s.bot_id, %(checksum)s, %(minhash)s, %(blocks)s
FROM rag.knowledge_sources s WHERE s.id = %(source)s AND s.status <> 'forgotten'
ON CONFLICT (source_id) DO UPDATE SET
    checksum = excluded.checksum, minhash = excluded.minhash, blocks = excluded.blocks

-- page_signatures --
-- The pages that are or will be served to all users of the bot, oldest first: of pages that say the same, the first
-- is kept. One that the profile could not publish speaks for no other.
SELECT s.id, s.checksum, g.minhash, g.blocks
FROM rag.page_signatures g
JOIN rag.knowledge_sources s ON s.id = g.source_id AND s.checksum = g.checksum
LEFT JOIN rag.source_profiles sp ON sp.source_id = s.id AND sp.embedding_profile_id = %(profile)s
WHERE g.knowledge_space_id = %(space)s AND s.status IN ('queued', 'processing', 'ready') AND s.scope_type = 'bot'
  AND (sp.status IS DISTINCT FROM 'failed' OR sp.checksum <> s.checksum)
ORDER BY s.created_at, length(s.external_id), s.external_id

-- page_texts --
-- The texts of pages that look alike, as they are now.
SELECT d.source_id, d.text
FROM rag.source_documents d JOIN rag.knowledge_sources s ON s.id = d.source_id AND s.checksum = d.checksum
WHERE d.source_id = ANY(%(sources)s)

-- served_versions --
-- Of these sources, the versions that the profile serves with chunks.
SELECT source_id, checksum FROM rag.source_profiles
WHERE embedding_profile_id = %(profile)s AND source_id = ANY(%(sources)s) AND status = 'ready' AND chunk_count > 0

-- remember_file --
-- What a file was when it was read.
INSERT INTO rag.source_files AS f (
    knowledge_space_id, tenant_id, bot_id, root_id, file_hash, uri, size, mtime_ns, checksum, parser_version,
    etag, last_modified, read_at, ctime_ns, inode)
VALUES (%(space)s, %(tenant)s, %(bot)s, %(root)s, %(file_hash)s, %(uri)s, %(size)s, %(mtime_ns)s,
        %(checksum)s, %(parser_version)s, %(etag)s, %(last_modified)s, now(),
        %(ctime_ns)s, %(inode)s)
ON CONFLICT (root_id, file_hash) DO UPDATE SET
    size = excluded.size, mtime_ns = excluded.mtime_ns, checksum = excluded.checksum,
    parser_version = excluded.parser_version, etag = excluded.etag, last_modified = excluded.last_modified,
    read_at = excluded.read_at, held_since = NULL, ctime_ns = excluded.ctime_ns, inode = excluded.inode

-- delete_sources --
-- The rows stay until every profile has taken its chunks away.
UPDATE rag.knowledge_sources
SET status = 'deleted', progress_percent = 100, error_message = NULL, held_since = NULL, updated_at = now()
WHERE knowledge_space_id = %(space)s AND id = ANY(%(sources)s) AND status NOT IN ('deleted', 'forgotten')

-- confirm_forgotten --
-- Forgotten sources that stand in a file as they were; the file itself may be another one.
UPDATE rag.knowledge_sources s SET forgotten = s.forgotten || jsonb_build_object('file', m.file)
FROM unnest(%(sources)s::uuid[], %(files)s::text[]) AS m (id, file)
WHERE m.id = s.id AND s.status = 'forgotten' AND m.file <> ''

-- profiles_of_space --
-- Retired ones included: their partitions hold rows until they are dropped.
SELECT id, name FROM rag.embedding_profiles WHERE knowledge_space_id = %(space)s ORDER BY id

-- stored_versions --
-- All texts of some sources, and the files of those that have none.
SELECT s.id, coalesce(d.checksum, s.checksum) AS checksum, coalesce(d.title, '') AS title, coalesce(d.text, '') AS text,
       coalesce(d.blocks, '[]') AS blocks, s.content_type, s.locale, s.name, s.external_id, s.media
FROM rag.knowledge_sources s LEFT JOIN rag.source_documents d ON d.source_id = s.id
WHERE s.id = ANY(%(sources)s)

-- shared_contents --
-- What other sources of the tenant say in the same words.
SELECT DISTINCT content FROM rag.knowledge_chunks
WHERE tenant_id = %(tenant)s AND content = ANY(%(contents)s) AND source_id <> ALL(%(sources)s)

-- shared_media --
-- Files that other sources of the tenant are.
SELECT DISTINCT media ->> 'checksum' FROM rag.knowledge_sources
WHERE tenant_id = %(tenant)s AND media IS NOT NULL AND status NOT IN ('deleted', 'forgotten') AND id <> ALL(%(sources)s)

-- mark_forgotten --
-- What is left of a source: its name and place, and by what it is known if it comes again.
UPDATE rag.knowledge_sources s SET
    status = 'forgotten', progress_percent = 0, error_message = NULL, failed_stage = NULL, updated_at = now(),
    missing_since = NULL, media = NULL,
    metadata = jsonb_strip_nulls(jsonb_build_object(
        'doc_id', s.metadata -> 'doc_id', 'rag:origin', s.metadata -> 'rag:origin')),
    forgotten = jsonb_build_object(
        'at', now(),
        'file', (SELECT f.checksum FROM rag.source_files f
                 WHERE f.knowledge_space_id = s.knowledge_space_id AND f.file_hash = s.file_hash LIMIT 1),
        'text', (SELECT encode(sha256(convert_to(d.title || E'\n' || d.text, 'UTF8')), 'hex')
                 FROM rag.source_documents d WHERE d.source_id = s.id AND d.checksum = s.checksum))
WHERE s.knowledge_space_id = %(space)s AND s.id = ANY(%(sources)s) AND s.status NOT IN ('deleted', 'forgotten')
RETURNING s.name

-- withdraw_everywhere --
-- No profile serves these sources or waits for them, and no page is compared with them.
WITH served AS (DELETE FROM rag.source_profiles WHERE source_id = ANY(%(sources)s)),
     waiting AS (DELETE FROM rag.embedding_job_sources WHERE source_id = ANY(%(sources)s))
DELETE FROM rag.page_signatures WHERE source_id = ANY(%(sources)s)

-- drop_all_documents --
-- The texts of all versions of some sources.
DELETE FROM rag.source_documents WHERE source_id = ANY(%(sources)s)

-- forget_vectors --
-- Of texts that no source has any more; also what a batch job keeps of them to compare its results with.
WITH samples AS (
    UPDATE rag.embedding_job_items SET sample = NULL
    WHERE tenant_id = %(tenant)s AND content_hash = ANY(%(hashes)s) AND sample IS NOT NULL
), refusals AS (
    DELETE FROM rag.refused_texts WHERE tenant_id = %(tenant)s AND content_hash = ANY(%(hashes)s)
)
DELETE FROM rag.embedding_cache WHERE tenant_id = %(tenant)s AND role = 'document' AND content_hash = ANY(%(hashes)s)

-- allow_sources --
-- Forgotten sources are as if they had never been there, and their files as if they had never been read.
WITH allowed AS (
    UPDATE rag.knowledge_sources SET status = 'deleted', progress_percent = 100, forgotten = NULL, updated_at = now()
    WHERE knowledge_space_id = %(space)s AND id = ANY(%(sources)s) AND status = 'forgotten'
    RETURNING name, file_hash
), files AS (
    DELETE FROM rag.source_files
    WHERE knowledge_space_id = %(space)s AND file_hash IN (SELECT file_hash FROM allowed)
)
SELECT name FROM allowed

-- sources_overview --
-- One row a source, with its state in each profile. What waits because a profile's run could not embed says so.
SELECT s.id AS source_id, s.name, s.source_type, s.external_id, s.status, s.progress_percent,
       CASE s.status WHEN 'processing' THEN coalesce(s.error_message, (
           SELECT format('profile %%s: %%s', b.name, b.last_error)
           FROM rag.profile_work w JOIN rag.embedding_profiles b ON b.id = w.embedding_profile_id
           WHERE w.source_id = s.id AND w.work IN ('missing', 'due') AND b.status <> 'retired'
             AND b.last_error IS NOT NULL
           ORDER BY b.last_error_at DESC LIMIT 1)) ELSE s.error_message END AS error,
       s.content_type, s.locale, s.updated_at, p.file, p.place, r.uri AS root, s.missing_since,
       CASE WHEN k.visibility_scope = 'tenant' AND s.scope_type = 'bot' THEN 'tenant' ELSE s.scope_type END AS visibility,
       s.scope_user_id AS "user",
       coalesce(jsonb_object_agg(e.name, jsonb_build_object(
           'status', sp.status, 'chunks', sp.chunk_count, 'up_to_date', sp.checksum = s.checksum,
           'error', sp.error_message, 'duplicate_of', sp.duplicate_of)) FILTER (WHERE e.id IS NOT NULL), '{}') AS profiles,
       count(*) OVER () AS matching
FROM rag.knowledge_sources s
JOIN rag.knowledge_spaces k ON k.id = s.knowledge_space_id
CROSS JOIN rag.place_of(s) p
LEFT JOIN rag.source_roots r ON r.id = s.root_id
LEFT JOIN (rag.source_profiles sp JOIN rag.embedding_profiles e
           ON e.id = sp.embedding_profile_id AND e.status <> 'retired') ON sp.source_id = s.id
WHERE s.tenant_id = %(tenant)s AND s.bot_id = %(bot)s AND s.status <> 'deleted'
  AND (%(status)s::text IS NULL OR s.status = %(status)s)
  AND (%(like)s::text IS NULL OR strpos(lower(concat_ws(' ', s.name, s.external_id, p.file, p.place)), lower(%(like)s)) > 0)
  AND (%(ids)s::uuid[] IS NULL OR s.id = ANY(%(ids)s))
GROUP BY s.id, p.file, p.place, r.uri, k.visibility_scope ORDER BY s.external_id LIMIT %(limit)s

-- sources_by_file --
-- One row a file, with how many sources it holds in which state.
SELECT root, file, sum(sources)::bigint AS sources, jsonb_object_agg(status, sources) AS statuses
FROM (
    SELECT r.uri AS root, p.file, s.status, count(*) AS sources
    FROM rag.knowledge_sources s
    CROSS JOIN rag.place_of(s) p
    LEFT JOIN rag.source_roots r ON r.id = s.root_id
    WHERE s.tenant_id = %(tenant)s AND s.bot_id = %(bot)s AND s.status <> 'deleted'
      AND (%(status)s::text IS NULL OR s.status = %(status)s)
      AND (%(like)s::text IS NULL
           OR strpos(lower(concat_ws(' ', s.name, s.external_id, p.file, p.place)), lower(%(like)s)) > 0)
      AND (%(ids)s::uuid[] IS NULL OR s.id = ANY(%(ids)s))
    GROUP BY r.uri, p.file, s.status
) by_status
GROUP BY root, file ORDER BY root, file LIMIT %(limit)s

-- matching_sources --
-- All whose id, name or place holds what somebody said, in any case of letters, or that are what a path names.
SELECT s.id, s.name, s.external_id, p.file, p.place, s.status
FROM rag.knowledge_sources s CROSS JOIN rag.place_of(s) p
WHERE s.tenant_id = %(tenant)s AND s.bot_id = %(bot)s AND s.status <> 'deleted'
  AND (s.id::text = %(name)s OR split_part(s.external_id, '#', 1) = %(uri)s OR s.external_id = %(uri)s
       OR strpos(lower(s.external_id), lower(%(name)s)) > 0
       OR strpos(lower(concat(s.name, ' ', p.file, '#', p.place)), lower(%(name)s)) > 0
       OR EXISTS (SELECT FROM rag.knowledge_sources o
                  WHERE o.knowledge_space_id = s.knowledge_space_id AND o.file_hash = s.file_hash
                    AND (o.name = %(name)s OR o.id::text = %(name)s)
                    AND starts_with(s.external_id, o.external_id || '#')))
ORDER BY s.external_id

-- count_failed_served --
-- Sources that failed now, and of which a profile serves what it published before.
SELECT count(*) FROM rag.knowledge_sources s
WHERE s.tenant_id = %(tenant)s AND s.bot_id = %(bot)s AND s.status = 'failed'
  AND EXISTS (SELECT FROM rag.source_profiles sp JOIN rag.embedding_profiles p ON p.id = sp.embedding_profile_id
              WHERE sp.source_id = s.id AND sp.status = 'ready' AND p.name = %(profile)s)

-- source_names --
-- What somebody may have meant: the names of sources, and of their files.
SELECT DISTINCT n.name FROM rag.knowledge_sources s
CROSS JOIN rag.place_of(s) p CROSS JOIN LATERAL (VALUES (s.name), (p.file)) AS n (name)
WHERE s.tenant_id = %(tenant)s AND s.bot_id = %(bot)s AND s.status <> 'deleted' LIMIT 20000

-- source_life --
-- A source with its file, its root, and the document that was made of it.
SELECT s.id AS source_id, s.tenant_id AS tenant, s.bot_id AS bot, s.name, p.file, p.place, s.external_id,
       s.source_type, s.status, s.error_message AS error, s.failed_stage, s.checksum, s.created_at, s.updated_at, s.missing_since, s.forgotten ->> 'at' AS forgotten_at,
       s.content_type, s.locale, s.metadata, r.uri AS root, r.scanned_at AS root_scanned_at, r.last_error AS root_error,
       r.next_scan_at, coalesce(s.held_since, f.held_since) AS held_since, f.read_at, f.size AS bytes, f.parser_version, d.title, length(d.text) AS characters,
       CASE WHEN k.visibility_scope = 'tenant' AND s.scope_type = 'bot' THEN 'tenant' ELSE s.scope_type END AS visibility,
       s.scope_user_id AS "user",
       (SELECT count(*) FROM rag.source_documents v WHERE v.source_id = s.id) AS versions
FROM rag.knowledge_sources s
JOIN rag.knowledge_spaces k ON k.id = s.knowledge_space_id
CROSS JOIN rag.place_of(s) p
LEFT JOIN rag.source_roots r ON r.id = s.root_id
LEFT JOIN rag.source_files f ON f.root_id = s.root_id AND f.file_hash = s.file_hash
LEFT JOIN rag.source_documents d ON d.source_id = s.id AND d.checksum = s.checksum
WHERE s.id = %(source)s

-- source_life_in_profiles --
-- What each profile has done about a source, and has still to do. Chunks have their vectors before they are published.
SELECT p.name AS profile, p.status AS profile_status, w.work, sp.status, sp.chunk_count AS chunks,
       sp.checksum = w.checksum AS up_to_date, sp.updated_at, sp.error_message AS error, sp.next_try_at, sp.duplicate_of,
       j.job AS waits_for
FROM rag.profile_work w
JOIN rag.embedding_profiles p ON p.id = w.embedding_profile_id AND p.status <> 'retired'
LEFT JOIN rag.source_profiles sp ON sp.embedding_profile_id = p.id AND sp.source_id = w.source_id
LEFT JOIN LATERAL (
    SELECT e.job_id AS job FROM rag.embedding_job_sources e JOIN rag.embedding_jobs b ON b.id = e.job_id
    WHERE e.embedding_profile_id = p.id AND e.source_id = w.source_id AND e.checksum = w.checksum
      AND b.state IN ('submitting', 'running') LIMIT 1) j ON true
WHERE w.source_id = %(source)s
ORDER BY p.created_at, p.id

-- sources_by_bot --
-- Roots, and sources by status, of each bot of a tenant.
SELECT b.id AS bot, r.roots, r.unreadable_roots, count(s.id) AS sources,
       count(*) FILTER (WHERE s.status = 'ready') AS ready,
       count(*) FILTER (WHERE s.status IN ('queued', 'processing')) AS processing,
       count(*) FILTER (WHERE s.status = 'no_text') AS no_text, count(*) FILTER (WHERE s.status = 'failed') AS failed,
       count(*) FILTER (WHERE s.status = 'forgotten') AS forgotten,
       count(*) FILTER (WHERE s.scope_type = 'user') AS private
FROM rag.bots b
CROSS JOIN LATERAL (
    SELECT count(*) AS roots, count(*) FILTER (WHERE last_error IS NOT NULL) AS unreadable_roots
    FROM rag.source_roots WHERE tenant_id = b.tenant_id AND bot_id = b.id) r
LEFT JOIN rag.knowledge_sources s ON s.tenant_id = b.tenant_id AND s.bot_id = b.id AND s.status <> 'deleted'
WHERE b.tenant_id = %(tenant)s
GROUP BY b.id, r.roots, r.unreadable_roots ORDER BY b.id

-- profile_by_bot --
-- What a profile serves, and what it has still to do, for each bot of a tenant.
SELECT p.bot_id AS bot, p.status, s.serving_sources, s.serving_chunks, w.pending_sources, w.failed_sources
FROM rag.embedding_profiles p
CROSS JOIN LATERAL (
    SELECT count(*) AS serving_sources, coalesce(sum(chunk_count), 0)::bigint AS serving_chunks
    FROM rag.source_profiles WHERE embedding_profile_id = p.id AND status = 'ready') s
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE work IN ('missing', 'due')) AS pending_sources,
           count(*) FILTER (WHERE work = 'failed') AS failed_sources
    FROM rag.profile_work WHERE embedding_profile_id = p.id) w
WHERE p.tenant_id = %(tenant)s AND p.name = %(profile)s AND p.status <> 'retired'
ORDER BY p.bot_id

-- indexes_by_bot --
-- The indexes of a profile and what they hold, for each bot of a tenant. Recall is null where it was not measured.
SELECT p.bot_id AS bot, s.chunks, (SELECT count(*) FROM rag.lexeme_stats l WHERE l.embedding_profile_id = p.id) AS lexemes,
       coalesce(i.average_length, 0) AS average_length, z.gin_bytes, z.hnsw_bytes,
       CASE WHEN z.hnsw_bytes > 0 THEN 'hnsw' ELSE 'exact' END AS searched, coalesce(i.ef_search, 0) AS ef_search,
       rag.storage_of(p) AS storage, coalesce(i.oversampling, 1) AS oversampling,
       CASE WHEN z.hnsw_bytes > 0 THEN i.recall_at_10 ELSE 1.0 END AS recall,
       coalesce(w.dense_weight, f.dense_weight) AS dense_weight,
       CASE WHEN w.dense_weight IS NOT NULL THEN 'tuned' WHEN f.dense_weight IS NOT NULL THEN 'found' ELSE 'default' END
       AS weight_is
FROM rag.embedding_profiles p
LEFT JOIN rag.index_state i ON i.embedding_profile_id = p.id
LEFT JOIN rag.tuned_weights w ON w.embedding_profile_id = p.id
LEFT JOIN rag.found_weights f ON f.embedding_profile_id = p.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(chunk_count), 0)::bigint AS chunks
    FROM rag.source_profiles WHERE embedding_profile_id = p.id AND status = 'ready') s
CROSS JOIN LATERAL (
    SELECT coalesce(pg_relation_size(to_regclass('rag.knowledge_chunks_p' || p.id || '_fts')), 0) AS gin_bytes,
           coalesce(pg_relation_size(to_regclass('rag.knowledge_chunks_p' || p.id || '_hnsw')), 0) AS hnsw_bytes) z
WHERE p.tenant_id = %(tenant)s AND p.name = %(profile)s AND p.status <> 'retired'
ORDER BY p.bot_id

-- failed_sources --
-- Roots that cannot be read, and sources that cannot be read or published, of a tenant or one bot.
SELECT bot, name, error FROM (
    SELECT 0 AS place, bot_id AS bot, uri AS name, last_error AS error FROM rag.source_roots
    WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s) AND last_error IS NOT NULL
    UNION ALL
    SELECT 1, bot_id, name, coalesce(error_message, 'unknown error') FROM rag.knowledge_sources
    WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s) AND status = 'failed'
) failures
ORDER BY place, bot, name LIMIT %(limit)s

-- sources_in_doubt --
-- Sources of a tenant or one bot of which quality says that something was lost or guessed: some of these figures.
SELECT s.id, s.bot_id AS bot, s.name, s.metadata -> 'quality' AS quality
FROM rag.knowledge_sources s
WHERE s.tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR s.bot_id = %(bot)s)
  AND s.status IN ('queued', 'processing', 'ready') AND s.metadata -> 'quality' ?| %(figures)s::text[]
  AND EXISTS (SELECT FROM unnest(%(figures)s::text[]) f WHERE s.metadata -> 'quality' ->> f NOT IN ('0', 'false'))
ORDER BY s.bot_id, s.name, s.id

-- source_counts --
-- How many sources are in which state.
SELECT status, count(*) FROM rag.knowledge_sources
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s) GROUP BY status

-- pending_versions --
-- What the profile has not published as it is now, and can be read, whether it was tried or not. What has not been
-- read yet has no document, and neither has what holds no text.
SELECT w.source_id AS id, w.checksum, w.content_type, coalesce(octet_length(d.text), 0) AS text_bytes
FROM rag.profile_work w
LEFT JOIN rag.source_documents d ON d.source_id = w.source_id AND d.checksum = w.checksum
WHERE w.embedding_profile_id = %(profile)s AND w.work IN ('missing', 'due', 'failed')
  AND (d.source_id IS NOT NULL OR w.status = 'no_text')
ORDER BY w.external_id

-- pending_sources --
-- The same with their documents.
SELECT w.source_id AS id, w.checksum, coalesce(d.title, '') AS title, coalesce(d.text, '') AS text,
       coalesce(d.blocks, '[]') AS blocks, w.content_type, w.locale, w.name, w.external_id, w.media
FROM rag.profile_work w
LEFT JOIN rag.source_documents d ON d.source_id = w.source_id AND d.checksum = w.checksum
WHERE w.embedding_profile_id = %(profile)s AND w.work IN ('missing', 'due', 'failed')
  AND (d.source_id IS NOT NULL OR w.status = 'no_text')
ORDER BY w.external_id

-- pending_sources_of --
-- The same, of these sources: by their ids, whatever the plan.
SELECT w.source_id AS id, w.checksum, coalesce(d.title, '') AS title, coalesce(d.text, '') AS text,
       coalesce(d.blocks, '[]') AS blocks, w.content_type, w.locale, w.name, w.external_id, w.media
FROM rag.profile_work w
LEFT JOIN rag.source_documents d ON d.source_id = w.source_id AND d.checksum = w.checksum
WHERE w.embedding_profile_id = %(profile)s AND w.work IN ('missing', 'due', 'failed')
  AND (d.source_id IS NOT NULL OR w.status = 'no_text')
  AND w.source_id = ANY (%(ids)s)
ORDER BY w.external_id

-- publishable_sources --
-- What would be pending for a profile with these options, if the space had it.
SELECT s.id, s.checksum, coalesce(d.title, '') AS title, coalesce(d.text, '') AS text,
       coalesce(d.blocks, '[]') AS blocks, s.content_type, s.locale, s.name, s.external_id,
       CASE WHEN rag.embeds_media(%(options)s) THEN s.media END AS media
FROM rag.knowledge_sources s
LEFT JOIN rag.source_documents d ON d.source_id = s.id AND d.checksum = s.checksum
WHERE s.knowledge_space_id = %(space)s AND rag.is_publishable(s, %(options)s)
  AND (d.source_id IS NOT NULL OR s.status = 'no_text')
ORDER BY s.external_id

-- repeats_of --
-- Pages that the profile has published as repeats of some sources, and for which there is nothing to do as these are.
SELECT w.source_id AS id, w.checksum, d.title, d.text, d.blocks, w.content_type, w.locale, w.name, w.external_id, w.media
FROM rag.profile_work w
JOIN rag.source_profiles sp ON sp.embedding_profile_id = w.embedding_profile_id AND sp.source_id = w.source_id
JOIN rag.source_documents d ON d.source_id = w.source_id AND d.checksum = w.checksum
WHERE w.embedding_profile_id = %(profile)s AND w.work IS NULL AND sp.duplicate_of = ANY(%(sources)s)
ORDER BY w.external_id

-- profile_lag --
-- How far the profile is behind its sources: what to publish and what to take away. The digest names the
-- work, so that two sensor ticks that see the same work ask for one run. What has failed waits for its next try, or a
-- run that has other reasons; what waits for a batch job that goes on is not counted: a run could do nothing for it.
WITH behind AS MATERIALIZED (
    SELECT source_id, CASE work WHEN 'gone' THEN 'gone' ELSE checksum END AS version
    FROM rag.profile_work WHERE embedding_profile_id = %(profile)s AND work IN ('missing', 'due', 'gone')
)
SELECT count(*) AS sources, md5(string_agg(source_id::text || version, ',' ORDER BY source_id, version)) AS digest
FROM behind
WHERE NOT EXISTS (
    SELECT FROM rag.embedding_job_sources w JOIN rag.embedding_jobs j ON j.id = w.job_id
    WHERE w.embedding_profile_id = %(profile)s AND w.source_id = behind.source_id AND w.checksum = version
      AND j.state IN ('submitting', 'running') AND j.ended_at IS NULL AND j.deadline > now())

-- progress --
-- It never falls, and shows only while a source is on its way.
UPDATE rag.knowledge_sources SET progress_percent = %(percent)s
WHERE id = ANY(%(sources)s) AND status = 'processing' AND progress_percent < %(percent)s

-- cache_get --
-- The vectors that the tenant has of these texts.
SELECT content_hash, embedding FROM rag.embedding_cache
WHERE tenant_id = %(tenant)s AND model_key = %(model_key)s AND role = %(role)s AND content_hash = ANY(%(hashes)s)

-- staged_vectors_table --
-- Where vectors lie until the end of the transaction that caches them.
CREATE TEMP TABLE IF NOT EXISTS staged_vectors (content_hash bytea, embedding vector) ON COMMIT DROP

-- copy_staged_vectors --
-- In the order of the columns of the table above.
COPY staged_vectors FROM STDIN (FORMAT binary)

-- cache_put --
-- Of two that embed the same text at a time, the later one stays; both are the model's.
INSERT INTO rag.embedding_cache (tenant_id, bot_id, model_key, role, content_hash, embedding)
SELECT %(tenant)s, %(bot)s, %(model_key)s, %(role)s, content_hash, embedding FROM staged_vectors
ON CONFLICT (tenant_id, model_key, role, content_hash) DO UPDATE SET embedding = excluded.embedding

-- refused_texts --
-- Which of these texts are not to be sent now, and why.
SELECT content_hash, reason FROM rag.refused_texts
WHERE tenant_id = %(tenant)s AND model_key = %(model_key)s AND content_hash = ANY(%(hashes)s)
  AND (next_try_at IS NULL OR next_try_at > now())

-- refused_until --
-- When all of these texts may be sent again; null where one of them never is.
SELECT CASE WHEN count(next_try_at) = cardinality(%(hashes)s::bytea[]) THEN max(next_try_at) END FROM rag.refused_texts
WHERE tenant_id = %(tenant)s AND model_key = %(model_key)s AND content_hash = ANY(%(hashes)s)

-- put_refused_texts --
-- What was no refusal is tried again: after an hour, then four, sixteen, and at last every week.
INSERT INTO rag.refused_texts AS r (tenant_id, bot_id, model_key, content_hash, reason, next_try_at)
SELECT %(tenant)s, %(bot)s, %(model_key)s, hash, reason, CASE WHEN NOT lasting THEN now() + interval '1 hour' END
FROM unnest(%(hashes)s::bytea[], %(reasons)s::text[], %(lasting)s::boolean[]) AS t (hash, reason, lasting)
ON CONFLICT (tenant_id, model_key, content_hash) DO UPDATE SET
    reason = excluded.reason, attempts = r.attempts + 1, refused_at = now(),
    next_try_at = CASE WHEN excluded.next_try_at IS NOT NULL
        THEN now() + least(interval '7 days', interval '1 hour' * 4 ^ least(r.attempts, 10)) END

-- forget_refused_texts --
-- Whatever model refused them.
DELETE FROM rag.refused_texts WHERE tenant_id = %(tenant)s

-- staged_chunks_table --
-- Where chunks lie until the end of the transaction that publishes them.
CREATE TEMP TABLE IF NOT EXISTS staged_chunks (
    id uuid, source_id uuid, chunk_index int, content text, token_count int, citation text, metadata text,
    fts tsvector, lexical sparsevec, embedding vector
) ON COMMIT DROP

-- count_usage --
-- Added to what was counted today.
INSERT INTO rag.embedding_usage AS u (
    tenant_id, bot_id, profile, model_key, role, items, cache_hits, tokens, cost_usd, timed_items, seconds)
VALUES (%(tenant)s, %(bot)s, %(profile)s, %(model_key)s, %(role)s, %(items)s, %(cache_hits)s, %(tokens)s, %(cost_usd)s,
        %(timed_items)s, %(seconds)s)
ON CONFLICT (tenant_id, bot_id, profile, model_key, role, day) DO UPDATE SET
    items = u.items + excluded.items, cache_hits = u.cache_hits + excluded.cache_hits,
    tokens = u.tokens + excluded.tokens, cost_usd = u.cost_usd + excluded.cost_usd,
    timed_items = u.timed_items + excluded.timed_items, seconds = u.seconds + excluded.seconds

-- timed_usage --
-- Of a model, whatever its dimensions, on the last day on which somebody looked.
SELECT sum(timed_items)::bigint AS items, sum(seconds) AS seconds FROM rag.embedding_usage
WHERE tenant_id = %(tenant)s AND starts_with(model_key, %(model)s) AND role = 'document' AND timed_items > 0
GROUP BY day ORDER BY day DESC LIMIT 1

-- lock_embedding_jobs --
-- Held by the session: who submits and collects the jobs of a model for a tenant does so alone.
SELECT pg_advisory_lock(hashtextextended('rag.embedding_jobs ' || %(tenant)s || ' ' || %(model_key)s, 0))

-- lock_batch_route --
-- Who adds a job to a provider's queue does so alone, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('rag.embedding_jobs ' || %(route)s, 0))

-- enqueued_tokens --
-- Of all tenants' open jobs that share the queue.
SELECT rag.enqueued_tokens(%(route)s)

-- tenants_with_open_jobs --
-- All of them, whoever is in scope.
SELECT rag.tenants_with_open_jobs()

-- list_embedding_jobs --
-- `unfinished`: also jobs that have ended and of which something may be left at the provider.
SELECT id, tenant_id AS tenant, bot_id AS bot, profile, model_key, route, display_name, remote_name, remote_state,
       result_file, state, uploads, items, tokens, created_at, submitted_at, ended_at, deadline, error
FROM rag.embedding_jobs
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
  AND (%(model_key)s::text IS NULL OR model_key = %(model_key)s)
  AND (%(id)s::uuid IS NULL OR id = %(id)s)
  AND (NOT %(unfinished)s OR state IN ('submitting', 'running')
       OR remote_name IS NOT NULL OR result_file IS NOT NULL OR uploads > 0)
ORDER BY created_at, display_name

-- add_embedding_job --
-- Written down before anything of it is sent.
INSERT INTO rag.embedding_jobs (
    id, tenant_id, bot_id, profile, model_key, route, display_name, items, tokens, deadline)
VALUES (
    %(id)s, %(tenant)s, %(bot)s, %(profile)s, %(model_key)s, %(route)s, %(display_name)s, %(items)s, %(tokens)s,
    now() + make_interval(hours => %(hours)s))

-- add_embedding_job_items --
-- The texts of a job by their hashes, in the order in which they are sent.
INSERT INTO rag.embedding_job_items (job_id, tenant_id, bot_id, content_hash, position, sample)
SELECT %(id)s, %(tenant)s, %(bot)s, hash, position, sample
FROM unnest(%(hashes)s::bytea[], %(samples)s::text[]) WITH ORDINALITY AS i (hash, sample, position)

-- embedding_job_keys --
-- In the order in which they were sent.
SELECT content_hash FROM rag.embedding_job_items WHERE job_id = %(id)s ORDER BY position

-- embedding_job_samples --
-- The texts that were kept for comparison, in the order in which they were sent.
SELECT content_hash, sample FROM rag.embedding_job_items
WHERE job_id = %(id)s AND sample IS NOT NULL ORDER BY position

-- open_job_of_text --
-- What a job holds or has failed at; a text that waits in one job and failed in another waits.
SELECT DISTINCT ON (i.content_hash) i.content_hash,
       CASE WHEN j.state IN ('submitting', 'running') THEN j.id END AS job
FROM rag.embedding_job_items i JOIN rag.embedding_jobs j ON j.id = i.job_id
WHERE i.tenant_id = %(tenant)s AND j.model_key = %(model_key)s AND i.content_hash = ANY(%(hashes)s)
  AND (j.state IN ('submitting', 'running') OR i.state = 'failed')
ORDER BY i.content_hash, j.state IN ('submitting', 'running') DESC, j.created_at

-- change_embedding_job --
-- What is not given stays as it was.
UPDATE rag.embedding_jobs SET
    remote_name = coalesce(%(remote_name)s, remote_name), remote_state = coalesce(%(remote_state)s, remote_state),
    result_file = coalesce(%(result_file)s, result_file), state = coalesce(%(state)s, state),
    uploads = uploads + %(uploads)s, submitted_at = CASE WHEN %(submitted)s THEN now() ELSE submitted_at END,
    ended_at = CASE WHEN %(ended)s THEN coalesce(ended_at, now()) ELSE ended_at END,
    error = coalesce(%(error)s, error)
WHERE id = %(id)s

-- close_embedding_job --
-- Only one that is open, so that what it cost is counted once.
UPDATE rag.embedding_jobs
SET state = %(state)s, ended_at = coalesce(ended_at, now()), error = %(error)s
WHERE id = %(id)s AND state IN ('submitting', 'running')

-- close_embedding_job_items --
-- Those that are named failed, and all others are done.
UPDATE rag.embedding_job_items i
SET sample = NULL, state = CASE WHEN f.hash IS NULL THEN 'done' ELSE 'failed' END, error = f.error
FROM rag.embedding_job_items m
LEFT JOIN unnest(%(hashes)s::bytea[], %(errors)s::text[]) AS f (hash, error) ON f.hash = m.content_hash
WHERE m.job_id = %(id)s AND i.job_id = m.job_id AND i.content_hash = m.content_hash

-- fail_embedding_job_items --
-- All of a job that is given up.
UPDATE rag.embedding_job_items SET sample = NULL, state = 'failed', error = %(error)s WHERE job_id = %(id)s

-- embedding_job_is_cleared --
-- Nothing of it is left at the provider.
UPDATE rag.embedding_jobs SET remote_name = NULL, result_file = NULL, uploads = 0
WHERE id = %(id)s AND state NOT IN ('submitting', 'running')

-- forget_embedding_job --
-- What points to a job, before the job itself goes.
WITH sources AS (DELETE FROM rag.embedding_job_sources WHERE job_id = %(id)s),
     items AS (DELETE FROM rag.embedding_job_items WHERE job_id = %(id)s)
SELECT

-- delete_embedding_job --
-- Only one that the provider never confirmed.
DELETE FROM rag.embedding_jobs WHERE id = %(id)s AND state = 'submitting'

-- forget_waiting_sources --
-- Before what waits now is noted.
DELETE FROM rag.embedding_job_sources WHERE embedding_profile_id = %(profile)s

-- add_waiting_sources --
-- Which versions of sources cannot be published before which job has ended.
INSERT INTO rag.embedding_job_sources (embedding_profile_id, source_id, checksum, job_id, tenant_id, bot_id)
SELECT %(profile)s, source, checksum, job, %(tenant)s, %(bot)s
FROM unnest(%(sources)s::uuid[], %(checksums)s::text[], %(jobs)s::uuid[]) AS w (source, checksum, job)
ON CONFLICT DO NOTHING

-- copy_staged_chunks --
-- In the order of the columns of their table.
COPY staged_chunks FROM STDIN (FORMAT binary)

-- current_versions --
-- Which of the staged sources are still what was staged; a newer version gets its own publication.
SELECT s.id FROM rag.knowledge_sources s
JOIN rag.embedding_profiles p ON p.id = %(profile)s AND p.knowledge_space_id = s.knowledge_space_id
JOIN unnest(%(sources)s::uuid[], %(checksums)s::text[]) AS staged (id, checksum)
    ON staged.id = s.id AND staged.checksum = s.checksum
WHERE rag.is_publishable(s, p.options)
ORDER BY s.id
FOR UPDATE OF s

-- sample_length --
-- The mean length in words of some texts, as the profile's language counts them.
SELECT avg(rag.lexical_length(rag.text_terms(%(language)s::regconfig, words))) FROM unnest(%(texts)s::text[]) AS words

-- private_sources --
-- Those of the profile's space that only one user may see.
SELECT rag.private_sources(%(profile)s)

-- average_length --
-- The mean length that the profile's BM25 weights assume; null before the first publication.
SELECT average_length FROM rag.index_state WHERE embedding_profile_id = %(profile)s

-- set_average_length --
-- What the weights of all chunks assume from now on.
UPDATE rag.index_state SET average_length = %(length)s, updated_at = now()
WHERE embedding_profile_id = %(profile)s

-- delete_chunks_of_sources --
-- Before their new versions are inserted, in the same transaction.
DELETE FROM rag.knowledge_chunks WHERE embedding_profile_id = {profile} AND source_id = ANY(%(sources)s)

-- insert_staged_chunks --
-- COPY itself does not write to tables with policies.
INSERT INTO rag.knowledge_chunks (
    id, knowledge_space_id, tenant_id, bot_id, source_id, embedding_profile_id, chunk_index, content,
    token_count, citation, metadata, fts, lexical, embedding)
SELECT id, %(space)s, %(tenant)s, %(bot)s, source_id, {profile}, chunk_index, content,
       token_count, citation::jsonb, metadata::jsonb, fts, lexical, embedding
FROM staged_chunks WHERE source_id = ANY(%(sources)s)

-- analysed_texts --
-- The words of texts, as the profile's language counts them, in their order.
SELECT rag.text_terms(%(language)s::regconfig, words) FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS t (words, place)
ORDER BY place

-- publish_sources --
-- Which version of each source the profile serves, and with how many chunks. A next try that is still to come is for
-- the part of it that could not be embedded.
INSERT INTO rag.source_profiles AS sp (
    embedding_profile_id, source_id, tenant_id, bot_id, status, checksum, chunk_count, duplicate_of, duplicate_checksum)
SELECT %(profile)s, p.source_id, %(tenant)s, %(bot)s, 'ready', p.checksum, p.chunks, p.original, p.original_checksum
FROM unnest(%(sources)s::uuid[], %(checksums)s::text[], %(counts)s::int[], %(originals)s::uuid[],
            %(original_checksums)s::text[]) AS p (source_id, checksum, chunks, original, original_checksum)
ON CONFLICT (embedding_profile_id, source_id) DO UPDATE SET
    status = 'ready', checksum = excluded.checksum, chunk_count = excluded.chunk_count,
    duplicate_of = excluded.duplicate_of, duplicate_checksum = excluded.duplicate_checksum,
    error_message = NULL, next_try_at = CASE WHEN sp.next_try_at > now() THEN sp.next_try_at END, updated_at = now()

-- sources_ready --
-- A source is ready as soon as one profile serves it.
UPDATE rag.knowledge_sources
SET status = 'ready', progress_percent = 100, error_message = NULL, failed_stage = NULL, updated_at = now()
WHERE id = ANY(%(sources)s) AND (status IN ('queued', 'processing') OR failed_stage = 'publish')

-- drop_old_documents --
-- Texts of versions that no profile serves any more.
DELETE FROM rag.source_documents d USING rag.knowledge_sources s
WHERE s.id = d.source_id AND s.id = ANY(%(sources)s)
  AND (d.checksum <> s.checksum OR s.status IN ('deleted', 'forgotten', 'no_text'))
  AND NOT EXISTS (SELECT FROM rag.source_profiles sp
                  WHERE sp.source_id = d.source_id AND sp.checksum = d.checksum)

-- drop_leftover_documents --
-- Versions that no profile came to publish: the file was changed back, or deleted, before.
DELETE FROM rag.source_documents d USING rag.knowledge_sources s
WHERE s.id = d.source_id AND s.knowledge_space_id = %(space)s
  AND (d.checksum <> s.checksum OR s.status IN ('deleted', 'forgotten', 'no_text'))
  AND NOT EXISTS (SELECT FROM rag.source_profiles sp
                  WHERE sp.source_id = d.source_id AND sp.checksum = d.checksum)

-- source_failed_in_profile --
-- A version that was published before stays served; only the failure is noted beside it.
INSERT INTO rag.source_profiles AS sp (
    embedding_profile_id, source_id, tenant_id, bot_id, status, checksum, error_message, next_try_at)
VALUES (%(profile)s, %(source)s, %(tenant)s, %(bot)s, 'failed', %(checksum)s, %(error)s, %(next_try_at)s)
ON CONFLICT (embedding_profile_id, source_id) DO UPDATE SET
    error_message = excluded.error_message, next_try_at = excluded.next_try_at, updated_at = now()

-- source_failed --
-- A version that another profile serves has not failed for everyone.
UPDATE rag.knowledge_sources s
SET status = 'failed', error_message = %(error)s, failed_stage = 'publish', updated_at = now()
WHERE s.id = %(source)s AND s.checksum = %(checksum)s AND s.status IN ('queued', 'processing', 'ready')
  AND NOT EXISTS (SELECT FROM rag.source_profiles sp
                  WHERE sp.source_id = s.id AND sp.status = 'ready' AND sp.checksum = s.checksum)

-- source_name --
-- What people know it by.
SELECT name FROM rag.knowledge_sources WHERE id = %(source)s

-- withdrawn_sources --
-- Of a source without text a profile that embeds files serves nothing but the file as it is now: what was served
-- before may be a text that was taken out of it.
SELECT source_id FROM rag.profile_work
WHERE embedding_profile_id = %(profile)s AND status IN ('deleted', 'forgotten', 'no_text')
  AND (work = 'gone' OR published_checksum <> checksum)
ORDER BY source_id

-- withdraw_sources --
-- The profile serves nothing of these sources any more.
DELETE FROM rag.source_profiles
WHERE embedding_profile_id = %(profile)s AND source_id = ANY(%(sources)s)

-- chunk_count --
-- All chunks of the profile.
SELECT count(*) FROM rag.knowledge_chunks WHERE embedding_profile_id = {profile}

-- ready_sources --
-- How many sources the profile serves.
SELECT count(*) FROM rag.source_profiles WHERE embedding_profile_id = %(profile)s AND status = 'ready'

-- chunks_since_statistics --
-- How many shared chunks there are, and how many of them lexemes were not counted in.
SELECT count(*) AS chunks,
       count(*) FILTER (WHERE i.statistics_at IS NULL OR c.created_at >= i.statistics_at) AS uncounted
FROM rag.knowledge_chunks c
JOIN rag.index_state i ON i.embedding_profile_id = c.embedding_profile_id
WHERE c.embedding_profile_id = {profile} AND c.source_id NOT IN (SELECT rag.private_sources({profile}))

-- index_state --
-- What the profile's statistics and indexes were made of.
SELECT average_length, chunks_at_statistics, chunks_at_hnsw, counts_shared_only
FROM rag.index_state WHERE embedding_profile_id = %(profile)s

-- lexeme_count --
-- How many lexemes the profile's statistics know.
SELECT count(*) FROM rag.lexeme_stats WHERE embedding_profile_id = %(profile)s

-- tables_to_analyze --
-- Tables of all tenants of whose rows a tenth has changed, or whose statistics were never made.
SELECT relname::text FROM pg_class
WHERE relnamespace = 'rag'::regnamespace
  AND relname IN ('lexeme_stats', 'knowledge_sources', 'source_profiles', 'source_documents', 'triples')
  AND %(changed)s >= 0.1 * reltuples
ORDER BY relname

-- forget_lexeme_stats --
-- Before they are counted anew.
DELETE FROM rag.lexeme_stats WHERE embedding_profile_id = %(profile)s

-- count_lexemes --
-- In how many shared chunks each lexeme stands: a score that depended on private ones would tell what is in them.
-- ts_stat keeps all that it has read until it ends, so it is given so many pages of the table at a time.
INSERT INTO rag.lexeme_stats (embedding_profile_id, tenant_id, lexeme, chunk_count)
SELECT {profile}, %(tenant)s, word, sum(ndoc)
FROM generate_series(
    0, pg_relation_size('rag.knowledge_chunks_p' || {profile}) / current_setting('block_size')::int, %(pages)s) AS first,
    LATERAL ts_stat(format(
        'SELECT fts FROM rag.knowledge_chunks
         WHERE embedding_profile_id = {profile} AND source_id NOT IN (SELECT rag.private_sources({profile}))
           AND ctid >= ''(%%s,0)'' AND ctid < ''(%%s,0)''', first, first + %(pages)s))
GROUP BY word

-- measured_length --
-- Of what has words: a file that is embedded beside its text has none of its own.
SELECT avg(rag.lexical_length(fts)) FROM rag.knowledge_chunks TABLESAMPLE BERNOULLI (%(percent)s) REPEATABLE (1)
WHERE embedding_profile_id = {profile} AND fts <> '' AND source_id NOT IN (SELECT rag.private_sources({profile}))

-- reweigh_chunks --
-- All chunks, for another mean length.
UPDATE rag.knowledge_chunks SET lexical = rag.bm25_weights(fts, %(length)s)
WHERE embedding_profile_id = {profile}

-- statistics_refreshed --
-- What the statistics were counted over, and what fusion takes for unrelated. What an index finds is measured anew.
UPDATE rag.index_state SET chunks_at_statistics = %(chunks)s, average_length = %(length)s, recall_at_10 = NULL,
    dense_floor = %(dense_floor)s, statistics_at = now(), counts_shared_only = true, updated_at = now()
WHERE embedding_profile_id = %(profile)s

-- hnsw_built --
-- How many chunks the graph was built over; what it finds is to be measured.
UPDATE rag.index_state SET chunks_at_hnsw = %(chunks)s, recall_at_10 = NULL, updated_at = now()
WHERE embedding_profile_id = %(profile)s

-- rebuild_leftovers --
-- What is left of rebuilds of an index that were stopped: copies that no search uses.
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'rag'::regnamespace AND NOT i.indisvalid AND c.relname ~ ('^' || %(index)s || '_cc(new|old)[0-9]*$')

-- hnsw_tuning --
-- What `hnsw_tuned` has kept; no recall where that is to be measured.
SELECT ef_search, oversampling, recall_at_10 AS recall FROM rag.index_state WHERE embedding_profile_id = %(profile)s

-- hnsw_tuned --
-- How far a search looks in the graph, at how many times what it is to find, and what it finds of the true ten nearest.
UPDATE rag.index_state SET ef_search = %(ef_search)s, oversampling = %(oversampling)s, recall_at_10 = %(recall)s, updated_at = now()
WHERE embedding_profile_id = %(profile)s

-- sample_vectors --
-- Of shared chunks with different texts, chosen by their text: the same ones of the same texts, whatever their ids.
SELECT c.embedding FROM (
    SELECT DISTINCT ON (text) id FROM (
        SELECT rag.text_id(content) AS text, id FROM rag.knowledge_chunks
        WHERE embedding_profile_id = {profile} AND source_id NOT IN (SELECT rag.private_sources({profile}))
        ORDER BY text, id LIMIT %(among)s
    ) first
    ORDER BY text, id LIMIT %(limit)s
) chosen
JOIN rag.knowledge_chunks c ON c.embedding_profile_id = {profile} AND c.id = chosen.id

-- copy_vectors --
-- Of all shared chunks.
COPY (SELECT embedding FROM rag.knowledge_chunks
      WHERE embedding_profile_id = {profile} AND source_id NOT IN (SELECT rag.private_sources({profile})))
TO STDOUT (FORMAT binary)

-- exported_sources --
-- What a profile serves of the sources that the scope may see, and in how many chunks.
SELECT sp.source_id, sp.chunk_count AS chunks
FROM rag.source_profiles sp
JOIN rag.knowledge_sources s ON s.id = sp.source_id AND s.knowledge_space_id = %(space)s
WHERE sp.embedding_profile_id = %(profile)s AND sp.status = 'ready' AND sp.chunk_count > 0
ORDER BY sp.source_id

-- exported_chunks --
-- Whole sources as the profile serves them: each chunk with its vector and what is known of its source.
SELECT c.id AS chunk_id, s.id AS source_id, s.name AS source_name, s.external_id AS source_uri,
       s.metadata AS source_metadata, s.canonical_url, c.content, c.token_count, c.citation, c.metadata,
       CASE WHEN s.scope_type = 'user' THEN 'user' ELSE k.visibility_scope END AS space,
       s.source_type, s.locale, s.content_type, s.scope_user_id AS user_id, c.embedding
FROM rag.knowledge_chunks c
JOIN rag.source_profiles sp
    ON sp.embedding_profile_id = c.embedding_profile_id AND sp.source_id = c.source_id AND sp.status = 'ready'
JOIN rag.knowledge_sources s ON s.id = c.source_id AND s.knowledge_space_id = %(space)s
JOIN rag.knowledge_spaces k ON k.id = s.knowledge_space_id
WHERE c.embedding_profile_id = %(profile)s AND c.source_id = ANY (%(sources)s::uuid[])
ORDER BY s.id, c.chunk_index

-- profile_for_search --
-- One row, or two: the active profile and the one that shares its requests.
SELECT k.id AS space_id, k.canary_percent, coalesce(p.id = k.canary_profile_id, false) AS is_canary,
       p.id AS profile_id, p.status, coalesce(w.dense_weight, u.dense_weight) AS dense_weight, to_jsonb(p) AS spec,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('mode', f.mode, 'floor', f.floor, 'dense_weight', f.dense_weight)), '[]')
        FROM rag.floors f WHERE f.embedding_profile_id = p.id) AS floors
FROM rag.knowledge_spaces k
LEFT JOIN rag.embedding_profiles p ON p.knowledge_space_id = k.id AND p.status <> 'retired'
    AND CASE WHEN %(name)s::text IS NOT NULL THEN p.name = %(name)s
             ELSE p.id = k.active_profile_id OR (%(canary)s AND p.id = k.canary_profile_id) END
LEFT JOIN rag.tuned_weights w ON w.embedding_profile_id = p.id
LEFT JOIN rag.found_weights u ON u.embedding_profile_id = p.id
WHERE k.tenant_id = %(tenant)s AND k.bot_id = %(bot)s AND k.name = 'default'

-- shared_profile_for_search --
-- Of what all bots of the tenant share: the profile of that name, or the active one and the one that shares its requests.
SELECT k.id AS space_id, k.canary_percent, coalesce(p.id = k.canary_profile_id, false) AS is_canary,
       p.id AS profile_id, p.status, coalesce(w.dense_weight, u.dense_weight) AS dense_weight, to_jsonb(p) AS spec,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('mode', f.mode, 'floor', f.floor, 'dense_weight', f.dense_weight)), '[]')
        FROM rag.floors f WHERE f.embedding_profile_id = p.id) AS floors
FROM rag.knowledge_spaces k
JOIN rag.embedding_profiles p ON p.knowledge_space_id = k.id AND p.status IN ('ready', 'active')
    AND (p.name = %(name)s OR p.id = k.active_profile_id OR (%(canary)s AND p.id = k.canary_profile_id))
LEFT JOIN rag.tuned_weights w ON w.embedding_profile_id = p.id
LEFT JOIN rag.found_weights u ON u.embedding_profile_id = p.id
WHERE k.tenant_id = %(tenant)s AND k.bot_id <> %(bot)s AND k.visibility_scope = 'tenant'
ORDER BY p.name = %(name)s DESC NULLS LAST, is_canary
LIMIT CASE WHEN %(canary)s THEN 2 ELSE 1 END

-- searched_spec --
-- What the profile of a scope is, to be compared with what the scope carries.
SELECT to_jsonb(p) AS spec FROM rag.embedding_profiles p WHERE p.id = %(profile)s

-- scope_tenant --
-- Whose scope it is; refused where it has to be signed and is not. It reads no row.
SELECT rag.scope_tenant() AS tenant

-- corpus_version --
-- It is another one after each change of what the tenant's searches may find; null where nothing was ever noted.
SELECT string_agg(id::text, ' ' ORDER BY id) AS version FROM rag.corpus_changes WHERE tenant_id = %(tenant)s

-- search --
-- All of it happens in the function, which reads the scope from the transaction.
SELECT * FROM rag.search_space(
    %(mode)s, %(vector)s::vector, %(text)s, %(top_k)s, %(copies)s, %(candidates)s, %(dense_weight)s, %(fusion)s,
    %(filters)s, %(exact)s)

-- words_read_as --
-- What the search before, in the same transaction, looked for beside words that no text has.
SELECT nullif(current_setting('rag.read_as', true), '')::jsonb AS read_as

-- blocks_of_texts --
-- The blocks of texts, and which section each is of: a section is a heading and the blocks below it, up to the next
-- heading. Of a text that is known by its pages alone these are the parts.
WITH documents AS MATERIALIZED (
    SELECT d.source_id, d.checksum AS version, d.blocks, d.blocks @? '$[*] ? (@.kind != "page")' AS has_blocks
    FROM unnest(%(sources)s::uuid[], %(versions)s::text[]) AS t (source_id, version)
    JOIN rag.source_documents d ON d.source_id = t.source_id AND d.checksum = t.version
), blocks AS (
    SELECT d.source_id, d.version, e.place,
           (e.block ->> 'start')::int AS first, (e.block ->> 'end')::int AS last, (e.block ->> 'page')::int AS page,
           e.block ->> 'kind' = 'heading' OR e.block -> 'heading_path' IS DISTINCT FROM lag(e.block -> 'heading_path')
               OVER (PARTITION BY d.source_id, d.version ORDER BY (e.block ->> 'start')::int, e.place) AS turns
    FROM documents d CROSS JOIN LATERAL jsonb_array_elements(d.blocks) WITH ORDINALITY AS e (block, place)
    WHERE e.block ->> 'kind' <> 'page' OR NOT d.has_blocks
), numbered AS (
    SELECT b.*, sum(b.turns::int) OVER (PARTITION BY b.source_id, b.version ORDER BY b.first, b.place) AS section
    FROM blocks b
)
SELECT source_id, version, array_agg(first ORDER BY first, place) AS starts, array_agg(last ORDER BY first, place) AS ends,
       array_agg(page ORDER BY first, place) AS pages, array_agg(page ORDER BY first, place) AS last_pages,
       array_agg(section::int ORDER BY first, place) AS sections
FROM numbered GROUP BY source_id, version

-- chunks_of_texts --
-- Where profiles cut texts; by offsets and not by ids, since a passage may be one of another profile.
WITH chunks AS (
    SELECT c.source_id, c.citation ->> 'version' AS version, c.chunk_index AS place,
           (c.citation ->> 'start')::int AS first, (c.citation ->> 'end')::int AS last,
           (c.citation ->> 'page')::int AS page, (c.citation ->> 'page_end')::int AS last_page
    FROM rag.knowledge_chunks c
    WHERE c.embedding_profile_id = ANY (%(profiles)s::bigint[]) AND c.source_id = ANY (%(sources)s::uuid[])
)
SELECT c.source_id, c.version,
       array_agg(first ORDER BY first, place) AS starts, array_agg(last ORDER BY first, place) AS ends,
       array_agg(page ORDER BY first, place) AS pages, array_agg(last_page ORDER BY first, place) AS last_pages,
       NULL::int[] AS sections
FROM chunks c
JOIN unnest(%(sources)s::uuid[], %(versions)s::text[]) AS t (source_id, version)
    ON t.source_id = c.source_id AND t.version = c.version
GROUP BY c.source_id, c.version

-- texts_of_spans --
-- Numbered as the spans are, from 1; of a source that the scope may not see there is none.
SELECT number, content FROM rag.texts_of_spans(
    %(sources)s::uuid[], %(versions)s::text[], %(firsts)s::int[], %(lasts)s::int[])

-- served_text --
-- A part of the text that a profile serves of a source; the first of the profiles that serves it.
SELECT s.id AS source_id, s.name, s.external_id AS uri, s.canonical_url AS url, s.metadata, d.checksum AS version, d.title,
       char_length(d.text) AS length, substring(d.text FROM %(start)s::int + 1 FOR %(chars)s::int) AS content
FROM rag.source_profiles sp
JOIN rag.knowledge_sources s ON s.id = sp.source_id
JOIN rag.source_documents d ON d.source_id = sp.source_id AND d.checksum = sp.checksum
WHERE sp.source_id = %(source)s AND sp.embedding_profile_id = ANY (%(profiles)s::bigint[]) AND sp.status = 'ready'
ORDER BY array_position(%(profiles)s::bigint[], sp.embedding_profile_id)
LIMIT 1

-- erase_profiles --
-- Retired ones included: their partitions hold rows until they are dropped.
SELECT id FROM rag.embedding_profiles
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s) ORDER BY id

-- tables --
-- Without partitions, whose rows are their parent's. One of knowledge_chunks that is being dropped stands alone; the check
-- of its profile tells it from a table that is only named like one.
SELECT c.relname::text AS name, c.oid = 'rag.knowledge_chunks'::regclass AS by_partitions,
       coalesce(array_agg(a.attname::text) FILTER (
           WHERE t.typcategory NOT IN ('A', 'C', 'R') AND t.oid NOT IN ('json'::regtype, 'jsonb'::regtype)), '{}') AS columns,
       coalesce(array_agg(a.attname::text) FILTER (WHERE t.typcategory = 'S'), '{}') AS text_columns,
       has_table_privilege('rag_ingest', c.oid, 'SELECT')
           AND has_table_privilege('rag_ingest', c.oid, 'DELETE') AS granted
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relnamespace = 'rag'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND NOT (c.relname ~ '^knowledge_chunks_p[0-9]+$' AND EXISTS (
      SELECT FROM pg_constraint k JOIN pg_attribute p ON p.attrelid = k.conrelid AND k.conkey = ARRAY[p.attnum]
      WHERE k.conrelid = c.oid AND k.contype = 'c' AND p.attname = 'embedding_profile_id'))
GROUP BY c.oid ORDER BY c.relname

-- partition_attached --
-- What a partition is attached to, and whether it is pending that it is not.
SELECT p.relname::text AS parent, i.inhdetachpending AS pending
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_class p ON p.oid = i.inhparent
WHERE c.relnamespace = 'rag'::regnamespace AND c.relname = %(name)s

-- partition_parent --
-- The group of some partitions, or what those of them that are in none are attached to; nothing where neither is there.
SELECT CASE c.relname WHEN %(group)s THEN c.relname ELSE p.relname END::text
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_class p ON p.oid = i.inhparent
WHERE c.relnamespace = 'rag'::regnamespace AND c.relname = ANY (%(group)s::text || %(partitions)s::text[])
LIMIT 1

-- foreign_keys --
-- Those that keep a row from staying when what it points at is deleted.
SELECT c.relname::text AS table, t.relname::text AS target,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS n (number, place)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = n.number ORDER BY n.place) AS columns,
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS n (number, place)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = n.number ORDER BY n.place) AS target_columns
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid AND NOT c.relispartition
JOIN pg_class t ON t.oid = k.confrelid AND NOT t.relispartition
WHERE k.connamespace = 'rag'::regnamespace AND t.relnamespace = 'rag'::regnamespace
  AND k.contype = 'f' AND k.confdeltype IN ('a', 'r', 'c')
ORDER BY c.relname, k.conname

-- erase_pointers --
-- From here on nothing of it is served, not to a scope that was opened before either, and the profiles can go.
WITH retired AS (
    UPDATE rag.embedding_profiles SET status = 'retired'
    WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s) AND status <> 'retired'
)
UPDATE rag.knowledge_spaces
SET active_profile_id = NULL, previous_profile_id = NULL, canary_profile_id = NULL, canary_percent = 0
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)

-- add_eval_set --
-- The set imported last is the bot's own; one that was only measured with is kept for its runs and never becomes that.
INSERT INTO rag.eval_sets (knowledge_space_id, tenant_id, bot_id, content_hash, queries, qrels, imported_at)
VALUES (%(space)s, %(tenant)s, %(bot)s, %(content_hash)s, %(queries)s, %(qrels)s,
    CASE WHEN %(imported)s THEN now() END)
ON CONFLICT (knowledge_space_id, content_hash) DO UPDATE
SET imported_at = coalesce(excluded.imported_at, eval_sets.imported_at)
RETURNING id

-- latest_eval_set --
-- The set that the bot is measured by.
SELECT id, content_hash, queries, qrels FROM rag.eval_sets
WHERE knowledge_space_id = %(space)s AND imported_at IS NOT NULL
ORDER BY imported_at DESC, id DESC LIMIT 1

-- profile_snapshot --
-- A hash of every source that the profile serves, in its version.
SELECT rag.profile_snapshot(%(profile)s)

-- label_sources --
-- What labels may name: all sources of the bot, or those with one of these document ids or addresses. No profile can
-- hold a source from which nothing was read, or whose every publication has no chunk and repeats no other page.
SELECT s.id, s.metadata ->> 'doc_id' AS document, s.external_id AS uri, s.checksum,
       coalesce(published.chunks, s.status IN ('queued', 'processing', 'ready')) AS holds_text
FROM rag.knowledge_sources s
LEFT JOIN LATERAL (
    SELECT bool_or(sp.chunk_count > 0 OR sp.duplicate_of IS NOT NULL) AS chunks
    FROM rag.source_profiles sp WHERE sp.source_id = s.id AND sp.status = 'ready'
) published ON true
WHERE s.knowledge_space_id = %(space)s AND s.status NOT IN ('deleted', 'forgotten')
  AND (%(names)s::text[] IS NULL OR s.metadata ->> 'doc_id' = ANY(%(names)s) OR s.external_id = ANY(%(names)s))
ORDER BY s.external_id

-- coverage --
-- Ready sources of the baseline, and those of them that the candidate does not serve in the same version.
SELECT count(*) AS sources,
       coalesce(array_agg(s.name ORDER BY s.name) FILTER (WHERE c.source_id IS NULL), '{}') AS missing
FROM rag.source_profiles b
JOIN rag.knowledge_sources s ON s.id = b.source_id
LEFT JOIN rag.source_profiles c ON c.embedding_profile_id = %(candidate)s AND c.source_id = b.source_id
    AND c.status = 'ready' AND c.checksum = b.checksum
WHERE b.embedding_profile_id = %(baseline)s AND b.status = 'ready'

-- tuned_weight --
-- The weight of meaning in a profile's hybrid search, if it was tuned.
SELECT dense_weight, evidence, actor, created_at FROM rag.tuned_weights WHERE embedding_profile_id = %(profile)s

-- set_tuned_weight --
-- It replaces the one before.
INSERT INTO rag.tuned_weights AS w (embedding_profile_id, tenant_id, bot_id, dense_weight, evidence)
VALUES (%(profile)s, %(tenant)s, %(bot)s, %(dense_weight)s, %(evidence)s)
ON CONFLICT (embedding_profile_id) DO UPDATE
SET dense_weight = excluded.dense_weight, evidence = excluded.evidence, actor = excluded.actor, created_at = now()

-- reset_tuned_weight --
-- From then on the found one holds, or the default.
DELETE FROM rag.tuned_weights WHERE embedding_profile_id = %(profile)s

-- floors --
-- The lowest scores of answers of a profile, by mode.
SELECT mode, floor, dense_weight, evidence, actor, created_at FROM rag.floors
WHERE embedding_profile_id = %(profile)s ORDER BY mode

-- set_floor --
-- It replaces the one before.
INSERT INTO rag.floors AS f (embedding_profile_id, tenant_id, bot_id, mode, floor, dense_weight, evidence)
VALUES (%(profile)s, %(tenant)s, %(bot)s, %(mode)s, %(floor)s, %(dense_weight)s, %(evidence)s)
ON CONFLICT (embedding_profile_id, mode) DO UPDATE
SET floor = excluded.floor, dense_weight = excluded.dense_weight, evidence = excluded.evidence,
    actor = excluded.actor, created_at = now()

-- reset_floors --
-- From then on every score is an answer's.
DELETE FROM rag.floors WHERE embedding_profile_id = %(profile)s

-- found_weight --
-- The weight of meaning that was found without labels, null where there was nothing to find it from.
SELECT dense_weight, evidence, created_at FROM rag.found_weights WHERE embedding_profile_id = %(profile)s

-- statistics_without_weight --
-- A profile's statistics, if no weight was looked for with them.
SELECT i.statistics_at, i.average_length, coalesce(i.dense_floor, 0) AS dense_floor
FROM rag.index_state i
LEFT JOIN rag.found_weights f ON f.embedding_profile_id = i.embedding_profile_id
WHERE i.embedding_profile_id = %(profile)s AND i.statistics_at IS DISTINCT FROM f.statistics_at

-- sample_passages --
-- Shared chunks with words, chosen by their text: the same ones of the same texts, whatever their ids.
SELECT c.source_id, c.content, c.citation, c.embedding, c.lexical
FROM rag.knowledge_chunks c
WHERE c.embedding_profile_id = {profile} AND c.fts <> '' AND c.source_id NOT IN (SELECT rag.private_sources({profile}))
ORDER BY rag.text_id(c.content), c.id LIMIT %(limit)s

-- terms_of_queries --
-- What each term of each query counts, as a search has it; null for one without terms.
SELECT (rag.analyse_query(%(profile)s, %(language)s::regconfig, q.words)).weights
FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS q (words, place)
ORDER BY q.place

-- set_found_weight --
-- It replaces the one before.
INSERT INTO rag.found_weights AS w (embedding_profile_id, tenant_id, bot_id, dense_weight, evidence, statistics_at)
VALUES (%(profile)s, %(tenant)s, %(bot)s, %(dense_weight)s, %(evidence)s, %(statistics_at)s)
ON CONFLICT (embedding_profile_id) DO UPDATE
SET dense_weight = excluded.dense_weight, evidence = excluded.evidence, statistics_at = excluded.statistics_at,
    created_at = now()

-- index_recall --
-- 1 where no index is built, and null where it was not measured.
SELECT CASE WHEN chunks_at_hnsw = 0 THEN 1.0 ELSE recall_at_10 END
FROM rag.index_state WHERE embedding_profile_id = %(profile)s

-- add_eval_run --
-- A measured run with its numbers.
INSERT INTO rag.eval_runs (knowledge_space_id, tenant_id, bot_id, embedding_profile_id, eval_set_id, mode, settings,
    snapshot, run_hash, metrics)
VALUES (%(space)s, %(tenant)s, %(bot)s, %(profile)s, %(eval_set)s, %(mode)s, %(settings)s, %(snapshot)s,
    %(run_hash)s, %(metrics)s)
RETURNING id

-- add_verdict --
-- What the gate said, on which runs and which snapshots.
INSERT INTO rag.gate_verdicts (knowledge_space_id, tenant_id, bot_id, candidate_profile_id, baseline_profile_id,
    candidate_run_id, baseline_run_id, candidate_snapshot, baseline_snapshot, policy, criteria, outcome, asked_alike)
VALUES (%(space)s, %(tenant)s, %(bot)s, %(candidate)s, %(baseline)s, %(candidate_run)s, %(baseline_run)s,
    %(candidate_snapshot)s, %(baseline_snapshot)s, %(policy)s, %(criteria)s, %(outcome)s, %(asked_alike)s)
RETURNING id

-- latest_verdict --
-- The newest verdict on a candidate as a profile, and whether both profiles still serve what was compared.
SELECT id, outcome, criteria, candidate_snapshot = rag.profile_snapshot(candidate_profile_id) AS same_candidate,
       baseline_snapshot = rag.profile_snapshot(baseline_profile_id) AS same_baseline,
       baseline_profile_id AS baseline, created_at
FROM rag.gate_verdicts
WHERE candidate_profile_id = %(candidate)s AND asked_alike
ORDER BY created_at DESC, id DESC LIMIT 1

-- pointers --
-- Where a space points.
SELECT active_profile_id AS active, previous_profile_id AS previous, canary_profile_id AS canary, canary_percent
FROM rag.knowledge_spaces WHERE id = %(space)s

-- promote --
-- The gate of record: the pointer moves only if the newest verdict on the candidate has passed, against the profile
-- that is active now, on the corpus that both serve now. Two promotions at once: the second finds another baseline.
UPDATE rag.knowledge_spaces k
SET previous_profile_id = k.active_profile_id, active_profile_id = %(candidate)s,
    canary_profile_id = NULL, canary_percent = 0
WHERE k.id = %(space)s
  AND k.active_profile_id = %(expected)s
  AND EXISTS (SELECT FROM rag.embedding_profiles p WHERE p.id = %(candidate)s AND p.status = 'ready')
  AND EXISTS (
      SELECT FROM rag.gate_verdicts v
      WHERE v.id = (SELECT id FROM rag.gate_verdicts WHERE candidate_profile_id = %(candidate)s AND asked_alike
                    ORDER BY created_at DESC, id DESC LIMIT 1)
        AND v.outcome = 'passed' AND v.baseline_profile_id = k.active_profile_id
        AND v.candidate_snapshot = rag.profile_snapshot(v.candidate_profile_id)
        AND v.baseline_snapshot = rag.profile_snapshot(v.baseline_profile_id))
RETURNING k.id

-- force_promote --
-- The pointer moves without a verdict, if the active profile is still the one that was looked at.
UPDATE rag.knowledge_spaces k
SET previous_profile_id = k.active_profile_id, active_profile_id = %(candidate)s,
    canary_profile_id = NULL, canary_percent = 0
WHERE k.id = %(space)s AND k.active_profile_id = %(expected)s
  AND EXISTS (SELECT FROM rag.embedding_profiles p WHERE p.id = %(candidate)s AND p.status = 'ready')
RETURNING k.id

-- roll_back --
-- To the profile before, if that is still built; it returns its id.
UPDATE rag.knowledge_spaces k
SET active_profile_id = k.previous_profile_id, previous_profile_id = k.active_profile_id,
    canary_profile_id = NULL, canary_percent = 0
WHERE k.id = %(space)s AND k.active_profile_id = %(expected)s
  AND EXISTS (SELECT FROM rag.embedding_profiles p WHERE p.id = k.previous_profile_id AND p.status = 'ready')
RETURNING k.active_profile_id

-- set_status --
-- A retired profile stays retired.
UPDATE rag.embedding_profiles SET status = %(status)s WHERE id = %(profile)s AND status <> 'retired'

-- set_canary --
-- A share of 0 ends it; a canary has to be built, and another profile than the active one.
UPDATE rag.knowledge_spaces k
SET canary_profile_id = CASE WHEN %(percent)s > 0 THEN %(candidate)s::bigint END, canary_percent = %(percent)s
WHERE k.id = %(space)s
  AND (%(percent)s = 0 OR (k.active_profile_id <> %(candidate)s
       AND EXISTS (SELECT FROM rag.embedding_profiles p WHERE p.id = %(candidate)s AND p.status = 'ready')))
RETURNING k.id

-- list_events --
-- What happened to a bot's profiles, newest first; what concerns all of them has no profile.
SELECT e.created_at AS at, e.event, p.name AS profile, e.actor, e.evidence
FROM rag.profile_events e LEFT JOIN rag.embedding_profiles p ON p.id = e.embedding_profile_id
WHERE e.tenant_id = %(tenant)s AND e.bot_id = %(bot)s
ORDER BY e.created_at DESC, e.id DESC LIMIT %(limit)s

-- pairs_to_evaluate --
-- The active profiles of the tenant's bots that have labelled queries of their own.
SELECT DISTINCT p.name
FROM rag.knowledge_spaces k
JOIN rag.embedding_profiles p ON p.id = k.active_profile_id
WHERE k.tenant_id = %(tenant)s
  AND EXISTS (SELECT FROM rag.eval_sets s WHERE s.knowledge_space_id = k.id AND s.imported_at IS NOT NULL)
ORDER BY p.name

-- previous_eval_run --
-- Recall@5 of the run before this one of the same profile, asked the same way. It is null if no query was judged.
SELECT before.id, coalesce((before.metrics ->> 'recall@5')::float8, 'NaN') AS recall_before,
       coalesce((now.metrics ->> 'recall@5')::float8, 'NaN') AS recall_now
FROM rag.eval_runs now
JOIN rag.eval_runs before ON before.embedding_profile_id = now.embedding_profile_id
    AND before.eval_set_id = now.eval_set_id AND before.mode = now.mode AND before.settings = now.settings
    AND before.id < now.id
WHERE now.id = %(run)s
ORDER BY before.id DESC LIMIT 1

-- lock_space --
-- Whoever moves a pointer of the space, or retires what it might point to, queues up here.
SELECT FROM rag.knowledge_spaces WHERE id = %(space)s FOR UPDATE

-- retire_profile --
-- What the space points to stays; a profile that a rollback would go back to is given up only by `force`.
WITH given_up AS (
    UPDATE rag.knowledge_spaces k SET previous_profile_id = NULL
    WHERE k.id = %(space)s AND k.previous_profile_id = %(profile)s AND %(force)s
)
UPDATE rag.embedding_profiles p SET status = 'retired'
FROM rag.knowledge_spaces k
WHERE p.id = %(profile)s AND p.status <> 'retired' AND k.id = %(space)s
  AND k.active_profile_id IS DISTINCT FROM p.id AND k.canary_profile_id IS DISTINCT FROM p.id
  AND (%(force)s OR k.previous_profile_id IS DISTINCT FROM p.id)
RETURNING p.id

-- retired_profiles --
-- Retired for at least so many days, and not dropped yet.
SELECT p.id, p.knowledge_space_id AS space_id, p.tenant_id AS tenant, p.bot_id AS bot, p.status, to_jsonb(p) AS spec
FROM rag.embedding_profiles p
WHERE p.knowledge_space_id = %(space)s AND p.status = 'retired'
  AND (SELECT max(e.created_at) FROM rag.profile_events e
       WHERE e.embedding_profile_id = p.id AND e.event = 'retired')
      <= now() - make_interval(secs => %(soak_days)s::float8 * 86400)
  AND NOT EXISTS (SELECT FROM rag.profile_events e WHERE e.embedding_profile_id = p.id AND e.event = 'dropped')
ORDER BY p.id

-- published_chunks --
-- What the profile's publications say that it holds.
SELECT coalesce(sum(chunk_count), 0)::bigint FROM rag.source_profiles WHERE embedding_profile_id = %(profile)s

-- forget_source_profiles --
-- Of a profile whose partition is dropped.
DELETE FROM rag.source_profiles WHERE embedding_profile_id = %(profile)s

-- forget_found_weight --
-- Of a profile whose partition is dropped.
DELETE FROM rag.found_weights WHERE embedding_profile_id = %(profile)s

-- forget_index_state --
-- Of a profile whose partition is dropped.
DELETE FROM rag.index_state WHERE embedding_profile_id = %(profile)s

-- set_rate_limit --
-- What is not given stays as it was.
INSERT INTO rag.rate_limits AS l (tenant_id, provider, model, items, tokens, per_seconds)
VALUES (%(of)s, %(provider)s, %(model)s, %(items)s, %(tokens)s, %(per_seconds)s)
ON CONFLICT (tenant_id, provider, model) DO UPDATE
SET items = coalesce(excluded.items, l.items), tokens = coalesce(excluded.tokens, l.tokens),
    per_seconds = excluded.per_seconds

-- clear_rate_limit --
-- One limit: of a tenant or of all, of a model or of all.
DELETE FROM rag.rate_limits
WHERE tenant_id IS NOT DISTINCT FROM %(of)s AND provider = %(provider)s AND model IS NOT DISTINCT FROM %(model)s

-- clear_rate_blocks --
-- The pauses that the provider asked for.
DELETE FROM rag.rate_blocks WHERE provider = %(provider)s AND (%(model)s::text IS NULL OR model = %(model)s)

-- list_rate_limits --
-- Those of all tenants together, and those of the tenant in scope.
SELECT tenant_id AS tenant, provider, model, items, tokens, per_seconds FROM rag.rate_limits
WHERE (%(provider)s::text IS NULL OR provider = %(provider)s)
  AND (%(for_model)s::text IS NULL OR model IS NULL OR model = %(for_model)s)
ORDER BY provider, model NULLS FIRST, tenant_id NULLS FIRST

-- block_rate --
-- A pause that the provider asked for; the longer of two holds.
INSERT INTO rag.rate_blocks AS b (provider, model, account, blocked_until)
VALUES (%(provider)s, %(model)s, %(account)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (provider, model, account) DO UPDATE SET blocked_until = greatest(b.blocked_until, excluded.blocked_until)

-- is_blocked --
-- Whether the provider has asked for a pause that is not over.
SELECT EXISTS (SELECT FROM rag.rate_blocks WHERE provider = %(provider)s AND model = %(model)s
               AND account = %(account)s AND blocked_until > clock_timestamp())

-- take_turn --
-- All of it happens in the function, which lets one request in at a time.
SELECT ticket, wait_s, locked_s FROM rag.take_turn(%(ticket)s, %(provider)s, %(model)s, %(account)s, %(items)s,
    %(tokens)s, %(slack)s, %(nap)s)

-- leave_queue --
-- A place that was not granted yet.
DELETE FROM rag.rate_requests WHERE id = %(ticket)s AND granted_at IS NULL

-- set_profile_settings --
-- A ceiling of null stays as it was unless it is to be lifted; so does a mode that is not given.
INSERT INTO rag.profile_settings AS s (profile, max_cost_usd, mode)
VALUES (%(profile)s, %(max_cost_usd)s, coalesce(%(mode)s, 'sync'))
ON CONFLICT (profile) DO UPDATE
SET max_cost_usd = CASE WHEN %(no_max_cost)s THEN NULL ELSE coalesce(excluded.max_cost_usd, s.max_cost_usd) END,
    mode = coalesce(%(mode)s, s.mode)

-- profile_settings --
-- What was changed about a profile, if anything.
SELECT max_cost_usd::float8 AS max_cost_usd, mode FROM rag.profile_settings WHERE profile = %(profile)s

-- spent --
-- What a profile has cost a tenant, over all runs and bots.
SELECT coalesce(sum(cost_usd), 0)::float8 FROM rag.embedding_usage
WHERE tenant_id = %(tenant)s AND profile = %(profile)s

-- usage --
-- Over all days, by profile and model.
SELECT profile, model_key, role, sum(items)::bigint AS embedded, sum(cache_hits)::bigint AS cache_hits,
       sum(tokens)::bigint AS tokens, sum(cost_usd)::float8 AS cost_usd
FROM rag.embedding_usage
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
GROUP BY profile, model_key, role ORDER BY profile, model_key, role

-- cache_sizes --
-- How many vectors there are of each model, and their size without the index.
SELECT model_key, role, count(*) AS entries, sum(pg_column_size(c.*))::bigint AS bytes FROM rag.embedding_cache c
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
GROUP BY model_key, role ORDER BY model_key, role

-- cache_known --
-- Which of these documents are in the tenant's cache.
SELECT content_hash FROM rag.embedding_cache
WHERE tenant_id = %(tenant)s AND model_key = %(model_key)s AND role = 'document' AND content_hash = ANY(%(hashes)s)

-- list_work_attempts --
-- What of a tenant's work has failed at its last attempt; `profile` is null for its sources.
SELECT tenant_id AS tenant, nullif(profile, '') AS profile, attempts, last_error, last_at, next_try_at, run_id, work
FROM rag.work_attempts w WHERE tenant_id = %(tenant)s ORDER BY w.profile

-- work_failed --
-- One more attempt in a row that failed; when the next may be follows from how many those are.
INSERT INTO rag.work_attempts AS w (tenant_id, profile, attempts, last_error, last_at, next_try_at, run_id, work)
VALUES (%(tenant)s, %(profile)s, 1, %(error)s, %(at)s, %(at)s + make_interval(secs => %(first_pause_s)s),
        %(run_id)s, %(work)s)
ON CONFLICT (tenant_id, profile) DO UPDATE SET
    attempts = w.attempts + 1, last_error = EXCLUDED.last_error, last_at = EXCLUDED.last_at,
    run_id = EXCLUDED.run_id, work = EXCLUDED.work,
    next_try_at = EXCLUDED.last_at + make_interval(
        secs => least(%(longest_pause_s)s, %(first_pause_s)s * power(2, least(w.attempts, 30))))
WHERE w.run_id <> EXCLUDED.run_id AND w.last_at <= EXCLUDED.last_at
RETURNING attempts

-- work_succeeded --
-- An attempt succeeded, or there is nothing to attempt any more; what failed later stays.
DELETE FROM rag.work_attempts WHERE tenant_id = %(tenant)s AND profile = %(profile)s AND last_at <= %(at)s

-- texts_of_sources --
-- The text of these sources as they are now; those that could not be read have none.
SELECT s.id, d.checksum, d.text
FROM rag.knowledge_sources s JOIN rag.source_documents d ON d.source_id = s.id AND d.checksum = s.checksum
WHERE s.id = ANY(%(sources)s) AND s.status NOT IN ('deleted', 'forgotten')
ORDER BY s.external_id

-- place_of_chunk --
-- Where a chunk of a bot lies in its source, if its version is the source's newest.
SELECT c.source_id, s.checksum, (c.citation ->> 'start')::int AS start, (c.citation ->> 'end')::int AS end
FROM rag.knowledge_chunks c JOIN rag.knowledge_sources s ON s.id = c.source_id
WHERE c.id = %(chunk)s AND c.tenant_id = %(tenant)s AND c.bot_id = %(bot)s
  AND c.citation ->> 'version' = s.checksum AND s.status NOT IN ('deleted', 'forgotten')
ORDER BY c.embedding_profile_id LIMIT 1

-- analysis_of_space --
-- How the active profile makes words of names, or the newest where none is active.
SELECT p.lexical ->> 'language' AS language, p.terms
FROM rag.knowledge_spaces k JOIN rag.embedding_profiles p ON p.knowledge_space_id = k.id
WHERE k.id = %(space)s
ORDER BY p.id = k.active_profile_id DESC NULLS LAST, p.status <> 'retired' DESC, p.id DESC LIMIT 1

-- staged_triples_table --
-- Where triples lie until the end of the transaction that writes them; names and their words.
CREATE TEMP TABLE IF NOT EXISTS staged_triples (
    source_id uuid, checksum text, start_at int, end_at int, subject text, predicate text, object text,
    subject_text text, predicate_text text, object_text text, confidence real
) ON COMMIT DROP

-- copy_staged_triples --
-- Beside the table that it fills.
COPY staged_triples FROM STDIN

-- insert_staged_triples --
-- What is known already stays, but for its confidence. A text that was replaced meanwhile takes its triples along.
INSERT INTO rag.triples AS t (
    knowledge_space_id, tenant_id, bot_id, source_id, checksum, embedding_profile_id, start_at, end_at,
    subject, predicate, object, confidence, language, subject_id, object_id,
    subject_words, predicate_words, object_words)
SELECT DISTINCT ON (source_id, checksum, subject_id, object_id, lower(predicate), start_at, end_at)
       %(space)s, %(tenant)s, %(bot)s, source_id, checksum, %(profile)s, start_at, end_at,
       subject, predicate, object, confidence, %(language)s, subject_id, object_id,
       subject_words, predicate_words, object_words
FROM (
    SELECT a.*, rag.entity_id(subject_words, subject) AS subject_id, rag.entity_id(object_words, object) AS object_id
    FROM (
        SELECT t.*, to_tsvector(%(language)s::regconfig, subject_text) AS subject_words,
               to_tsvector(%(language)s::regconfig, predicate_text) AS predicate_words,
               to_tsvector(%(language)s::regconfig, object_text) AS object_words
        FROM staged_triples t JOIN rag.source_documents d ON d.source_id = t.source_id AND d.checksum = t.checksum
        OFFSET 0
    ) a
) analysed
ORDER BY source_id, checksum, subject_id, object_id, lower(predicate), start_at, end_at, confidence DESC
ON CONFLICT (source_id, checksum, embedding_profile_id, subject_id, object_id, rag.text_id(lower(predicate)), start_at,
             end_at)
DO UPDATE SET confidence = excluded.confidence WHERE t.confidence <> excluded.confidence

-- list_triples --
-- The triples of a bot, those of some sources, or those that an entity is in; by source and place.
SELECT t.id, t.subject, t.predicate, t.object, t.confidence, t.source_id, s.name AS source, s.external_id, t.start_at,
       t.end_at, substr(d.text, t.start_at + 1, t.end_at - t.start_at) AS quote, e.name AS profile,
       t.checksum = s.checksum AS up_to_date, t.actor, t.created_at, count(*) OVER () AS matching
FROM rag.triples t
JOIN rag.knowledge_sources s ON s.id = t.source_id
JOIN rag.source_documents d ON d.source_id = t.source_id AND d.checksum = t.checksum
LEFT JOIN rag.embedding_profiles e ON e.id = t.embedding_profile_id
WHERE t.tenant_id = %(tenant)s AND t.bot_id = %(bot)s
  AND (%(sources)s::uuid[] IS NULL OR t.source_id = ANY(%(sources)s))
  AND (%(like)s::text IS NULL
       OR strpos(lower(concat_ws(' ', t.subject, t.predicate, t.object)), lower(%(like)s)) > 0)
  AND (%(entity)s::text IS NULL
       OR EXISTS (
           SELECT FROM unnest(%(entity_texts)s::text[]) AS entity (words)
           WHERE rag.entity_id(to_tsvector(t.language::regconfig, words), %(entity)s) IN (t.subject_id, t.object_id)))
ORDER BY s.external_id, t.start_at, t.id LIMIT %(limit)s

-- entity_names --
-- What the subjects and objects of a bot's triples are called.
SELECT subject FROM rag.triples WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s
UNION
SELECT object FROM rag.triples WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s

-- count_triples --
-- How many a bot has, or has of some sources.
SELECT count(*) FROM rag.triples
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s
  AND (%(sources)s::uuid[] IS NULL OR source_id = ANY(%(sources)s))

-- clear_triples --
-- Of all sources of a bot, or of some.
DELETE FROM rag.triples
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s
  AND (%(sources)s::uuid[] IS NULL OR source_id = ANY(%(sources)s))

-- forget_triples --
-- Those that a profile's model found; the profile is dropped.
DELETE FROM rag.triples WHERE embedding_profile_id = %(profile)s

-- clear_extracted_triples --
-- What a profile's model found in these sources, before what it finds now is written.
DELETE FROM rag.triples WHERE embedding_profile_id = %(profile)s AND source_id = ANY(%(sources)s)

-- graph_search --
-- All of it happens in the function, which reads the scope from the transaction.
SELECT * FROM rag.graph_search(%(text)s, %(max_hops)s, %(beam)s, %(top_k)s, %(filters)s)

-- triple_answers --
-- What a model has answered about these texts.
SELECT content_hash, triples, tokens FROM rag.triple_answers
WHERE tenant_id = %(tenant)s AND model_key = %(model_key)s AND content_hash = ANY(%(hashes)s)

-- put_triple_answer --
-- Asked about twice at once, a text keeps the first answer.
INSERT INTO rag.triple_answers (tenant_id, bot_id, model_key, content_hash, triples, tokens)
VALUES (%(tenant)s, %(bot)s, %(model_key)s, %(hash)s, %(triples)s, %(tokens)s)
ON CONFLICT (tenant_id, model_key, content_hash) DO NOTHING

-- triples_known --
-- About which of these texts the tenant's model has answered.
SELECT content_hash FROM rag.triple_answers
WHERE tenant_id = %(tenant)s AND model_key = %(model_key)s AND content_hash = ANY(%(hashes)s)

-- try_again --
-- Published sources of which a part is to be tried again, each at its time.
UPDATE rag.source_profiles sp SET next_try_at = t.moment
FROM unnest(%(sources)s::uuid[], %(moments)s::timestamptz[]) AS t (source, moment)
WHERE sp.embedding_profile_id = %(profile)s AND sp.source_id = t.source AND sp.status = 'ready'

-- try_again_now --
-- What a bot serves and is to be tried again later, in part.
UPDATE rag.source_profiles SET next_try_at = now()
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s AND status = 'ready' AND next_try_at > now()

-- add_token --
-- Of the token itself only the hash.
INSERT INTO rag.api_tokens (tenant_id, bot_id, user_id, name, hash, may, expires_at)
VALUES (%(tenant)s, %(bot)s, %(user)s, %(name)s, %(hash)s, %(may)s, now() + %(lives)s::interval)
RETURNING id, created_at, expires_at

-- list_tokens --
-- Of a tenant, or of one bot, oldest first, and no secret.
SELECT id, tenant_id AS tenant, bot_id AS bot, user_id AS user, name, may,
       CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'active' END AS state,
       expires_at, revoked_at, created_at, actor
FROM rag.api_tokens
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
ORDER BY created_at, id

-- revoke_token --
-- From now on; one that was revoked before stays as it was.
UPDATE rag.api_tokens SET revoked_at = now() WHERE id = %(id)s AND revoked_at IS NULL RETURNING revoked_at

-- own_token --
-- The tenant's token of this hash.
SELECT id FROM rag.api_tokens WHERE hash = %(hash)s

-- token_of --
-- Whose token has this hash. It happens in the function, before there is a scope.
SELECT * FROM rag.token_of(%(hash)s)

-- visible_sources --
-- What a scope may see of its own space and of what all bots share, by id, from one on; the profiles are those of the
-- scope.
SELECT s.id, s.name, s.source_type, s.content_type, s.locale, s.status, s.external_id, s.canonical_url AS url,
       CASE WHEN s.scope_type = 'user' THEN 'user' WHEN s.bot_id = rag.scope_bot() THEN 'bot' ELSE 'tenant' END AS space,
       s.error_message AS error, s.created_at, s.updated_at,
       sp.status AS published, coalesce(sp.chunk_count, 0) AS chunks, sp.checksum = s.checksum AS up_to_date
FROM rag.knowledge_sources s
LEFT JOIN rag.source_profiles sp ON sp.source_id = s.id AND sp.embedding_profile_id = ANY(%(profiles)s)
WHERE s.status <> 'deleted' AND (%(id)s::uuid IS NULL OR s.id = %(id)s) AND (%(after)s::uuid IS NULL OR s.id > %(after)s)
  AND (%(status)s::text IS NULL OR s.status = %(status)s)
ORDER BY s.id LIMIT %(limit)s

-- change_scope_keys --
-- Against another operator; verification only reads.
LOCK TABLE rag.scope_keys IN SHARE ROW EXCLUSIVE MODE

-- scope_signing --
-- A row while scopes have to be signed.
SELECT since, turned_on_by FROM rag.scope_signing

-- scope_keys --
-- Without what they verify with.
SELECT id, created_at, created_by, retired_at FROM rag.scope_keys ORDER BY created_at DESC, id

-- add_scope_key --
-- Nothing where the id is taken.
INSERT INTO rag.scope_keys (id, inner_block, outer_block, created_by)
VALUES (%(id)s, %(inner_block)s, %(outer_block)s, %(actor)s) ON CONFLICT DO NOTHING

-- is_scope_key --
-- A row where this key itself has the id.
SELECT FROM rag.scope_keys WHERE id = %(id)s AND inner_block = %(inner_block)s AND outer_block = %(outer_block)s

-- retire_scope_key --
-- Nothing where it was retired before.
UPDATE rag.scope_keys SET retired_at = now() WHERE id = %(id)s AND retired_at IS NULL

-- require_signed_scopes --
-- Nothing where they are required already.
INSERT INTO rag.scope_signing (turned_on_by) VALUES (%(actor)s) ON CONFLICT DO NOTHING

-- take_unsigned_scopes --
-- Keys stay, and so does who retired which.
DELETE FROM rag.scope_signing

-- add_queries --
-- Entries of the query log, all of one scope, which the table fills in; one that is there already stays as it is.
WITH added AS (
    INSERT INTO rag.query_log (query_id, asked_at, query, profile, retriever, mode, top_k, filters, rung, degraded,
                               error, top_similarity, results, timings_ms)
    SELECT r.query_id, now() - make_interval(secs => r.age_s), r.query, r.profile, r.retriever, r.mode, r.top_k,
           r.filters, r.rung, r.degraded, r.error, r.top_similarity, r.results, r.timings_ms
    FROM jsonb_to_recordset(%(rows)s) AS r (
        query_id uuid, age_s float8, query text, profile text, retriever text, mode text, top_k int, filters jsonb,
        rung text, degraded boolean, error text, top_similarity float8, results jsonb, timings_ms jsonb)
    ON CONFLICT DO NOTHING
)
SELECT set_config('synchronous_commit', 'off', true)

-- record_answer --
-- Which of its results the answer to a query cites.
SELECT rag.record_answer(%(query)s, %(cited)s) AS recorded

-- record_feedback --
-- Whether a passage that a query found helped whoever asked.
SELECT rag.record_feedback(%(query)s, %(chunk)s, %(helpful)s) AS recorded

-- logged_queries --
-- A page of a tenant's query log, oldest first, from behind the given entry on.
SELECT query_id, bot_id AS bot, user_mark, asked_at, query, profile, retriever, mode, top_k, filters, rung, degraded,
       error, top_similarity, results, timings_ms, citations, feedback
FROM rag.query_log
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
  AND asked_at >= coalesce(%(since)s, '-infinity'::timestamptz)
  AND (%(after_time)s::timestamptz IS NULL OR (asked_at, query_id) > (%(after_time)s, %(after_id)s::uuid))
ORDER BY asked_at, query_id LIMIT %(limit)s

-- newest_queries --
-- The newest entries of a tenant's query log, newest first.
SELECT query_id, bot_id AS bot, user_mark, asked_at, query, profile, retriever, mode, top_k, filters, rung, degraded,
       error, top_similarity, results, timings_ms, citations, feedback
FROM rag.query_log
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
  AND asked_at >= coalesce(%(since)s, '-infinity'::timestamptz)
ORDER BY asked_at DESC, query_id DESC LIMIT %(limit)s

-- purge_queries --
-- Delete entries of the query log that are older than so many days, of all users or of one.
DELETE FROM rag.query_log
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
  AND asked_at < now() - make_interval(days => %(days)s)
  AND (%(user)s::text IS NULL OR user_mark = rag.user_mark(%(tenant)s, %(user)s))

-- push_document --
-- Keep a document under the scope; what came of it.
SELECT rag.push_document(%(key)s, %(name)s, %(content_type)s, %(content)s, %(metadata)s, %(checksum)s, %(file_hash)s,
                         %(actor)s, %(most_documents)s, %(most_bytes)s) AS outcome

-- delete_pushed --
-- Of one that is deleted already, nothing.
UPDATE rag.pushed_documents SET content = NULL, deleted_at = clock_timestamp(), metadata = '{}'
WHERE key = %(key)s AND deleted_at IS NULL
RETURNING key

-- pushed_status --
-- What became of a document, as far as the scope may see it: its sources, and what serves them.
SELECT p.key, p.name, p.content_type, p.bytes, p.checksum, p.metadata, p.user_id AS user, p.pushed_at, p.pushed_by,
       p.deleted_at, p.forgotten_at, p.read_at IS NOT DISTINCT FROM p.pushed_at AS is_read,
       f.sources, f.statuses, f.error, f.source_ids, g.profiles
FROM rag.pushed_documents p
JOIN rag.knowledge_spaces k ON k.tenant_id = p.tenant_id AND k.bot_id = p.bot_id
CROSS JOIN LATERAL (
    SELECT count(*) AS sources, array_agg(DISTINCT s.status) AS statuses,
           (array_agg(s.error_message ORDER BY s.external_id) FILTER (WHERE s.status = 'failed'))[1] AS error,
           (array_agg(s.id ORDER BY s.external_id))[1:20] AS source_ids
    FROM rag.knowledge_sources s
    WHERE s.knowledge_space_id = k.id AND s.file_hash = %(file_hash)s AND s.status <> 'deleted'
) f
CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'profile', e.name, 'is_active', e.id IS NOT DISTINCT FROM k.active_profile_id, 'current', t.current,
        'error', t.error) ORDER BY e.id), '[]') AS profiles
    FROM rag.embedding_profiles e
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE sp.status = 'ready' AND sp.checksum = s.checksum) AS current,
               min(sp.error_message) AS error
        FROM rag.knowledge_sources s
        JOIN rag.source_profiles sp ON sp.source_id = s.id AND sp.embedding_profile_id = e.id
        WHERE s.knowledge_space_id = k.id AND s.file_hash = %(file_hash)s AND s.status <> 'deleted'
    ) t
    WHERE e.knowledge_space_id = k.id AND e.status <> 'retired'
) g
WHERE p.key = %(key)s

-- pushed_files --
-- What lies under the root of pushed documents; of forgotten ones the content is not kept.
SELECT p.id, p.key, p.name, p.content_type, p.bytes, p.metadata, p.pushed_at
FROM rag.pushed_documents p
WHERE p.tenant_id = %(tenant)s AND p.bot_id = %(bot)s AND p.user_id IS NOT DISTINCT FROM %(user)s
  AND p.deleted_at IS NULL
ORDER BY p.key

-- pushed_content --
-- The bytes of a pushed document, if they are kept.
SELECT content FROM rag.pushed_documents WHERE id = %(id)s AND content IS NOT NULL

-- pushed_content_by_key --
-- The same, by whose document it is and its key.
SELECT content FROM rag.pushed_documents
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s AND user_id IS NOT DISTINCT FROM %(user)s AND key = %(key)s
  AND content IS NOT NULL

-- drop_old_pushed --
-- Of deleted documents nobody asks for long what became of them.
DELETE FROM rag.pushed_documents
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s AND deleted_at < now() - interval '30 days'

-- pushed_read --
-- Which versions a scan has read.
UPDATE rag.pushed_documents p SET read_at = t.pushed_at
FROM unnest(%(ids)s::bigint[], %(times)s::timestamptz[]) AS t (id, pushed_at)
WHERE p.id = t.id AND p.read_at IS DISTINCT FROM t.pushed_at

-- wholly_forgotten_pushed --
-- The pushed files of these sources of which no source is left.
SELECT DISTINCT f.uri FROM rag.source_files f
WHERE f.knowledge_space_id = %(space)s AND starts_with(f.uri, 'push://')
  AND f.file_hash IN (SELECT file_hash FROM rag.knowledge_sources WHERE id = ANY(%(sources)s))
  AND NOT EXISTS (SELECT FROM rag.knowledge_sources s
                  WHERE s.knowledge_space_id = f.knowledge_space_id AND s.file_hash = f.file_hash
                    AND s.status NOT IN ('deleted', 'forgotten'))

-- forget_pushed --
-- The bytes go; that it was there stays, so that the same ones are not taken again.
UPDATE rag.pushed_documents SET content = NULL, forgotten_at = now(), metadata = '{}'
WHERE tenant_id = %(tenant)s AND bot_id = %(bot)s AND user_id IS NOT DISTINCT FROM %(user)s AND key = %(key)s
  AND deleted_at IS NULL

-- count_queries --
-- How many entries of the query log are older than so many days, of all users or of one.
SELECT count(*) FROM rag.query_log
WHERE tenant_id = %(tenant)s AND (%(bot)s::text IS NULL OR bot_id = %(bot)s)
  AND asked_at < now() - make_interval(days => %(days)s)
  AND (%(user)s::text IS NULL OR user_mark = rag.user_mark(%(tenant)s, %(user)s))
