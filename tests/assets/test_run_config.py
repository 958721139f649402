"""Whoever may start a run chooses a partition, a bot and how to measure, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._config.config_type import ConfigType
from dagster._config.source import BoolSource, IntSource, StringSource

from rag_assets.automation.jobs import EVAL_JOB, PAIR_JOB, PROMOTION_JOB, SOURCES_JOB
from rag_assets.definitions import defs
from rag_assets.errors import InvalidKey
from rag_assets.io_managers import ParquetIOManager, staging_folder
from rag_assets.partitions import pair_key, tenant_profile
from tests.support.dagster_world import PROFILE, STEPS, World

SECRET = "AIza-what-nobody-may-see"
FROM_ENVIRONMENT: tuple[ConfigType, ...] = (StringSource, IntSource, BoolSource)


def types_of(config: ConfigType) -> Iterator[ConfigType]:
    seen: dict[str, ConfigType] = {}
    waiting = [config]
    while waiting:
        one = waiting.pop()
        if one.key not in seen:
            seen[one.key] = one
            waiting += [field.config_type for field in getattr(one, "fields", {}).values()]
            waiting += [part for part in (getattr(one, "inner_type", None),) if part]
            waiting += [getattr(one, name) for name in ("scalar_type", "non_scalar_type") if hasattr(one, name)]
    return iter(seen.values())


@pytest.mark.parametrize("job", [SOURCES_JOB, PAIR_JOB, EVAL_JOB, PROMOTION_JOB, "__ASSET_JOB"])
def test_no_run_reads_a_variable_of_the_environment_or_configures_a_resource(job: str) -> None:
    """`__ASSET_JOB` is what Materialize starts where the selection is no job of ours."""
    definition = defs.get_repository_def().get_job(job)
    schema = definition.run_config_schema.run_config_schema_type
    assert [one for one in types_of(schema) if one in FROM_ENVIRONMENT] == []
    resources = schema.fields["resources"].config_type.fields  # type: ignore[attr-defined]
    configs = {name: field.config_type.fields["config"].config_type for name, field in resources.items()}
    assert {name: config.fields for name, config in configs.items()} == {name: {} for name in configs}
    assert {"postgres", "io_manager"} <= set(configs)


def run(world: World, config: dict[str, Any], job: str = PAIR_JOB) -> str:
    """All that a run with this configuration says, be it in its error or in its events."""
    key = pair_key("acme", PROFILE.name) if job == PAIR_JOB else "acme"
    said: list[str] = []
    try:
        defs.resolve_job_def(job).execute_in_process(
            instance=world.instance, partition_key=key, run_config=config, raise_on_error=False
        )
    except Exception as error:  # what Dagster raises before a run begins
        said.append(repr(error) + str(error.__cause__))
    for recorded in world.instance.get_runs():
        said += [str(event) for event in world.instance.all_logs(recorded.run_id)]
    return "\n".join(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        {"resources": {"postgres": {"config": {"url": {"env": "GEMINI_API_KEY"}}}}},
        {"resources": {"postgres": {"config": {"url": "postgresql://else/where"}}}},
        {"resources": {"io_manager": {"config": {"base": {"env": "GEMINI_API_KEY"}}}}},
        {"ops": {"chunks": {"config": {"bot": {"env": "GEMINI_API_KEY"}}}}},
        {"ops": {"chunks": {"config": {"batch": {"env": "GEMINI_API_KEY"}}}}},
    ],
    ids=str,
)
def test_a_run_that_asks_for_more_is_refused_and_no_secret_is_told(
    world: World, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    world.tenant("acme")
    said = run(world, config)
    assert SECRET not in said
    assert "Error" in said
    assert [one for one in world.instance.get_runs() if one.is_success] == []


@pytest.mark.slow
def test_no_run_writes_where_its_configuration_says(world: World, tmp_path: Path) -> None:
    (world.tenant("acme") / "a.txt").write_text("The pump is dry.")
    assert world.run(SOURCES_JOB, "acme").success
    elsewhere = tmp_path / "elsewhere"
    run(world, {"resources": {"io_manager": {"config": {"base": str(elsewhere)}}}})
    assert not elsewhere.exists()


@pytest.mark.slow
def test_a_bot_of_another_tenant_is_none_of_this_one(world: World) -> None:
    (world.tenant("acme", "ours") / "a.txt").write_text("The pump is dry.")
    (world.tenant("globex", "theirs") / "b.txt").write_text("The valve is shut.")
    for job, key in ((SOURCES_JOB, "acme"), (PAIR_JOB, pair_key("acme", PROFILE.name))):
        result = world.run(job, key, bot="theirs")
        assert not result.success
        (failure, *_) = [event for event in result.all_events if event.is_step_failure]
        assert "theirs" in str(failure.step_failure_data.error)
    assert world.served("globex") == []
    assert set(STEPS) == {SOURCES_JOB, PAIR_JOB}


@pytest.mark.parametrize("part", ["..", "../globex", "/etc", "a/b", "", ".", "acme\n", "C:\\", "%2e%2e"])
def test_no_partition_leads_out_of_the_storage(part: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidKey):
        staging_folder(part, str(tmp_path))

    @dg.asset(partitions_def=tenant_profile)
    def table() -> None: ...

    for tenant, profile in (("acme", part), (part, "hash-64")):
        key = dg.MultiPartitionKey({"tenant": tenant, "profile": profile}) if part else None
        if key is not None:
            with pytest.raises(InvalidKey):
                ParquetIOManager(str(tmp_path))._path(key, table.key)
    if part:
        key = dg.MultiPartitionKey({"tenant": "acme", "profile": "hash-64"})
        with pytest.raises(InvalidKey):
            ParquetIOManager(str(tmp_path))._path(key, table.key, part)
