-- depends: 0031.visibility
-- transactional: false

-- Every bot of a tenant may read what all of them share, as it may read its own. A policy locks its table, and searches
-- lock these tables in many orders: each policy is a transaction of its own, and may be there already.

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.knowledge_spaces;
    CREATE POLICY app_shared ON rag.knowledge_spaces FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
    );
END $$;

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.embedding_profiles;
    CREATE POLICY app_shared ON rag.embedding_profiles FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
    );
END $$;

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.tuned_weights;
    CREATE POLICY app_shared ON rag.tuned_weights FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
    );
END $$;

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.knowledge_sources;
    CREATE POLICY app_shared ON rag.knowledge_sources FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
        AND (scope_type = 'bot' OR scope_user_id = rag.scope_user())
    );
END $$;

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.source_profiles;
    CREATE POLICY app_shared ON rag.source_profiles FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
        AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
    );
END $$;

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.source_documents;
    CREATE POLICY app_shared ON rag.source_documents FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
        AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
    );
END $$;

DO $$ BEGIN
    DROP POLICY IF EXISTS app_shared ON rag.knowledge_chunks;
    CREATE POLICY app_shared ON rag.knowledge_chunks FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = (SELECT rag.shared_bot())
        AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
    );
END $$;

-- What becomes of a source that is private to another user is none of this one's business.
DO $$ BEGIN
    DROP POLICY IF EXISTS app ON rag.source_profiles;
    CREATE POLICY app ON rag.source_profiles FOR SELECT TO rag_app USING (
        tenant_id = rag.scope_tenant() AND bot_id = rag.scope_bot()
        AND EXISTS (SELECT FROM rag.knowledge_sources s WHERE s.id = source_id)
    );
END $$;
