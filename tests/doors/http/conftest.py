"""Two tenants that say nearly the same, what one user owns, and a server that all ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from tests.support.http_door import Door, serving, token_for
from tests.support.worlds import ingested

TEXT = "The recovery code of the main valve is {secret}. Keep it with the valve, in the control room.\n"
SECRETS = {"acme": "AAA-111", "other": "BBB-222"}
PRIVATE = "CCC-333"  # alice's, of acme


@dataclass(frozen=True)
class Tokens:
    """Of acme's bot, for anybody, for its user alice, and of the other tenant."""

    acme: str
    alice: str
    other: str


@pytest.fixture(scope="module")
def world(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Both tenants have the bot `support`."""
    for tenant, secret in SECRETS.items():
        files = {f"note{n}.md": f"# Note {n}\n\n{TEXT.format(secret=secret)}" for n in range(4)}
        ingested(module_database, tmp_path_factory.mktemp(tenant), tenant, files)
    folder = tmp_path_factory.mktemp("alice")
    (folder / "private.md").write_text(f"# Alice\n\n{TEXT.format(secret=PRIVATE)}")
    ingest(module_database, "acme", "support", "hash-64", [folder], visibility="user", user="alice")
    return module_database


@pytest.fixture(scope="module")
def tokens(world: Database) -> Tokens:
    return Tokens(
        acme=token_for(world, "acme", "acme"),
        alice=token_for(world, "alice", "acme", user="alice"),
        other=token_for(world, "other", "other"),
    )


@pytest.fixture(scope="module")
def door(world: Database) -> Iterator[Door]:
    """Nothing limits how often it is asked."""
    with serving(world) as open_door:
        yield open_door


@pytest.fixture
def made(world: Database) -> Callable[..., str]:
    """Makes a token."""
    return lambda name, tenant="acme", **more: token_for(world, name, tenant, **more)
