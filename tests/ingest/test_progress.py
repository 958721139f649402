from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rag_assets.chunking import ChunkingSpec
from rag_assets.chunking.chunks import chunk_document
from rag_assets.documents.model import Chunk, Document
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded
from rag_assets.embedding.providers.hashing import HashEmbedder
from rag_assets.errors import SourceError, TextRefused
from rag_assets.ingest import repeated_pages
from rag_assets.progress import reporting, stage
from rag_assets.store.database import Database
from rag_assets.store.publication import Published, Publisher, StagedVersion
from tests.support.worlds import ingested

UNCUT, REFUSED, UNSTORED = "cannot be cut", "is refused by the model", "is refused by the database"


@dataclass
class Recorder:
    """Remembers the total of each stage, and how far it was at its end."""

    totals: dict[str, int | None] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    current: str = ""

    def begin(self, what: str, total: int | None) -> None:
        self.current = what
        self.totals[what], self.done[what] = total, 0

    def advance(self, amount: int) -> None:
        self.done[self.current] += amount

    def end(self) -> None:
        pass


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunker, a model and a database that each fail at one text."""
    embed, publish = HashEmbedder.embed_documents, Publisher.publish

    def cut(document: Document, spec: ChunkingSpec) -> list[Chunk]:
        if UNCUT in document.text:
            raise RecursionError
        return chunk_document(document, spec)

    def embed_documents(self: HashEmbedder, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        if any(REFUSED in text for text in texts):
            raise TextRefused(REFUSED)
        return embed(self, texts, caller)

    def publish_versions(self: Publisher, versions: Sequence[StagedVersion]) -> Published:
        if any(UNSTORED in chunk.content for version in versions for chunk in version.chunks):
            raise SourceError(UNSTORED)
        return publish(self, versions)

    monkeypatch.setattr(repeated_pages, "chunk_document", cut)
    monkeypatch.setattr(HashEmbedder, "embed_documents", embed_documents)
    monkeypatch.setattr(Publisher, "publish", publish_versions)


@pytest.mark.usefixtures("strict")
def test_every_bar_ends_at_its_total_whatever_failed_or_was_in_the_cache(database: Database, tmp_path: Path) -> None:
    files = {
        "uncut.txt": f"This {UNCUT}.",
        "refused.txt": f"This {REFUSED}.",
        "unstored.txt": f"This {UNSTORED}.",
        "good.txt": "This is good.",
        "again.txt": "This is good.",
    }
    for bot, cached in (("support", 0), ("sales", 3)):
        recorder = Recorder()
        with reporting(recorder):
            report = ingested(database, tmp_path, "acme", files, bot=bot)
        failed = (report.chunks.failures, report.embeddings.failures, report.publication.failures)
        assert [len(failures) for failures in failed] == [1, 1, 1]
        assert report.embeddings.cache_hits == cached
        assert recorder.totals == {f"read {bot}": 5, f"chunk {bot}": 5, f"embed {bot}": 4, f"publish {bot}": 3}
        assert recorder.done == recorder.totals


@pytest.mark.parametrize("steps", [[], [9], [10], [4, 4, 4]])
def test_a_stage_that_ends_well_is_at_its_end(steps: Sequence[int]) -> None:
    recorder = Recorder()
    with reporting(recorder), stage("work", 10) as bar:
        for step in steps:
            bar.advance(step)
    assert recorder.done == {"work": 10}


def test_a_stage_that_fails_is_where_it_was_and_one_without_a_total_counts_what_was_done() -> None:
    recorder = Recorder()

    def fail() -> None:
        with stage("failing", 10) as bar:
            bar.advance(4)
            raise SourceError("no")

    with reporting(recorder), pytest.raises(SourceError):
        fail()
    with reporting(recorder), stage("open") as bar:
        bar.advance(4)
    assert recorder.done == {"failing": 4, "open": 4}
