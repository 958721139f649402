"""Files are written together until there are enough of them, of their records or of their text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_assets.ingest import staging
from rag_assets.ingest.run import ingest
from rag_assets.store import sources as store
from rag_assets.store.database import Database
from rag_assets.store.sources import StagedSource
from tests.support.worlds import rooted


def test_no_more_text_is_held_for_large_files_than_for_small_ones(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, large = 20_000, "The pump of the model is old.\n\n" * 200
    written: list[list[int]] = []
    write = store.write_sources

    def counted(connection: Any, root: Any, staged: Sequence[StagedSource]) -> None:
        written.append([len(source.document.text) for source in staged if source.document])
        write(connection, root, staged)

    monkeypatch.setattr(staging, "BATCH_CHARACTERS", bound)
    monkeypatch.setattr(store, "write_sources", counted)
    files = {f"large{number}.txt": f"{large} {number}" for number in range(12)}
    rooted(database, tmp_path, "acme", {**files, **{f"small{number}.txt": "A hose." for number in range(30)}})
    assert ingest(database, "acme", "support", "hash-64").sources.changed == 42
    assert max(sum(batch[:-1]) for batch in written if batch) < bound
    assert len(max(written, key=len)) >= 30
