"""The eval assets measure, gate and move the pointer, and a refused candidate moves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_world import World

from evals.runner import import_set
from rag_assets.automation.jobs import EVAL_JOB, PAIR_JOB, PROMOTION_JOB, SOURCES_JOB
from rag_assets.definitions import defs
from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.pairs import enable_pair
from rag_assets.partitions import ensure_partitions, pair_key
from rag_assets.retrieval import open_scope
from rag_assets.store.profiles import add_spec

TOPICS = [f"{a}{b}" for a in ("cedar", "maple", "willow", "birch", "aspen") for b in "abcdefgh"]
STEPS = {EVAL_JOB: ("evaluation",), PROMOTION_JOB: ("evaluation", "active_profile")}


@pytest.fixture
def judged_world(world: World, tmp_path: Path) -> World:
    """A bot that serves a weak profile, with a strong candidate built beside it, and forty labelled queries."""
    root = world.tenant("acme", profile=None)
    for topic in TOPICS:
        (root / f"{topic}.txt").write_text(f"The {topic} grows on the hill and is cut in spring by {topic} keepers.")
    for dimensions in (8, 512):
        name = f"hash-{dimensions}-eval"
        add_spec(world.database, make_profile(name=name, provider="hash", model="hash", dimensions=dimensions))
        enable_pair(world.database, "acme", "help", name)
        ensure_partitions(world.instance, ["acme"], [name])
    assert world.run(SOURCES_JOB, "acme").success
    for name in ("hash-8-eval", "hash-512-eval"):
        assert world.run(PAIR_JOB, pair_key("acme", name)).success
    labels = tmp_path / "labels"
    labels.mkdir()
    queries = [{"_id": f"q{n}", "text": f"when is {topic} cut by keepers"} for n, topic in enumerate(TOPICS)]
    (labels / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    lines = [f"q{n}\t{topic}.txt\t1" for n, topic in enumerate(TOPICS)]
    (labels / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")
    import_set(world.database, "acme", "help", labels)
    return world


def run(world: World, job: str, profile: str, **config: Any) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def(job).execute_in_process(
        instance=world.instance,
        partition_key=pair_key("acme", profile),
        run_config={
            "ops": {step: {"config": {"mode": "dense", **config}} for step in STEPS[job]},
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        raise_on_error=False,
    )


def checks(result: dg.ExecuteInProcessResult) -> list[bool]:
    return [evaluation.passed for evaluation in result.get_asset_check_evaluations()]


def active(world: World) -> str:
    return open_scope(world.database, "acme", "help")[1].name


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
    assert metrics.metadata["recall@5"].value > 0.9
    assert "# " in str(metrics.metadata["report"].value)
    assert run(judged_world, PROMOTION_JOB, "hash-512-eval").success
    assert active(judged_world) == "hash-512-eval"


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
