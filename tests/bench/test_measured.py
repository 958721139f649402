"""Parts of a corpus for `rag ingest`, and measurements that are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import measured
from bench.scale import Results


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = [{"_id": str(number), "title": "", "text": "x" * 40} for number in range(10)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "chunks.tsv").write_text("".join(f"{number}\t2\n" for number in range(10)), encoding="utf-8")
    return folder


def test_the_first_documents_become_small_files(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "PART_BYTES", 100)
    root = measured.prefix(corpus, 9, tmp_path / "9")
    parts = [[json.loads(line)["_id"] for line in part.read_text().splitlines()] for part in sorted(root.iterdir())]
    assert parts == [["0", "1"], ["2", "3"], ["4"]]
    assert measured.joined(root).read_text(encoding="utf-8").count("\n") == 5


def test_parts_that_are_there_are_not_made_again_and_half_of_them_are(corpus: Path, tmp_path: Path) -> None:
    root = measured.prefix(corpus, 4, tmp_path / "4")
    (corpus / "corpus.jsonl").unlink()
    assert measured.prefix(corpus, 4, root) == root
    with pytest.raises(FileNotFoundError):
        measured.prefix(corpus, 6, tmp_path / "6")


def test_more_chunks_than_there_are_is_an_error(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has 20 chunks, not 21"):
        measured.prefix(corpus, 21, tmp_path / "21")


def test_what_was_measured_is_known_to_the_next_run(tmp_path: Path) -> None:
    Results(tmp_path / "known").add("ingest 10", {"chunks": 10})
    again = Results(tmp_path / "known")
    assert again.get("ingest 10") == {"what": "ingest 10", "chunks": 10}
    assert again.get("ingest 20") is None
