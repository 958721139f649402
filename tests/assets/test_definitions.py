from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg

from rag_assets.definitions import defs

GRAPH = {
    "sources": set(),
    "chunks": {"sources"},
    "profile_embeddings": {"chunks"},
    "knowledge_chunks": {"profile_embeddings"},
    "gin_index": {"knowledge_chunks"},
    "hnsw_index": {"knowledge_chunks", "gin_index"},
    "eval_dataset": {"hnsw_index", "gin_index"},
    "retrieval_run": {"eval_dataset"},
    "eval_metrics": {"retrieval_run"},
    "active_profile": {"eval_metrics"},
}


def specs() -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_the_assets_depend_on_each_other_as_drawn() -> None:
    found = {
        name: {dependency.asset_key.to_user_string() for dependency in spec.deps} for name, spec in specs().items()
    }
    assert found == GRAPH


def test_jobs_checks_schedules_and_sensors_keep_their_names() -> None:
    graph = defs.resolve_asset_graph()
    jobs = {job.name for job in defs.resolve_all_job_defs() if not job.name.startswith("__")}
    assert jobs == {"ingest_sources", "ingest_pair", "eval_gate", "promote_profile", "purge_query_log", "watch_batches"}
    assert {key.to_user_string() for key in graph.asset_check_keys} == {
        "sources:sources_readable",
        "sources:sources_quality",
        "sources:no_mass_loss",
        "hnsw_index:hnsw_recall",
        "eval_metrics:promotion_gate",
        "eval_metrics:no_regression",
    }
    schedule = defs.resolve_schedule_def("nightly_eval")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    assert (schedule.cron_schedule, schedule.job_name) == ("0 3 * * *", "eval_gate")
    purge = defs.resolve_schedule_def("purge_nightly")
    assert purge.default_status == dg.DefaultScheduleStatus.RUNNING
    assert (purge.cron_schedule, purge.job_name) == ("30 3 * * *", "purge_query_log")
    sensor = defs.resolve_sensor_def("new_sources")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert sensor.minimum_interval_seconds == 5
    batches = defs.resolve_sensor_def("embedding_batches")
    assert batches.default_status == dg.DefaultSensorStatus.RUNNING
    assert batches.minimum_interval_seconds == 60
    assert {job.name for job in batches.jobs} == {"ingest_pair", "watch_batches"}


def test_every_asset_says_what_it_is_whose_it_is_and_what_it_is_made_of() -> None:
    for name, spec in specs().items():
        assert spec.description, name
        assert spec.owners == ["team:retrieval"], name
        assert spec.kinds, name
        assert spec.group_name in {"sources", "knowledge", "indexes", "evaluation"}, name


def test_checks_are_partitioned_like_their_assets_and_only_the_gate_blocks() -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.asset_check_keys:
        assert graph.get(key).partitions_def == graph.get(key.asset_key).partitions_def, key
        assert graph.get(key).blocking == (key.name == "promotion_gate"), key


def test_definitions_load_with_no_database_and_no_network(tmp_path: Path) -> None:
    script = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('the network was used')\n"
        "socket.socket.connect = refuse\n"
        "from rag_assets.definitions import defs\n"
        "print(len(list(defs.resolve_all_asset_specs())))\n"
    )
    environment = {
        **os.environ,
        "DATABASE_URL": "postgresql://nowhere.invalid/none",
        "RAG_HOME": str(tmp_path / "never"),
    }
    began = os.times()
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(GRAPH))]
    assert not (tmp_path / "never").exists()
    assert os.times().children_user - began.children_user < 15, "it takes 2 s"
