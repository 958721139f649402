"""Embedding through the provider's batch API: handed over, collected, checked, and paid for once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.providers.google_batch import GoogleBatches
from rag_assets.errors import CostCeilingReached, UsageError
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from rag_assets.store.limits import set_profile_settings
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.batch_world import FEWEST, PROFILE, TENANT, BatchWorld, batch_world, text_of
from tests.support.google_batch_server import Change, Line
from tests.support.google_server import unit_vectors

TEXTS = 20


@pytest.fixture
def world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchWorld]:
    with batch_world(database, root, monkeypatch) as made:
        made.write(*range(TEXTS))
        yield made


def assert_all_served(world: BatchWorld, texts: int = TEXTS) -> None:
    assert world.served() == sorted(text_of(number) for number in range(texts))


def compared(world: BatchWorld) -> int:
    """How many texts were paid for twice: those that a job's results were compared with."""
    assert max(world.paid().values()) <= 2
    return sum(count == 2 for count in world.paid().values())


def test_texts_are_handed_over_waited_for_collected_and_published(world: BatchWorld) -> None:
    first = world.ingest()
    assert (first.embeddings.pending_chunks, first.embeddings.pending_sources, first.embeddings.jobs) == (20, 20, 1)
    assert first.publication.chunks_written == 0
    assert world.served() == []
    (job,) = world.jobs()
    assert (job.state, job.items, job.profile) == ("running", TEXTS, PROFILE.name)

    again = world.ingest()
    assert again.embeddings.pending_chunks == TEXTS
    assert [job.id] == [one.id for one in world.jobs()]
    assert world.batches.google.embeds == []

    world.batches.finish()
    last = world.ingest()
    assert_all_served(world)
    assert (last.embeddings.pending_chunks, last.embeddings.jobs) == (0, 0)
    assert last.embeddings.cache_hits == TEXTS
    assert last.publication.activated == ["support"]
    assert [one.state for one in world.jobs()] == ["done"]
    assert compared(world) == 2


def test_a_vector_is_that_of_its_text_whatever_the_order_of_the_results(world: BatchWorld) -> None:
    world.ingest()

    def shuffled(lines: list[Line]) -> list[Line]:
        return random.Random(7).sample(lines, len(lines))

    world.batches.finish(shuffled)
    world.ingest()
    assert_all_served(world)
    rows = world.rows("SELECT content, embedding::text FROM rag.knowledge_chunks")
    for content, vector in rows:
        found = np.array([float(value) for value in vector.strip("[]").split(",")])
        assert found @ unit_vectors([f"title: none | text: {content}"], 128)[0] > 0.99999


def test_half_of_the_price_is_counted(world: BatchWorld) -> None:
    world.ingest()
    assert world.usage() == (0, 0, 0)
    world.batches.finish()
    world.ingest()
    items, _, cost = world.usage()
    assert items == TEXTS + 2
    (job,) = world.jobs()
    direct = [one for one in world.batches.google.embeds for _ in one.texts]
    assert len(direct) == 2
    batch_tokens = sum(len(f"title: none | text: {text_of(n)}".split()) for n in range(TEXTS))
    half = PROFILE.model_info.cost_usd(batch_tokens, batch=True)
    full = PROFILE.model_info.cost_usd(batch_tokens)
    assert half == full / 2
    assert half < cost < half + full * 5 / TEXTS
    assert job.error is None


