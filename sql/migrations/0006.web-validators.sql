-- depends: 0005.evaluation

-- What a web server said about the version of a page that was read: sent back, so that an unchanged page is not sent
-- again.
ALTER TABLE rag.source_files
    ADD COLUMN etag text,
    ADD COLUMN last_modified text;
