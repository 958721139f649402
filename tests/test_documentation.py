"""The examples of the documentation are run, and import what everybody may import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rag_assets
from rag_assets.embedding.providers import local_weights
from rag_assets.retrieval.files import load_retriever
from rag_assets.store.database import Database

ROOT = Path(rag_assets.__file__).parents[1]
RETRIEVERS = sorted((ROOT / "docs" / "retrieval").glob("*.md"))
DOORS = [ROOT / "docs" / "doors" / name for name in ("langchain.md", "llamaindex.md", "push.md", "tools.md")]
STORES = ROOT / "docs" / "stores.md"
OBSERVED = ROOT / "docs" / "observability.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *RETRIEVERS, *DOORS]
# What is kept as the front door is, and stands beside it: these import what not everybody has.
BESIDE = (
    "rag_assets.doors.langchain", "rag_assets.doors.llamaindex", "rag_assets.vector_stores",
    "rag_assets.vector_stores.sqlite",
)  # fmt: skip
_FILE = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[str]:
    return _EXAMPLE.findall(page.read_text(encoding="utf-8"))


def run(page: Path, names: dict[str, object]) -> None:
    """The examples of a page, one after the other, as one program; lines keep their numbers."""
    text = page.read_text(encoding="utf-8")
    for match in _EXAMPLE.finditer(text):
        lines = text[: match.start(1)].count("\n")
        exec(compile("\n" * lines + match[1], str(page), "exec", dont_inherit=True), names)


@pytest.fixture
def elsewhere(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """An empty folder to work in, and a database that the settings name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database.url)
    monkeypatch.delenv("RAG_APP_DATABASE_URL", raising=False)
    return database


def test_the_examples_of_the_api_run(elsewhere: Database) -> None:
    names: dict[str, object] = {"__name__": "api"}
    run(ROOT / "docs" / "api.md", names)
    used = names["database"]
    assert isinstance(used, Database)
    used.close()


@pytest.mark.parametrize("page", [*RETRIEVERS, *DOORS, STORES, OBSERVED], ids=lambda page: page.name)
def test_the_examples_of_a_retriever_run(page: Path, elsewhere: Database) -> None:
    Path("handbook").mkdir()
    Path("handbook/warranty.md").write_text(
        "# Warranty\n\nEvery pump has a warranty of five years, from delivery on.\n"
    )
    Path("handbook/returns.md").write_text("# Returns\n\nGoods may be returned within thirty days.\n")
    rag_assets.ingest(elsewhere, "acme", "support", roots=["handbook"])
    scope = rag_assets.open_scope(elsewhere, tenant="acme", bot="support")
    run(page, {"__name__": "retriever", "rag": rag_assets, "database": elsewhere, "scope": scope, "Path": Path})


@pytest.mark.parametrize("page", RETRIEVERS, ids=lambda page: page.name)
def test_the_files_of_a_retriever_make_it(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_weights, "find_spec", lambda name: name)  # where it is not, a cross-encoder is refused
    database = Database("postgresql://nobody@localhost:1/none")
    for text in _FILE.findall(page.read_text(encoding="utf-8")):
        (tmp_path / "retriever.toml").write_text(text, encoding="utf-8")
        assert load_retriever(database, tmp_path / "retriever.toml")
    database.close()


def test_the_example_of_the_readme_runs(elsewhere: Database, capsys: pytest.CaptureFixture[str]) -> None:
    Path("handbook").mkdir()
    Path("handbook/warranty.md").write_text("# Warranty\n\nEvery pump has a warranty of five years.\n")
    rag_assets.ingest(elsewhere, "acme", "support", roots=["handbook"])
    names: dict[str, object] = {"__name__": "readme"}
    run(ROOT / "README.md", names)
    assert "five years" in capsys.readouterr().out
    used = names["database"]
    assert isinstance(used, Database)
    used.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_import_only_from_the_front_door(page: Path) -> None:
    for example in examples(page):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.Import):
                inner = [name.name for name in node.names if name.name.startswith("rag_assets.")]
            elif isinstance(node, ast.ImportFrom):
                inner = [node.module] if (node.module or "").startswith("rag_assets.") else []
            else:
                continue
            inner = [name for name in inner if name not in BESIDE]
            assert inner == [], f"{page.name} imports {inner}"
