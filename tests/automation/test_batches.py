from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest

from rag_assets.automation.embedding_batches import WATCH_JOB, embedding_batches, watch_batches
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.embedding import registry
from rag_assets.embedding.providers.google import GoogleEmbedder
from rag_assets.ingest.pairs import enable_pair
from rag_assets.partitions import TENANT_TAG, ensure_partitions, pair_key
from rag_assets.resources import Postgres
from rag_assets.store.limits import set_profile_settings
from rag_assets.store.profiles import add_spec
from rag_assets.store.retirement import retire
from tests.support.batch_world import FEWEST, text_of
from tests.support.batch_world import PROFILE as BATCH_PROFILE
from tests.support.dagster_world import World, keys
from tests.support.google_batch_server import Batches, google_batches
from tests.support.google_server import error

TEXTS = 8
PAIR = (PAIR_JOB, pair_key("acme", BATCH_PROFILE.name))


@pytest.fixture
def batches(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batches]:
    """The stand-in provider; `world` has the tenant `acme` with eight files that have been handed over to it."""
    monkeypatch.setenv("RAG_BATCH_MIN_ITEMS", str(FEWEST))
    monkeypatch.setattr(registry, "_loaded", {})
    with google_batches(monkeypatch) as running:
        add_spec(world.database, BATCH_PROFILE)
        set_profile_settings(world.database, BATCH_PROFILE.name, mode="batch")
        root = world.tenant("acme", profile=None)
        enable_pair(world.database, "acme", "help", BATCH_PROFILE.name)
        ensure_partitions(world.instance, [], [BATCH_PROFILE.name])
        for number in range(TEXTS):
            (root / f"{number}.txt").write_text(text_of(number))
        world.ingest("acme", BATCH_PROFILE.name)
        assert len(running.jobs) == 1
        yield running
        for embedder in registry._loaded.values():
            if isinstance(embedder, GoogleEmbedder):
                embedder.close()


def tick(world: World) -> list[dg.RunRequest] | str:
    """A tick after the run that looks at the jobs."""
    watch(world)
    return ask(world)


def ask(world: World, looked_s_ago: float = 0.0) -> list[dg.RunRequest] | str:
    """One tick: what it requests, or why it requests nothing."""
    cursor = json.dumps({"acme": time.time() - looked_s_ago})
    context = dg.build_sensor_context(instance=world.instance, cursor=cursor)
    result: Any = embedding_batches(context, postgres=Postgres(url=world.database.url))
    if isinstance(result, dg.SkipReason):
        return result.skip_message or ""
    return result.run_requests or result.skip_reason.skip_message


def watch(world: World) -> None:
    """The run that looks at a tenant's jobs."""
    watch_batches.execute_in_process(
        partition_key="acme",
        resources={"postgres": Postgres(url=world.database.url)},
        instance=world.instance,
    )


def test_the_sensor_asks_no_provider_and_has_a_run_ask_more_seldom_the_older_a_job_is(
    world: World, batches: Batches
) -> None:
    before = len(batches.google.arrived)
    (request,) = ask(world, looked_s_ago=3600)
    assert isinstance(request, dg.RunRequest)
    assert (request.job_name, request.tags[TENANT_TAG]) == (WATCH_JOB, "acme")
    assert ask(world, looked_s_ago=30) == "no batch job has ended yet, of 1 tenant"
    with psycopg.connect(world.database.url) as connection:
        connection.execute("UPDATE rag.embedding_jobs SET created_at = now() - interval '1 hour'")
    assert isinstance(ask(world, looked_s_ago=350), str)
    assert isinstance(ask(world, looked_s_ago=370), list)
    assert len(batches.google.arrived) == before
    watch(world)
    assert len(batches.google.arrived) > before


@pytest.mark.slow
def test_a_job_is_waited_for_and_its_pair_run_when_it_has_ended(world: World, batches: Batches) -> None:
    assert tick(world) == "no batch job has ended yet, of 1 tenant"
    batches.finish()
    requested = tick(world)
    assert keys(requested) == [PAIR]
    world.obey(requested)
    assert world.served("acme") == [text_of(number) for number in range(TEXTS)]
    assert tick(world) == "no batch job is open"
    assert str(world.tick()).startswith("nothing new")


