-- depends: 0022.source-life

-- Sources that must go and stay away: withdrawn everywhere at once, and not read again as they were.
ALTER TABLE rag.knowledge_sources DROP CONSTRAINT knowledge_sources_status_check;
ALTER TABLE rag.knowledge_sources ADD CONSTRAINT knowledge_sources_status_check
    CHECK (status IN ('queued', 'processing', 'ready', 'no_text', 'failed', 'deleted', 'forgotten'));

-- By what an unchanged version is known: {"at", "file": checksum of the file's bytes, "text": of title and text, if any}.
ALTER TABLE rag.knowledge_sources ADD COLUMN forgotten jsonb;

-- In which file a source stands, by its path under its root, and where in that. It runs under the policies of who asks.
CREATE FUNCTION rag.place_of(source rag.knowledge_sources, OUT file text, OUT place text) LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ROW (
        coalesce((source).metadata #>> '{rag:origin,file}',
                 CASE WHEN strpos((source).external_id, '#') = 0 THEN (source).name
                      ELSE split_part((source).external_id, '#', 1) END),
        (source).metadata #>> '{rag:origin,place}');
GRANT EXECUTE ON FUNCTION rag.place_of TO rag_ingest;

-- What was forgotten, and what may be read again, is of no one profile.
ALTER TABLE rag.profile_events ALTER COLUMN embedding_profile_id DROP NOT NULL;
ALTER TABLE rag.profile_events DROP CONSTRAINT profile_events_event_check;
ALTER TABLE rag.profile_events ADD CONSTRAINT profile_events_event_check CHECK (event IN (
    'created', 'ready', 'activated', 'promoted', 'forced', 'rolled_back', 'canary', 'retired', 'dropped',
    'forgotten', 'allowed'));