def test_nothing_is_left_at_the_provider(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish()
    world.ingest()
    assert world.batches.files == {}
    assert world.batches.jobs == {}
    (job,) = world.jobs()
    assert (job.remote_name, job.uploads, job.result_file) == (None, 0, None)


def test_few_texts_are_embedded_at_once(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish()
    world.ingest()
    world.write(*range(TEXTS, TEXTS + FEWEST - 1))
    report = world.ingest()
    assert report.embeddings.embedded == FEWEST - 1
    assert_all_served(world, TEXTS + FEWEST - 1)
    assert len(world.jobs()) == 1


def test_without_batch_mode_nothing_is_handed_over_and_open_jobs_are_collected(world: BatchWorld) -> None:
    world.ingest()
    set_profile_settings(world.database, PROFILE.name, mode="sync")
    world.write(*range(TEXTS, TEXTS + 10))
    report = world.ingest()
    assert report.embeddings.embedded == 10
    assert report.embeddings.pending_chunks == TEXTS, "what is being paid for is not paid for again"
    world.batches.finish()
    world.ingest()
    assert_all_served(world, TEXTS + 10)
    assert len(world.jobs()) == 1


def test_one_run_may_ask_for_batches(world: BatchWorld) -> None:
    set_profile_settings(world.database, PROFILE.name, mode="sync")
    assert world.ingest(batch=True).embeddings.pending_chunks == TEXTS


def test_a_provider_without_batches_is_refused(world: BatchWorld) -> None:
    with pytest.raises(UsageError, match="hash has no batch API"):
        ingest(world.database, TENANT, "support", "hash-64", batch=True)


def test_a_text_that_may_be_too_long_is_left_to_the_embedder_that_cuts_it(world: BatchWorld) -> None:
    batches = GoogleBatches(PROFILE)
    assert batches.sendable("word " * 2000) is None
    assert batches.sendable("  ") is None
    assert batches.sendable("short") == "title: none | text: short"


def drop(*positions: int) -> Change:
    return lambda lines: [line for row, line in enumerate(lines) if row not in positions]


def fail(*positions: int) -> Change:
    def change(lines: list[Line]) -> list[Line]:
        error = {"code": 13, "message": "secret words of the text"}
        return [{"key": line["key"], "error": error} if row in positions else line for row, line in enumerate(lines)]

    return change


@pytest.mark.parametrize("change", [drop(3, 4), fail(3, 4)], ids=["missing", "failed"])
def test_texts_that_a_job_has_failed_at_are_embedded_directly(world: BatchWorld, change: Change) -> None:
    world.ingest()
    world.batches.finish(change)
    report = world.ingest()
    assert report.embeddings.embedded == 2
    assert_all_served(world)
    (job,) = world.jobs()
    assert (job.state, job.error) == ("done", "2 of 20 texts failed")
    states = dict(world.rows("SELECT state, count(*) FROM rag.embedding_job_items GROUP BY 1"))
    assert states == {"done": 18, "failed": 2}
    assert "secret" not in str(world.rows("SELECT * FROM rag.embedding_job_items"))


def test_a_failed_text_does_not_go_into_another_job(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish(fail(*range(10)))
    report = world.ingest()
    assert report.embeddings.embedded == 10
    assert len(world.jobs()) == 1
    assert_all_served(world)


def values(change: Any) -> Change:
    """Change the vector of the fourth line."""

    def apply(lines: list[Line]) -> list[Line]:
        embedding = lines[3]["response"]["embedding"]
        embedding["values"] = change(embedding["values"])
        return lines

    return apply


def rekeyed(change: Any) -> Change:
    def apply(lines: list[Line]) -> list[Line]:
        for line, key in zip(lines, change([line["key"] for line in lines]), strict=True):
            line["key"] = key
        return lines

    return apply


WRONG: dict[str, Change] = {
    "a key that was not sent": rekeyed(lambda keys: ["0" * 64, *keys[1:]]),
    "one key twice": lambda lines: [*lines, lines[0]],
    "too short": values(lambda row: row[:-1]),
    "too long": values(lambda row: row + row),
    "NaN": values(lambda row: [float("nan"), *row[1:]]),
    "zeros": values(lambda row: [0.0] * len(row)),
    "no numbers": values(lambda row: ["x", *row[1:]]),
    "keys moved by one": rekeyed(lambda keys: [*keys[1:], keys[0]]),
    "no JSON": lambda lines: [*lines[:-1], "{"],  # type: ignore[list-item]
    "another model's vectors": lambda lines: [
        {**line, "response": {"embedding": {"values": [1.0, *[0.0] * 127]}}} for line in lines
    ],
}


IN_ALL_RUNS = ("NaN", "keys moved by one")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=[] if name in IN_ALL_RUNS else pytest.mark.slow)
        for name, change in WRONG.items()
    ],
)
def test_results_that_are_wrong_are_thrown_away_and_the_texts_embedded_directly(
    world: BatchWorld, change: Change
) -> None:
    world.ingest()
    world.batches.finish(change)
    world.ingest()
    (job,) = world.jobs()
    assert job.state == "failed"
    assert "must not be stored" in (job.error or "")
    assert_all_served(world)
    rows = world.rows("SELECT content_hash, embedding::text FROM rag.embedding_cache")
    assert len(rows) == TEXTS
    sent = world.batches.google.sent
    assert set(sent.values()) == {1}, "each text is embedded directly once, those for comparison among them"
    assert len(sent) == TEXTS
    assert world.batches.files == {}


@pytest.mark.parametrize("state", ["FAILED", "EXPIRED", "CANCELLED"])
def test_a_job_that_comes_to_nothing_leaves_its_texts_to_be_embedded_directly(world: BatchWorld, state: str) -> None:
    world.ingest()
    world.batches.end(f"BATCH_STATE_{state}")
    report = world.ingest()
    assert report.embeddings.embedded == TEXTS
    assert_all_served(world)
    (job,) = world.jobs()
    assert (job.state, job.error) == ("failed", f"the provider has ended the job: {state}")
    assert set(world.paid().values()) == {1}


def test_a_job_that_ends_without_results_comes_to_nothing(world: BatchWorld) -> None:
    world.ingest()
    world.batches.end("BATCH_STATE_SUCCEEDED")
    assert world.ingest().embeddings.embedded == TEXTS
    assert "without results" in (world.jobs()[0].error or "")


