from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rag_assets.store.database import Database
from tests.support.agent_world import filled


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tenants that say nearly the same, and what is private to a user."""
    database = filled(new_database(), tmp_path_factory.mktemp("world"))
    yield database
    database.close()
