-- depends: 0022.source-life

-- A file whose content changes while its size and time stay is told by the time of its last change of any kind, and by
-- its number in the file system. Null where that is not known: as good as the same.
ALTER TABLE rag.source_files
    ADD COLUMN ctime_ns bigint,  -- in nanoseconds since the epoch
    ADD COLUMN inode bigint;

-- Each file is read again once in a while. The time for those that were read before that was written down begins now.
ALTER TABLE rag.source_files NO FORCE ROW LEVEL SECURITY;
UPDATE rag.source_files SET read_at = now() WHERE read_at IS NULL;
ALTER TABLE rag.source_files FORCE ROW LEVEL SECURITY;
