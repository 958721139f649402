from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rag_assets.io_managers import staging_folder
from rag_assets.store import erase as store
from rag_assets.store.database import Database

if TYPE_CHECKING:
    from tests.support.command_line import Rag


def _tenants(rag: Rag) -> set[str]:
    return {entry["tenant"] for entry in rag.json("tenant", "list")["tenants"]}


def test_nothing_is_erased_without_a_yes(rag: Rag, filled: str) -> None:
    assert "nothing was erased" in rag("erase", "--tenant", filled, answer="n\n").stdout
    asked = rag("erase", "--tenant", filled, answer="\n")
    assert "knowledge_chunks" in asked.stderr
    assert "no way back" in asked.stderr
    assert "nobody is there to ask" in rag("erase", "--tenant", filled, code=2, answer="").stderr
    assert filled in _tenants(rag)


def test_json_refuses_to_ask(rag: Rag, filled: str) -> None:
    error = rag.json("erase", "--tenant", filled, code=2)["error"]
    assert error["type"] == "UsageError"
    assert "--yes" in error["message"]
    assert filled in _tenants(rag)


def test_a_yes_erases_the_tenant_and_counts_that_nothing_is_left(rag: Rag, filled: str) -> None:
    shown = rag("erase", "--tenant", filled, answer="y\n").stdout
    assert f"{filled} is gone" in shown
    assert "0 rows left" in shown
    assert filled not in _tenants(rag)
    assert rag.json("erase", "--tenant", filled, "--yes", code=2)["error"]["type"] == "UnknownTenant"


@pytest.mark.slow
def test_what_dagster_and_the_staging_hold_of_a_tenant_goes_too(rag: Rag, documents: Path, home: Path) -> None:
    rag("ingest", str(documents), "--tenant", "staged", "--bot", "b", "--profile", "tiny")
    assert list((home / "storage" / "staged").rglob("*.parquet"))
    erased = rag.json("erase", "--tenant", "staged", "--yes")
    assert erased["erased"]["knowledge_chunks"] == 2
    assert not any(erased["remaining"].values())
    assert erased["dagster_runs"] == 2
    assert erased["staged_files"] > 0
    assert not (home / "storage" / "staged").exists()


def test_what_an_ingest_writes_while_its_tenant_is_erased_goes_too(
    rag: Rag, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase = store.erase

    def meanwhile(database: Database, tenant: str, bot: str | None = None) -> store.EraseReport:
        folder = Path(staging_folder(tenant).path) / "tiny"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "chunks.parquet").write_bytes(b"text")
        (folder / ".chunks-1.part").write_bytes(b"text")
        return erase(database, tenant, bot)

    monkeypatch.setattr(store, "erase", meanwhile)
    assert rag.json("erase", "--tenant", filled, "--yes")["staged_files"] >= 2
    assert not Path(staging_folder(filled).path).exists()


def test_wrong_use_ends_with_2(rag: Rag, filled: str) -> None:
    assert rag.json("erase", "--yes", code=2)["error"]["type"] == "UsageError"
    assert rag.json("erase", "--tenant", "A", "--yes", code=2)["error"]["type"] == "InvalidKey"
    assert rag.json("erase", "--tenant", "nobody", "--yes", code=2)["error"]["type"] == "UnknownTenant"
    unknown = rag.json("erase", "--tenant", filled, "--bot", "nobody", "--yes", code=2)["error"]
    assert unknown["type"] == "UnknownBot"
    assert filled in _tenants(rag)
