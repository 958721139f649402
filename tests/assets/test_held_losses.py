from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets.automation.jobs import SOURCES_JOB
from rag_assets.ingest.roots import confirm_loss
from rag_assets.store.roots import list_roots
from tests.support.dagster_world import World, keys

pytestmark = pytest.mark.slow  # runs of Dagster in each


def filled(world: World, tenant: str = "acme", bot: str = "help") -> Path:
    root = world.tenant(tenant, bot)
    for n in range(12):
        (root / f"{n}.txt").write_text(f"The {bot} pump number {n}.")
    return root


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    (found,) = [one for one in result.get_asset_check_evaluations() if one.check_name == name]
    return found


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def root_rows(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The table of roots, by bot."""
    (event,) = result.get_asset_materialization_events()
    table = event.materialization.metadata["root_states"]
    assert isinstance(table, dg.TableMetadataValue)
    return {str(record.data["bot"]): record.data for record in table.records}


def test_a_mass_loss_is_a_failed_check_for_which_one_run_is_asked(world: World) -> None:
    root = filled(world)
    world.ingest("acme")
    for path in root.iterdir():
        path.unlink()
    requested = world.tick()
    assert keys(requested) == [(SOURCES_JOB, "acme")]
    world.obey(requested)
    for _ in range(3):
        assert isinstance(world.tick(), str), "what is held back is no work"
    assert len(world.served("acme")) == 12

    result = world.run(SOURCES_JOB, "acme")
    assert result.success
    failed = check(result, "no_mass_loss")
    assert not failed.passed
    assert str(root) in str(failed.description)
    assert "rag root confirm" in str(failed.description)
    assert metadata(result)["held"] == 12

    with world.database.work("acme") as connection:
        (found,) = list_roots(connection, "acme")
    assert confirm_loss(world.database, found) == 12
    assert world.served("acme") == []
    assert check(world.run(SOURCES_JOB, "acme"), "no_mass_loss").passed


def test_files_that_are_back_ask_for_the_run_that_ends_the_hold(world: World) -> None:
    root = filled(world)
    world.ingest("acme")
    away = root.rename(root.parent / "away")
    root.mkdir()
    world.obey(world.tick())
    assert isinstance(world.tick(), str)
    root.rmdir()
    away.rename(root)
    requested = world.tick()
    assert keys(requested) == [(SOURCES_JOB, "acme")]
    world.obey(requested)
    assert isinstance(world.tick(), str)
    assert check(world.run(SOURCES_JOB, "acme"), "no_mass_loss").passed
    assert len(world.served("acme")) == 12


def test_a_run_of_one_bot_says_what_all_roots_of_the_tenant_are_like(world: World) -> None:
    filled(world)
    lost = world.tenant("acme", "sales")
    for n in range(12):
        (lost / f"{n}.txt").write_text(f"The sales pump number {n}.")
    world.ingest("acme")
    for path in lost.iterdir():
        path.unlink()
    world.run(SOURCES_JOB, "acme", bot="sales")
    result = world.run(SOURCES_JOB, "acme", bot="help")
    assert not check(result, "no_mass_loss").passed
    rows = root_rows(result)
    assert (rows["help"]["files"], rows["help"]["sources"], rows["help"]["held"]) == (12, 12, 0)
    assert (rows["sales"]["files"], rows["sales"]["sources"], rows["sales"]["held"]) == (0, 12, 12)
