-- depends: 0012.profile-work

-- A root is told what of it is read, and remembers what its last scan found, and what of that is held back.
ALTER TABLE rag.source_roots
    ADD COLUMN options jsonb NOT NULL DEFAULT '{}',  -- what is not in it is as by default
    ADD COLUMN next_scan_at timestamptz,  -- null where it is looked at each time
    ADD COLUMN scan jsonb;  -- of the last scan that could list the root: null where there was none

-- What is gone from a root or from its file, and so much of it at once that a fault is more likely than a wish, is kept
-- and served until somebody says that it has gone, or it comes back.
ALTER TABLE rag.source_files ADD COLUMN held_since timestamptz;
ALTER TABLE rag.knowledge_sources ADD COLUMN held_since timestamptz;

CREATE INDEX knowledge_sources_root ON rag.knowledge_sources (root_id);
