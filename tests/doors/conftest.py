from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag_assets.store.database import Database
from rag_assets.store.tenants import add_tenant
from tests.support.agent_world import filled
from tests.support.worlds import ingested


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tenants that say nearly the same, and what is private to a user."""
    database = filled(new_database(), tmp_path_factory.mktemp("world"))
    yield database
    database.close()


@pytest.fixture
def pushing(database: Database, tmp_path: Path) -> Iterator[Database]:
    """Tenant acme with the bots support, which has a file, and sales; and tenant other."""
    folder = tmp_path / "files"
    folder.mkdir()
    ingested(database, folder, "acme", {"file.md": "The handbook lies in drawer five."})
    add_tenant(database, "acme", "sales")
    add_tenant(database, "other", "support")
    yield database
    database.close()
