"""One embedded PostgreSQL for each worker of the test session; a fresh, migrated database for whoever asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec, seed_specs
from rag_assets.store.server import start_server, stop_server
from tests.support.servers import copy_database, drop_database, forget_crashes
from tests.support.worlds import HASH_PROFILE

TEMPLATE = "rag_template"
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        type=int,
        default=1,
        help="how often to repeat what is random (kills, damaged files); from 2 on, rate limits are of real minutes",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is repeated has its time for each round."""
    rounds = config.getoption("--rounds")
    for item in items:
        marker = item.get_closest_marker("timeout")
        if rounds > 1 and marker is not None and "rounds" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(rounds * marker.args[0]), append=False)


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    """How often to repeat what is random: 1 where every change is tested, more to look for what is rare."""
    value: int = pytestconfig.getoption("--rounds")
    return value


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the superuser connection to a server that lives as long as the session."""
    home = tmp_path_factory.mktemp("server")
    url = start_server(home)
    forget_crashes(url)
    yield url
    stop_server(home)


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """A migrated database with the built-in profiles and `hash-64`, to be copied."""
    database = Database(ensure_database(server_url, TEMPLATE))
    migrate(database)
    seed_specs(database)
    add_spec(database, HASH_PROFILE)
    database.close()
    return TEMPLATE


@pytest.fixture(scope="session")
def new_database(server_url: str, template: str) -> Callable[[], Database]:
    """Makes a fresh copy of the migrated database."""

    def make() -> Database:
        return Database(copy_database(server_url, template, f"test_{next(_numbers)}"))

    return make


@contextmanager
def _lent(server_url: str, fresh: Database) -> Iterator[Database]:
    yield fresh
    fresh.close()
    drop_database(server_url, str(conninfo_to_dict(fresh.url)["dbname"]))


@pytest.fixture
def database(server_url: str, new_database: Callable[[], Database]) -> Iterator[Database]:
    """A fresh database for one test."""
    with _lent(server_url, new_database()) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def module_database(server_url: str, new_database: Callable[[], Database]) -> Iterator[Database]:
    """A fresh database that the tests of a module share."""
    with _lent(server_url, new_database()) as fresh:
        yield fresh


@pytest.fixture
def hash_profile() -> EmbeddingProfile:
    """The fast, deterministic profile that `database` knows by the name `hash-64`."""
    return HASH_PROFILE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder for sources."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder
