"""A text that a provider does not embed, in a batch job as little as directly: it fails alone, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.store.database import Database
from rag_assets.store.refused import forget_refused_texts
from tests.support.batch_world import PREFIX, TENANT, BatchWorld, batch_world, text_of
from tests.support.google_batch_server import Line
from tests.support.google_server import Behaviour, Reply, embed, error

TEXTS, BAD = 12, 7


@pytest.fixture
def world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchWorld]:
    monkeypatch.setenv("RAG_PROVIDER_WAIT_S", "0.3")
    with batch_world(database, root, monkeypatch) as made:
        made.write(*range(TEXTS))
        yield made


def the_bad_one_fails(lines: list[Line]) -> list[Line]:
    """The job's answer to it is an error, which repeats the text as providers do."""
    failed = {"code": 3, "message": f"stand-in: {text_of(BAD)}"}
    return [{"key": line["key"], "error": failed} if row == BAD else line for row, line in enumerate(lines)]


def minded_directly(world: BatchWorld, by: Behaviour) -> None:
    def behave(reply: Reply) -> None:
        (by if PREFIX + text_of(BAD) in reply.arrived.texts else embed)(reply)

    world.batches.google.script.extend([behave] * 100)


@pytest.mark.parametrize(
    ("by", "told", "lasting"),
    [
        (error(400, "INVALID_ARGUMENT"), "refuses the text: HTTP 400", True),
        (error(500, "INTERNAL"), "gave no answer in 1 try: HTTP 500", False),
    ],
    ids=["refused", "unanswered"],
)
def test_a_text_that_a_job_and_the_provider_itself_fail_at_fails_alone_and_is_in_no_job_again(
    world: BatchWorld, by: Behaviour, told: str, lasting: bool
) -> None:
    world.ingest()
    (made,) = world.batches.jobs.values()
    assert len(made.texts) == TEXTS
    world.batches.finish(the_bad_one_fails)
    minded_directly(world, by)

    report = world.ingest()

    good = sorted(text_of(number) for number in range(TEXTS) if number != BAD)
    assert world.served() == good
    (failure,) = report.embeddings.failures
    assert (failure.name, told in failure.error) == (f"{BAD:03}.txt", True)
    assert "stand-in" not in failure.error
    (job,) = world.jobs()
    assert (job.state, job.error) == ("done", f"1 of {TEXTS} texts failed")
    assert world.rows("SELECT next_try_at IS NULL FROM rag.refused_texts") == [(lasting,)]
    states = dict(world.rows("SELECT status, count(*) FROM rag.knowledge_sources GROUP BY 1"))
    assert states == {"ready": TEXTS - 1, "failed": 1}

    asked = len(world.batches.google.embeds)
    world.write(*range(TEXTS, TEXTS + 6))
    report = world.ingest(batch=True)
    assert (report.embeddings.jobs, len(world.batches.google.embeds)) == (1, asked), "it is sent nowhere"
    (second,) = world.batches.open
    assert sorted(second.texts) == sorted(PREFIX + text_of(number) for number in range(TEXTS, TEXTS + 6))

    world.batches.google.script.clear()
    forget_refused_texts(world.database, TENANT)
    world.batches.finish()
    report = world.ingest()
    assert (report.embeddings.failures, len(world.served())) == ([], TEXTS + 6)
    assert set(world.paid()) >= set(map(text_of, range(TEXTS + 6)))
