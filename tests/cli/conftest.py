"""The command line as a test calls it, on an embedded server of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.settings import variables
from rag_assets.store.server import start_server, stop_server
from tests.support.command_line import Rag
from tests.support.servers import forget_crashes

PROFILE = "tiny"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """RAG_HOME of all tests of the command line; its server ends with them."""
    folder = tmp_path_factory.mktemp("rag")
    folder.chmod(0o755)
    forget_crashes(start_server(folder / "home"))
    yield folder / "home"
    stop_server(folder / "home")


@pytest.fixture(autouse=True)
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only RAG_HOME is set."""
    for name in ("DAGSTER_HOME", *(variable.name for variable in variables())):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAG_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def rag(environment: None) -> Rag:
    return Rag()


@pytest.fixture(scope="session")
def _profile(home: Path) -> None:
    words = ["profile", "add", PROFILE, "--provider", "hash", "--model", "hash", "--dimensions", "32"]
    run = subprocess.run(
        [sys.executable, "-m", "rag_assets.cli", *words],
        env={**os.environ, "RAG_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.fixture
def documents(tmp_path: Path, _profile: None) -> Path:
    """A folder with two documents; the profile `tiny` is in the catalogue."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "pump.md").write_text("# Pump\n\n## Cut-in\n\nThe PX-4412 pump cuts in at 1.8 bar.\n")
    (folder / "returns.txt").write_text("Goods may be returned within thirty days of delivery.\n")
    return folder


@pytest.fixture
def filled(documents: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A tenant of its own whose bot `b` has the two documents published, without Dagster."""
    from rag_assets.ingest.run import ingest
    from rag_assets.store.database import Database
    from rag_assets.store.roots import add_root
    from rag_assets.store.tenants import add_tenant

    tenant = f"t{abs(hash(request.node.nodeid)) % 10**12}"
    database = Database.from_settings()
    add_tenant(database, tenant, "b")
    add_root(database, tenant, "b", str(documents))
    ingest(database, tenant, "b", PROFILE)
    yield tenant
    database.close()
