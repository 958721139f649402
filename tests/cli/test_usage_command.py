from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant

if TYPE_CHECKING:
    from tests.support.command_line import Rag


def test_usage_tells_hits_from_misses_and_the_size_of_the_cache(rag: Rag, filled: str) -> None:
    database = Database.from_settings()
    with database.work(filled) as connection:
        (root,) = connection.execute("SELECT uri FROM rag.source_roots").fetchone() or ("",)
    add_tenant(database, filled, "twin")
    add_root(database, filled, "twin", root)
    ingest(database, filled, "twin", "tiny")
    database.close()

    found = rag.json("usage", "--tenant", filled)
    (entry,) = found["usage"]
    assert (entry["profile"], entry["role"], entry["entries"]) == ("tiny", "document", 2)
    assert (entry["cache_hits"], entry["misses"], entry["embedded"], entry["hit_rate"]) == (2, 2, 2, 0.5)
    assert entry["tokens"] > 10
    assert entry["cost_usd"] == 0
    assert found["cache"] == {"entries": 2, "bytes": entry["bytes"]}
    assert 2 * 4 * 32 < entry["bytes"] < 1000
    assert found["total"]["hit_rate"] == 0.5

    twin = rag.json("usage", "--tenant", filled, "--bot", "twin")
    assert twin["cache"]["entries"] == 0
    assert twin["total"]["hit_rate"] == 1
    assert "50.0%" in rag("usage", "--tenant", filled).stdout


def test_a_tenant_that_has_embedded_nothing_is_told_so(rag: Rag) -> None:
    rag("tenant", "add", "idle", "--bot", "b")
    assert rag.json("usage", "--tenant", "idle")["total"]["hit_rate"] is None
    assert "nothing was embedded yet" in rag("usage", "--tenant", "idle", "--bot", "b").stdout


@pytest.mark.parametrize(
    ("words", "kind"),
    [("--tenant nobody", "UnknownTenant"), ("--tenant busy --bot nobody", "UnknownBot"), ("--tenant A", "InvalidKey")],
)
def test_names_that_do_not_exist_are_refused(rag: Rag, words: str, kind: str) -> None:
    rag("tenant", "add", "busy", "--bot", "b")
    assert rag.error("usage", *words.split())[0] == kind