def test_a_state_that_nobody_knows_is_waited_for_until_the_deadline(world: BatchWorld) -> None:
    world.ingest()
    world.batches.end("BATCH_STATE_RESTING")
    assert world.ingest().embeddings.pending_chunks == TEXTS
    assert world.jobs()[0].remote_state == "RESTING"
    world.rows("UPDATE rag.embedding_jobs SET deadline = now()")
    assert world.ingest().embeddings.embedded == TEXTS
    assert world.jobs()[0].error == "the job has not ended in time: RESTING"
    assert len(world.batches.cancelled) == 1
    assert_all_served(world)


def test_a_partial_success_is_taken_for_what_it_holds(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish(drop(0, 1), "BATCH_STATE_PARTIALLY_SUCCEEDED")
    report = world.ingest()
    assert report.embeddings.embedded == 2
    assert_all_served(world)


def test_a_job_that_the_provider_has_lost_comes_to_nothing(world: BatchWorld) -> None:
    world.ingest()
    world.batches.jobs.clear()
    assert world.ingest().embeddings.embedded == TEXTS
    assert world.jobs()[0].error == "the provider has no such job any more"


def test_answers_without_keys_are_taken_in_order_and_compared(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish_inline()
    world.ingest()
    assert_all_served(world)
    assert world.jobs()[0].state == "done"
    assert compared(world) == 8


@pytest.mark.parametrize(
    "change", [lambda lines: lines[:-1], lambda lines: [*lines[10:], *lines[:10]]], ids=["too few", "in another order"]
)
def test_answers_without_keys_that_are_not_in_order_are_thrown_away(world: BatchWorld, change: Change) -> None:
    world.ingest()
    world.batches.finish_inline(change)
    world.ingest()
    assert world.jobs()[0].state == "failed"
    assert_all_served(world)


def test_inline_answers_that_all_failed_are_no_answers(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish_inline(lambda lines: [{"key": line["key"], "error": {"code": 3}} for line in lines])
    assert world.ingest().embeddings.embedded == TEXTS
    assert_all_served(world)


def test_jobs_hold_as_many_texts_as_they_may_and_the_queue_as_many_tokens(
    world: BatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_BATCH_JOB_ITEMS", "8")
    world.ingest()
    assert [job.items for job in world.jobs()] == [8, 8, 4]
    world.batches.finish()
    world.ingest()
    assert_all_served(world)


def test_what_finds_no_room_in_the_queue_is_handed_over_later(
    world: BatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_BATCH_TOKENS", "200")
    report = world.ingest()
    (job,) = world.jobs()
    assert 5 <= job.items < TEXTS
    assert job.tokens <= 200
    assert report.embeddings.pending_chunks == TEXTS
    rounds = 0
    while len(world.served()) < TEXTS and rounds < 10:
        world.batches.finish()
        world.ingest()
        rounds += 1
    assert_all_served(world)
    assert 1 < rounds < 6
    assert sum(count - 1 for count in world.paid().values()) == 2 * len(world.jobs())


def test_a_cost_ceiling_counts_what_is_handed_over(world: BatchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BATCH_JOB_ITEMS", "10")
    one_job = PROFILE.model_info.cost_usd(200, batch=True)
    set_profile_settings(world.database, PROFILE.name, max_cost_usd=1.5 * one_job)
    with pytest.raises(CostCeilingReached):
        world.ingest()
    assert len(world.jobs()) == 1, "the second job would have gone beyond the ceiling"


def test_a_text_is_handed_over_once_for_all_bots_of_a_tenant(world: BatchWorld, root: Path) -> None:
    world.ingest()
    add_tenant(world.database, TENANT, "sales")
    add_root(world.database, TENANT, "sales", str(root))
    report = ingest(world.database, TENANT, "sales", PROFILE.name)
    assert report.embeddings.pending_chunks == TEXTS
    assert len(world.jobs()) == 1
    world.batches.finish()
    ingest(world.database, TENANT, "sales", PROFILE.name)
    assert_all_served(world)
    world.ingest()
    assert len(world.served()) == 2 * TEXTS
    assert compared(world) == 2


def test_a_changed_source_is_served_in_its_old_version_while_the_new_one_waits(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish()
    world.ingest()
    for number in range(FEWEST):
        (world.root / f"{number:03}.txt").write_text(f"Now it is about hose {number}, and it is longer than before.")
    assert world.ingest().embeddings.pending_sources == FEWEST
    assert_all_served(world)
    world.batches.finish()
    world.ingest()
    assert sum(text.startswith("Now it") for text in world.served()) == FEWEST
    assert len(world.served()) == TEXTS


def test_settings_that_are_no_numbers_are_refused(world: BatchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BATCH_TOKENS", "many")
    with pytest.raises(UsageError, match="RAG_BATCH_TOKENS"):
        world.ingest()
