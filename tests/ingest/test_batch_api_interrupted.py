"""A batch job whose run is killed, or whose provider does not answer: done in the end, and paid for once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.errors import ProviderRefused, ProviderUnavailable, UsageError
from rag_assets.ingest.batch_api import submit as batch_submission
from rag_assets.ingest.batch_api.collect import abandon_jobs, cancel_job
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from tests.support.batch_world import BOT, PROFILE, TENANT, BatchWorld, batch_world, text_of
from tests.support.google_batch_server import Batches
from tests.support.google_server import Behaviour, Reply, error
from tests.support.scopes import set_scope
from tests.support.workers.batch_worker import AFTER, SUBMITTING

TEXTS = 12
WORKER = Path(__file__).parents[1] / "support/workers/batch_worker.py"


@pytest.fixture
def world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchWorld]:
    monkeypatch.setattr(batch_submission, "_UPLOAD_PAUSE_S", 0.0)
    with batch_world(database, root, monkeypatch) as made:
        made.write(*range(TEXTS))
        yield made


def assert_done_and_paid_once(world: BatchWorld) -> None:
    """Everything is served; each text was paid for once, but for the two that results are compared with."""
    assert world.served() == sorted(text_of(number) for number in range(TEXTS))
    paid = world.paid()
    assert set(paid) == {text_of(number) for number in range(TEXTS)}
    assert sum(paid.values()) == TEXTS + 2
    assert world.usage()[0] == TEXTS + 2
    assert world.batches.files == {}
    assert world.batches.jobs == {}


def killed(world: BatchWorld, point: str) -> None:
    command = [sys.executable, str(WORKER), world.database.url, TENANT, BOT, PROFILE.name, point]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("point", AFTER)
def test_a_run_that_is_killed_is_finished_by_the_next_and_nothing_is_paid_twice(world: BatchWorld, point: str) -> None:
    if point not in SUBMITTING:
        world.ingest()
        world.batches.finish()
    killed(world, point)
    world.let_time_pass()
    world.ingest()
    assert len(world.batches.jobs) == (1 if point in SUBMITTING else 0)
    world.batches.finish()
    world.ingest()
    assert_done_and_paid_once(world)


def then_close(batches: Batches) -> Behaviour:
    """Make the job, and end the connection without an answer."""

    def behave(reply: Reply) -> None:
        batches.make(reply)
        reply.close()

    return behave


def test_a_job_whose_creation_was_not_answered_is_found_and_not_made_again(world: BatchWorld) -> None:
    world.batches.creations.append(then_close(world.batches))
    world.ingest()
    assert len(world.batches.jobs) == 1
    world.batches.finish()
    world.ingest()
    assert_done_and_paid_once(world)


def test_a_job_is_found_on_a_later_page_of_the_list(world: BatchWorld) -> None:
    world.batches.page_size = 1
    other = then_close(world.batches)

    def after_others(reply: Reply) -> None:
        for number in range(3):
            world.batches.make(reply).display_name = f"somebody else's {number}"
        other(reply)

    world.batches.creations.append(after_others)
    world.ingest()
    assert len(world.batches.jobs) == 4
    assert [job.remote_name for job in world.jobs()] == ["batches/4"]


def test_a_creation_that_did_not_happen_is_asked_for_again(world: BatchWorld) -> None:
    world.batches.creations.append(lambda reply: reply.close())
    world.ingest()
    assert len(world.batches.jobs) == 1


def test_an_upload_that_breaks_off_is_made_again_under_another_name(world: BatchWorld) -> None:
    def half(reply: Reply) -> None:
        world.batches.files[reply.arrived.body["file"]["name"]] = b"half of a"
        reply.close()

    world.batches.uploads.append(half)
    world.ingest()
    assert [job.uploads for job in world.jobs()] == [2]
    world.batches.finish()
    world.ingest()
    assert_done_and_paid_once(world)


def test_a_full_queue_leaves_the_texts_waiting_and_nothing_behind(world: BatchWorld) -> None:
    world.batches.creations.append(error(429, "RESOURCE_EXHAUSTED"))
    report = world.ingest()
    assert (report.embeddings.pending_chunks, report.embeddings.jobs) == (TEXTS, 0)
    assert world.jobs() == []
    assert world.batches.files == {}
    world.ingest()
    world.batches.finish()
    world.ingest()
    assert_done_and_paid_once(world)


def test_a_refused_job_leaves_its_texts_to_be_embedded_directly(world: BatchWorld) -> None:
    world.batches.creations.append(error(400, "INVALID_ARGUMENT"))
    report = world.ingest()
    assert report.embeddings.embedded == TEXTS
    assert [job.state for job in world.jobs()] == ["failed"]


def test_a_key_that_is_refused_stops_the_run_and_says_nothing_of_the_texts(world: BatchWorld) -> None:
    world.batches.creations.append(error(403, "PERMISSION_DENIED"))
    with pytest.raises(ProviderRefused) as raised:
        world.ingest()
    assert "Pump" not in str(raised.value)
    assert "AIza" not in repr(raised.value)
    world.let_time_pass()
    world.ingest()
    assert len(world.jobs()) == len(world.batches.jobs) == 1, "the next run forgets the job that never came to be"


def test_a_provider_that_is_away_while_results_are_fetched_changes_nothing(
    world: BatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_assets.embedding.providers import google_batch
    from rag_assets.embedding.providers.requests import RetryPolicy

    world.ingest()
    world.batches.finish()
    monkeypatch.setattr(google_batch, "FOR_TRANSFERS", RetryPolicy(attempts=1))
    world.batches.google.routes.insert(0, ("GET", ".*:download.*", error(503)))
    with pytest.raises(ProviderUnavailable):
        world.ingest()
    assert [job.state for job in world.jobs()] == ["running"]
    del world.batches.google.routes[0]
    world.ingest()
    assert_done_and_paid_once(world)


def test_a_cancelled_job_is_stopped_at_the_provider_and_its_texts_embedded_directly(world: BatchWorld) -> None:
    world.ingest()
    (job,) = world.jobs()
    assert cancel_job(world.database, TENANT, job.id).state == "cancelled"
    assert world.batches.cancelled == ["batches/1"]
    assert world.batches.jobs == world.batches.files == {}
    with pytest.raises(UsageError, match="cancelled"):
        cancel_job(world.database, TENANT, job.id)
    with pytest.raises(UsageError, match="has no batch job"):
        cancel_job(world.database, "globex", job.id)
    world.ingest()
    assert len(world.served()) == TEXTS
    assert set(world.paid().values()) == {1}


def test_a_job_that_has_ended_is_paid_for_and_not_cancelled(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish()
    with pytest.raises(UsageError, match="publishes its results"):
        cancel_job(world.database, TENANT, world.jobs()[0].id)


def test_an_erased_tenant_has_nothing_left_at_the_provider(world: BatchWorld) -> None:
    world.ingest()
    assert abandon_jobs(world.database, TENANT) == (1, [])
    assert world.batches.cancelled == ["batches/1"]
    assert world.batches.jobs == world.batches.files == {}
    report = erase(world.database, TENANT)
    assert report.counts["embedding_job_items"] == TEXTS
    assert report.counts["embedding_job_sources"] == TEXTS
    assert report.counts["embedding_jobs"] == 1
    assert not any(report.remaining.values())


def test_what_cannot_be_deleted_at_the_provider_is_reported_and_does_not_stop_an_erasure(
    world: BatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest()
    monkeypatch.setenv("GEMINI_API_KEY", " ")
    cleared, left = abandon_jobs(world.database, TENANT)
    assert cleared == 0
    assert "needs a key" in left[0]
    assert not any(erase(world.database, TENANT).remaining.values())


def test_what_could_not_be_deleted_is_deleted_by_the_next_run(world: BatchWorld) -> None:
    world.ingest()
    world.batches.finish()
    world.batches.google.routes.insert(0, ("DELETE", ".*", error(400)))
    world.ingest()
    assert len(world.served()) == TEXTS
    assert len(world.batches.files) == 2
    del world.batches.google.routes[0]
    world.ingest()
    assert_done_and_paid_once(world)


def test_two_tenants_see_nothing_of_each_others_jobs(world: BatchWorld) -> None:
    world.ingest()
    with world.database.work("globex") as connection:
        for table in ("embedding_jobs", "embedding_job_items", "embedding_job_sources"):
            assert connection.execute(f"SELECT count(*) FROM rag.{table}").fetchone() == (0,)
    with world.database.connect("app") as connection:
        set_scope(connection, {"tenant": TENANT, "bot": BOT})
        row = connection.execute("SELECT has_table_privilege('rag.embedding_job_items', 'SELECT')").fetchone()
    assert row == (False,)
