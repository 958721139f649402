"""A source of tens of thousands of chunks takes no more memory for its words than one of a thousand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rag_assets.store import publication
from rag_assets.store.database import Database
from rag_assets.store.term_weights import Terms, weigh
from tests.support.worlds import ingested

SENTENCE = "The valve KX-{0} of the pump is closed by hand, and opened by number {0}. "
TEXT = "\n\n".join(SENTENCE.format(number) for number in range(4000))


def test_its_words_are_made_a_part_at_a_time(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []

    def counted(texts: Sequence[bytes], average_length: float) -> Terms:
        together.append(len(texts))
        return weigh(texts, average_length)

    monkeypatch.setattr(publication, "weigh", counted)
    report = ingested(database, root, "acme", {"large.md": TEXT, "small.md": "The pump is dry."})
    assert report.publication.ready == 2
    assert report.publication.chunks_written == sum(together) > 1000
    assert max(together) <= 1000
    with database.work("acme") as connection:
        found = connection.execute("SELECT count(*), count(fts), count(lexical) FROM rag.knowledge_chunks").fetchone()
    assert found == (sum(together),) * 3
