-- depends: 0040.scalar-values

-- A source without a date of its own is chosen by when it was changed here (`since`, `until`): answers depend on that.
CREATE OR REPLACE TRIGGER changes_answers AFTER UPDATE OR DELETE ON rag.knowledge_sources
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change(
        'progress_percent', 'error_message', 'failed_stage', 'held_since', 'missing_since');