def test_chunks_that_wait_for_a_job_are_no_work_for_another_run(world: World, batches: Batches) -> None:
    assert str(world.tick()).startswith("nothing new")
    (world.folder / "acme" / "help" / "new.txt").write_text("One more file.")
    world.obey(world.tick())
    assert keys(world.tick()) == [PAIR], "what is new does not wait for the job"
    world.obey(world.tick())
    assert world.served("acme") == ["One more file."]
    assert str(world.tick()).startswith("nothing new")


def test_the_sensor_of_sources_collects_a_job_that_has_ended_as_well(world: World, batches: Batches) -> None:
    batches.finish()
    tick(world)  # notes that it has ended; its request is not obeyed
    assert keys(world.tick()) == [PAIR]


def test_a_job_of_which_the_deadline_has_passed_is_due_without_the_provider(world: World, batches: Batches) -> None:
    with psycopg.connect(world.database.url) as connection:
        connection.execute("UPDATE rag.embedding_jobs SET deadline = now()")
    before = len(batches.google.arrived)
    assert keys(tick(world)) == [PAIR]
    assert len(batches.google.arrived) == before
    assert keys(world.tick()) == [PAIR]


def test_a_pair_or_tenant_that_is_busy_is_left_alone(world: World, batches: Batches) -> None:
    batches.finish()
    running = dg.DagsterRun(job_name=SOURCES_JOB, tags={TENANT_TAG: "acme"}, status=dg.DagsterRunStatus.STARTING)
    world.instance.add_run(running)
    assert "waiting for a run that is under way" in str(tick(world))
    world.instance.report_run_failed(running)
    (request,) = tick(world)
    assert isinstance(request, dg.RunRequest)
    queued = dg.DagsterRun(
        job_name=PAIR_JOB,
        tags={**request.tags, TENANT_TAG: "acme", "dagster/partition/profile": BATCH_PROFILE.name},
        status=dg.DagsterRunStatus.STARTING,
    )
    world.instance.add_run(queued)
    assert "waiting for a run that is under way" in str(tick(world))


def test_a_run_that_failed_to_collect_is_asked_for_again_under_another_key(world: World, batches: Batches) -> None:
    batches.finish()
    (request,) = tick(world)
    assert isinstance(request, dg.RunRequest)
    tags = {**request.tags, "dagster/partition/profile": BATCH_PROFILE.name}
    failed = dg.DagsterRun(job_name=PAIR_JOB, tags=tags, status=dg.DagsterRunStatus.STARTED)
    world.instance.add_run(failed)
    world.instance.report_run_failed(failed)
    world.tick()  # notes how it ended
    assert "next try" in str(tick(world))
    with world.database.work("acme") as connection:
        connection.execute("UPDATE rag.work_attempts SET next_try_at = now()")
    (again,) = tick(world)
    assert isinstance(again, dg.RunRequest)
    assert again.run_key == f"{request.run_key}:after-{failed.run_id}"


def test_a_job_of_a_retired_profile_waits_for_one_of_the_same_model(world: World, batches: Batches) -> None:
    batches.finish()
    retire(world.database, "acme", "help", BATCH_PROFILE.name)
    assert "no batch job has ended" in str(tick(world))
    twin = BATCH_PROFILE.model_copy(update={"name": "gemini-twin"})
    add_spec(world.database, twin)
    enable_pair(world.database, "acme", "help", twin.name)
    assert keys(tick(world)) == [(PAIR_JOB, pair_key("acme", twin.name))]


def test_a_provider_that_does_not_answer_is_asked_again_later(world: World, batches: Batches) -> None:
    batches.finish()
    batches.google.routes.insert(0, ("GET", ".*", error(503)))
    assert tick(world) == "no batch job has ended yet, of 1 tenant"
    del batches.google.routes[0]
    assert keys(tick(world)) == [PAIR]


def test_without_open_jobs_no_tenant_is_looked_at(world: World) -> None:
    world.tenant("acme")
    with psycopg.connect(world.database.url, autocommit=True) as connection:
        # Whatever reads the table itself, and not through the function that names the tenants, fails from here on.
        connection.execute("REVOKE ALL ON rag.embedding_jobs FROM rag_ingest")
    assert ask(world) == "no batch job is open"


def test_a_database_that_does_not_answer_is_a_reason_to_skip(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = embedding_batches(
            dg.build_sensor_context(instance=instance),
            postgres=Postgres(url=f"postgresql://nobody@/none?host={tmp_path}"),
        )
    assert isinstance(result, dg.SkipReason)
    assert "cannot connect to database none" in (result.skip_message or "")
