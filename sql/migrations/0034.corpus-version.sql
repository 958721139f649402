-- depends: 0033.triples 0032.shared-spaces 0025.tuned-weights

-- What may change an answer is noted in the transaction that changes it, so that a cached answer can be told from a
-- current one. The version of a tenant's corpus is the set of its latest notes: each change adds one that was never in
-- it before. Notes are added and never counted up: publishers beside each other would wait for a counter.
CREATE TABLE rag.corpus_changes (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),  -- a number could come again after a crash
    tenant_id rag.key NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX corpus_changes_tenant ON rag.corpus_changes (tenant_id, changed_at);

ALTER TABLE rag.corpus_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.corpus_changes FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON rag.corpus_changes TO rag_ingest;
CREATE POLICY ingest ON rag.corpus_changes TO rag_ingest
    USING (tenant_id = rag.scope_tenant()) WITH CHECK (tenant_id = rag.scope_tenant());
-- Of the whole tenant: a bot may be answered from what its other bots share.
GRANT SELECT ON rag.corpus_changes TO rag_app;
CREATE POLICY app ON rag.corpus_changes FOR SELECT TO rag_app USING (tenant_id = rag.scope_tenant());
-- Migrations change what is searched, too.
CREATE POLICY owner ON rag.corpus_changes TO rag_owner USING (true) WITH CHECK (true);
CREATE POLICY owner ON rag.tenants FOR SELECT TO rag_owner USING (true);

-- One note a transaction and tenant, and none for a tenant that is being erased. Arguments are columns that no answer
-- depends on.
CREATE FUNCTION rag.note_corpus_change() RETURNS trigger LANGUAGE plpgsql SET search_path = rag, pg_temp AS $$
DECLARE
    tenant text;
    note uuid;
BEGIN
    IF TG_OP = 'DELETE' THEN tenant := OLD.tenant_id; ELSE tenant := NEW.tenant_id; END IF;
    IF current_setting('rag.noted_change', true) IS NOT DISTINCT FROM tenant
       OR TG_OP = 'UPDATE' AND to_jsonb(NEW) - TG_ARGV = to_jsonb(OLD) - TG_ARGV THEN
        RETURN NULL;
    END IF;
    INSERT INTO rag.corpus_changes (tenant_id) SELECT t.id FROM rag.tenants t WHERE t.id = tenant RETURNING id INTO note;
    -- Old notes go only along with a new one, so a set of them never comes again.
    DELETE FROM rag.corpus_changes WHERE id IN (
        SELECT o.id FROM rag.corpus_changes o WHERE o.tenant_id = tenant AND o.id <> note
        ORDER BY o.changed_at DESC, o.id OFFSET 15 FOR UPDATE SKIP LOCKED);
    PERFORM set_config('rag.noted_change', tenant, true);
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION rag.note_corpus_change FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.note_corpus_change TO rag_ingest;

-- Chunks come and go with their source's row here, and lexemes are counted with the row of their index.
CREATE TRIGGER changes_answers AFTER INSERT OR UPDATE OR DELETE ON rag.source_profiles
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('error_message', 'next_try_at', 'updated_at');
CREATE TRIGGER changes_answers AFTER UPDATE OR DELETE ON rag.knowledge_sources
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change(
        'progress_percent', 'error_message', 'failed_stage', 'held_since', 'missing_since', 'updated_at');
CREATE TRIGGER changes_answers AFTER UPDATE ON rag.source_roots
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('scan', 'scanned_at', 'next_scan_at', 'last_error');
CREATE TRIGGER changes_answers AFTER INSERT OR UPDATE OR DELETE ON rag.triples
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change();
CREATE TRIGGER changes_answers AFTER UPDATE ON rag.index_state
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('updated_at', 'recall_at_10');
CREATE TRIGGER changes_answers AFTER UPDATE ON rag.embedding_profiles
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('last_error', 'last_error_at');
CREATE TRIGGER changes_answers AFTER UPDATE ON rag.knowledge_spaces
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change();
CREATE TRIGGER changes_answers AFTER INSERT OR UPDATE OR DELETE ON rag.tuned_weights
    FOR EACH ROW EXECUTE FUNCTION rag.note_corpus_change('evidence', 'actor', 'created_at');

-- Every tenant has a version to begin with.
ALTER TABLE rag.tenants NO FORCE ROW LEVEL SECURITY;
INSERT INTO rag.corpus_changes (tenant_id) SELECT id FROM rag.tenants;
ALTER TABLE rag.tenants FORCE ROW LEVEL SECURITY;
