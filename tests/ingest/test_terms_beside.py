"""Whether terms are prepared beside the cutting or by the publication, the same is published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rag_assets.ingest import chunks
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from rag_assets.terms import TermsVersion
from rag_assets.terms.beside import TermsBeside, terms_beside
from tests.support.worlds import ingested, rooted

FILES = {
    f"{number}.md": f"# Pump {number}\n\n" + f"The valve KX-{number} of São Paulo, C++. " * 40 for number in range(40)
}


def served(database: Database, tenant: str) -> list[tuple[Any, ...]]:
    with database.work(tenant) as connection:
        return connection.execute(
            "SELECT content, chunk_index, fts::text, lexical::text FROM rag.knowledge_chunks"
            " WHERE tenant_id = %s ORDER BY 1, 2",
            [tenant],
        ).fetchall()


def beside_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms are prepared beside, of however little text, in many portions."""
    monkeypatch.setattr(chunks, "_BESIDE_BYTES", 0)
    monkeypatch.setattr(chunks, "_PORTION_SOURCES", 3)
    monkeypatch.setattr(chunks, "given_processors", lambda: 2)


def test_the_same_is_published(database: Database, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingested(database, root, "alone", FILES)
    beside_everything(monkeypatch)
    ingested(database, tmp_path / "other", "beside", FILES)
    assert len(served(database, "alone")) > 100
    assert served(database, "beside") == served(database, "alone")


def test_nothing_is_missing_where_the_process_is_killed_half_way(
    database: Database, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    @contextmanager
    def killed(version: TermsVersion) -> Iterator[TermsBeside | None]:
        with terms_beside(version) as terms:
            assert terms is not None
            ask = terms.ask

            def counted(texts: list[str]) -> Any:
                nonlocal asked
                asked += 1
                if asked == 4:
                    assert terms is not None
                    assert terms._process is not None
                    terms._process.kill()
                return ask(texts)

            terms.ask = counted  # type: ignore[method-assign, assignment]
            yield terms

    ingested(database, root, "alone", FILES)
    beside_everything(monkeypatch)
    monkeypatch.setattr(chunks, "terms_beside", killed)
    rooted(database, tmp_path / "other", "killed", FILES)
    report = ingest(database, "killed", "support", "hash-64")
    assert asked > 4
    assert report.publication.ready == len(FILES)
    assert served(database, "killed") == served(database, "alone")
