"""The eval assets measure, gate and move the pointer, and a refused candidate moves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from psycopg.conninfo import conninfo_to_dict

from evals.gate import Criterion
from evals.runner import import_set
from rag_assets.automation.jobs import EVAL_JOB, PAIR_JOB, PROMOTION_JOB, SOURCES_JOB
from rag_assets.automation.schedules import nightly_eval
from rag_assets.definitions import defs
from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.pairs import enable_pair
from rag_assets.partitions import ensure_partitions, pair_key
from rag_assets.resources import Postgres
from rag_assets.retrieval import open_scope
from rag_assets.store.profiles import add_spec
from tests.support.dagster_world import World, world_of

pytestmark = pytest.mark.slow  # runs of Dagster, or whole ingests and evaluations, in each

TOPICS = [f"{a}{b}" for a in ("cedar", "maple", "willow", "birch", "aspen") for b in "abcdefgh"]
PROFILES = {"hash-8-eval": 8, "hash-512-eval": 512}  # by name, the one that serves first
STEPS = {EVAL_JOB: ("evaluation",), PROMOTION_JOB: ("evaluation", "active_profile")}


def write_topics(root: Path) -> None:
    for topic in TOPICS:
        (root / f"{topic}.txt").write_text(f"The {topic} grows on the hill and is cut in spring by {topic} keepers.")


def write_labels(folder: Path) -> Path:
    folder.mkdir()
    queries = [{"_id": f"q{n}", "text": f"when is {topic} cut by keepers"} for n, topic in enumerate(TOPICS)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    lines = [f"q{n}\t{topic}.txt\t1" for n, topic in enumerate(TOPICS)]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def judged(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """What `judged_world` is a copy of."""
    folder = tmp_path_factory.mktemp("judged")
    with world_of(server_url, template, folder) as world:
        write_topics(world.tenant("acme", profile=None))
        for name, dimensions in PROFILES.items():
            add_spec(world.database, make_profile(name=name, provider="hash", model="hash", dimensions=dimensions))
            enable_pair(world.database, "acme", "help", name)
        ensure_partitions(world.instance, ["acme"], list(PROFILES))
        assert world.run(SOURCES_JOB, "acme").success
        for name in PROFILES:
            assert world.run(PAIR_JOB, pair_key("acme", name)).success
        import_set(world.database, "acme", "help", write_labels(folder / "labels"))
        world.database.close()
        yield world


@pytest.fixture
def judged_world(server_url: str, judged: World, tmp_path: Path) -> Iterator[World]:
    """A bot that serves a weak profile, with a strong candidate built beside it, and forty labelled queries."""
    write_topics(judged.folder / "acme" / "help")
    name = conninfo_to_dict(judged.database.url)["dbname"]
    with world_of(server_url, str(name), tmp_path, judged.folder) as world:
        ensure_partitions(world.instance, ["acme"], list(PROFILES))
        yield world


@pytest.fixture(autouse=True)
def _latency_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does; what the gate says of it is tried with given numbers."""
    met = Criterion("latency", True, None, None, "not looked at")
    monkeypatch.setattr("evals.gate._latency", lambda given, policy: met)


def run(world: World, job: str, profile: str, **config: Any) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def(job).execute_in_process(
        instance=world.instance,
        partition_key=pair_key("acme", profile),
        run_config={
            "ops": {step: {"config": {"mode": "dense"} | config} for step in STEPS[job]},
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        raise_on_error=False,
    )


def checks(result: dg.ExecuteInProcessResult, name: str = "promotion_gate") -> list[bool]:
    return [found.passed for found in result.get_asset_check_evaluations() if found.check_name == name]


def regression(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (found,) = [one for one in result.get_asset_check_evaluations() if one.check_name == "no_regression"]
    return found


def tonight(world: World) -> list[dg.RunRequest] | dg.SkipReason:
    """What the schedule asks for, on an instance that does not know the partitions yet."""
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(
            instance=instance, scheduled_execution_time=datetime(2026, 3, 1, 3, tzinfo=UTC)
        )
        found = nightly_eval(context, postgres=Postgres(url=world.database.url))
        if isinstance(found, list):
            assert instance.get_dynamic_partitions("tenant")
        assert isinstance(found, list | dg.SkipReason)
        return found


def active(world: World) -> str:
    return open_scope(world.database, "acme", "help").profile.name


def test_a_better_candidate_passes_the_gate_and_is_promoted(judged_world: World) -> None:
    measured = run(judged_world, EVAL_JOB, "hash-512-eval")
    assert measured.success
    assert checks(measured) == [True]
    assert active(judged_world) == "hash-8-eval", "judging alone moves nothing"
    (metrics,) = [
        event.materialization
        for event in measured.get_asset_materialization_events()
        if event.materialization.asset_key.to_user_string() == "eval_metrics"
    ]
    recall = metrics.metadata["recall@5"].value
    assert isinstance(recall, float)
    assert recall > 0.9
    assert "# " in str(metrics.metadata["report"].value)
    assert run(judged_world, PROMOTION_JOB, "hash-512-eval").success
    assert active(judged_world) == "hash-512-eval"


@pytest.mark.slow
def test_a_worse_candidate_is_refused_with_its_reasons_and_the_pointer_stays(judged_world: World) -> None:
    assert run(judged_world, PROMOTION_JOB, "hash-512-eval").success
    result = run(judged_world, PROMOTION_JOB, "hash-8-eval")
    assert not result.success
    assert checks(result) == [False]
    assert active(judged_world) == "hash-512-eval"


def test_the_active_profile_is_measured_and_its_check_passes(judged_world: World) -> None:
    result = run(judged_world, EVAL_JOB, "hash-8-eval")
    assert result.success
    assert checks(result) == [True]


def test_too_few_queries_promote_nothing(judged_world: World) -> None:
    assert not run(judged_world, PROMOTION_JOB, "hash-512-eval", min_queries=1000).success
    assert active(judged_world) == "hash-8-eval"


def test_a_bot_without_labels_is_told_how_to_bring_some(world: World) -> None:
    root = world.tenant("bare")
    (root / "a.txt").write_text("A fact.")
    world.ingest("bare")
    result = defs.resolve_job_def(EVAL_JOB).execute_in_process(
        instance=world.instance, partition_key=pair_key("bare", "hash-64"), raise_on_error=False
    )
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "rag eval import" in str(failure.step_failure_data.error)


@pytest.mark.slow
def test_a_fall_of_recall_since_the_run_before_is_told_with_both_numbers(judged_world: World) -> None:
    assert run(judged_world, PROMOTION_JOB, "hash-512-eval").success
    first = regression(run(judged_world, EVAL_JOB, "hash-512-eval"))
    assert first.passed
    for path in sorted((judged_world.folder / "acme" / "help").glob("*.txt"))[:10]:
        path.write_text("This page is empty now.")
    assert judged_world.run(SOURCES_JOB, "acme").success
    assert judged_world.run(PAIR_JOB, pair_key("acme", "hash-512-eval")).success
    result = run(judged_world, EVAL_JOB, "hash-512-eval")
    assert result.success, "a fall is told and blocks nothing"
    fallen = regression(result)
    assert not fallen.passed
    assert fallen.severity == dg.AssetCheckSeverity.WARN
    assert fallen.description is not None
    assert "help: Recall@5 went from 1.0000 (run" in fallen.description
    assert "to 0.75" in fallen.description


@pytest.mark.slow
def test_the_first_run_of_a_profile_has_nothing_to_fall_from_and_other_modes_do_not_count(judged_world: World) -> None:
    for mode in ("lexical", "dense"):
        found = regression(run(judged_world, EVAL_JOB, "hash-8-eval", mode=mode))
        assert found.passed
        assert "no earlier run" in (found.description or "")


@pytest.mark.slow
def test_every_night_what_serves_is_measured_once(judged_world: World) -> None:
    (judged_world.tenant("bare") / "a.txt").write_text("A fact.")
    judged_world.ingest("bare")

    def requests() -> list[dg.RunRequest]:
        found = tonight(judged_world)
        assert isinstance(found, list)
        return found

    (request,) = requests()
    assert request.run_key == "nightly:acme:hash-8-eval:2026-03-01"
    assert request.partition_key == pair_key("acme", "hash-8-eval")
    assert run(judged_world, PROMOTION_JOB, "hash-512-eval").success
    assert [found.partition_key for found in requests()] == [pair_key("acme", "hash-512-eval")]


def test_a_night_with_nothing_to_measure_says_so(world: World) -> None:
    found = tonight(world)
    assert isinstance(found, dg.SkipReason)
    assert "labelled queries" in (found.skip_message or "")
