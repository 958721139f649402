from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.providers.google import GoogleEmbedder
from tests.support.batch_world import FEWEST, text_of
from tests.support.google_batch_server import Batches, google_batches

if TYPE_CHECKING:
    from tests.support.command_line import Rag

TEXTS = 6
MODEL = ("--provider", "google", "--model", "gemini-embedding-2", "--dimensions", "128")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Batches]:
    monkeypatch.setenv("RAG_BATCH_MIN_ITEMS", str(FEWEST))
    monkeypatch.setattr(registry, "_loaded", {})
    with google_batches(monkeypatch) as running:
        yield running
        for embedder in registry._loaded.values():
            if isinstance(embedder, GoogleEmbedder):
                embedder.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(TEXTS):
        (tmp_path / f"{number}.txt").write_text(text_of(number))
    return tmp_path


@pytest.mark.slow
def test_an_ingest_by_batch_says_what_waits_and_the_next_one_publishes_it(
    rag: Rag, provider: Batches, folder: Path
) -> None:
    rag("profile", "add", "gemini-cli", *MODEL)
    where = ("--tenant", "batch-cli", "--bot", "b")
    first = rag("ingest", str(folder), *where, "--profile", "gemini-cli", "--batch")
    assert f"{TEXTS} chunks wait for a batch job; published by" in first.stdout

    (job,) = rag.json("batches", "--tenant", "batch-cli")["jobs"]
    assert (job["state"], job["items"], job["bot"], job["profile"]) == ("running", TEXTS, "b", "gemini-cli")
    assert job["id"] in rag("batches", "--tenant", "batch-cli").stdout

    waiting = rag.json("ingest", *where, "--profile", "gemini-cli")
    assert (waiting["pending_chunks"], waiting["batch_jobs"], waiting["embedded"]) == (TEXTS, 1, 0)
    provider.finish()
    done = rag.json("ingest", *where, "--profile", "gemini-cli")
    assert (done["pending_chunks"], done["batch_jobs"], done["chunks_written"]) == (0, 0, TEXTS)

    more = folder / "more"
    more.mkdir()
    for number in range(20, 20 + TEXTS):
        (more / f"{number}.txt").write_text(text_of(number))
    rag("ingest", *where, "--profile", "gemini-cli", "--batch")
    job = rag.json("batches", "--tenant", "batch-cli")["jobs"][1]
    cancelled = rag.json("batches", "--tenant", "batch-cli", "--cancel", job["id"])
    assert [one["state"] for one in cancelled["jobs"]] == ["cancelled"]
    assert rag.error("batches", "--tenant", "batch-cli", "--cancel", job["id"])[0] == "UsageError"
    erased = rag.json("erase", "--tenant", "batch-cli", "--yes")
    assert (erased["batch_jobs"], erased["batch_jobs_left"]) == (0, [])
    assert erased["erased"]["embedding_jobs"] == 2
    assert not any(erased["remaining"].values())


def test_what_cannot_be_done_by_batch_is_refused_before_anything_is_written(rag: Rag, documents: Path) -> None:
    words = ("ingest", str(documents), "--tenant", "never", "--bot", "b", "--profile", "tiny", "--batch")
    assert rag.error(*words) == (
        "UsageError",
        "profile 'tiny': hash has no batch API; leave out --batch",
    )
    assert rag.error("batches", "--tenant", "never")[0] == "UnknownTenant"


def test_a_job_is_named_by_its_id(rag: Rag, filled: str) -> None:
    assert rag.json("batches", "--tenant", filled)["jobs"] == []
    assert "no batch jobs" in rag("batches", "--tenant", filled).stdout
    assert rag.error("batches", "--tenant", filled, "--cancel", "first")[0] == "UsageError"
    assert rag.error("batches", "--tenant", filled, "--cancel", str(uuid4()))[0] == "UsageError"
