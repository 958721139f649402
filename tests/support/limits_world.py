"""Two tenants and a profile that costs money, for tests of limits and ceilings."""

from __future__ import annotations

import pytest

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate
from rag_assets.store.profiles import add_spec
from rag_assets.store.tenants import add_tenant
from tests.support.workers.gate_worker import PROFILE

PAID = make_profile(name="paid", provider="google", model="gemini-embedding-2", dimensions=128)


@pytest.fixture
def tenants(database: Database) -> Database:
    """Of `acme` and `bolt`, each with a bot `b`, and `PAID` in the catalogue."""
    add_tenant(database, "acme", "b")
    add_tenant(database, "bolt", "b")
    add_spec(database, PAID)
    return database


def gate_of(database: Database, tenant: str = "acme", profile: EmbeddingProfile = PROFILE) -> PgGate:
    return PgGate(database, tenant, "b", profile)
