-- depends: 0033.triples

-- What finding triples costs is counted beside what embedding costs. A text that had no answer is remembered as one that
-- a model refused is, and asked about again when it is time; those of before are asked about by the next run.
ALTER TABLE rag.embedding_usage DROP CONSTRAINT embedding_usage_role_check;
ALTER TABLE rag.embedding_usage ADD CONSTRAINT embedding_usage_role_check
    CHECK (role IN ('document', 'query', 'triples'));

-- Tenant by tenant, as an ingest would: row-level security is switched off for no table that searches read.
SET LOCAL ROLE rag_ingest;
DO $$
DECLARE
    tenant text;
BEGIN
    FOR tenant IN SELECT id FROM rag.tenants LOOP
        PERFORM set_config('rag.tenant', tenant, true);
        UPDATE rag.source_profiles sp SET next_try_at = now()
        FROM rag.embedding_profiles p
        WHERE p.id = sp.embedding_profile_id AND sp.status = 'ready' AND p.options -> 'graph' ->> 'model' IS NOT NULL
          AND EXISTS (SELECT FROM rag.triple_answers a
                      WHERE a.tenant_id = p.tenant_id AND a.triples IS NULL
                        AND starts_with(a.model_key, concat(p.options -> 'graph' ->> 'provider', ':',
                                                            p.options -> 'graph' ->> 'model', ':')));
        DELETE FROM rag.triple_answers WHERE triples IS NULL;
    END LOOP;
    PERFORM set_config('rag.tenant', '', true);
END $$;
SET LOCAL ROLE rag_owner;

ALTER TABLE rag.triple_answers DROP COLUMN error;
ALTER TABLE rag.triple_answers ALTER COLUMN triples SET NOT NULL;
