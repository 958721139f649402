-- depends: 0021.profile-origin

-- How long models take: of `items`, those whose answers were timed, and the seconds of these.
ALTER TABLE rag.embedding_usage
    ADD COLUMN timed_items bigint NOT NULL DEFAULT 0,
    ADD COLUMN seconds float8 NOT NULL DEFAULT 0;
