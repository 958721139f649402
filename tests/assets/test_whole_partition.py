"""Metadata of a partition speak of all of it, with a row for each bot, whichever bot a run was for."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.partitions import pair_key
from tests.support.dagster_world import PROFILE, World

pytestmark = pytest.mark.slow  # runs of Dagster

PAIR = pair_key("acme", PROFILE.name)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = [e for e in result.get_asset_materialization_events() if e.step_key == asset]
    return {name: value.value for name, value in event.materialization.metadata.items()}


def bots(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {str(record.data["bot"]): dict(record.data) for record in found["bots"].records}


def test_a_run_for_one_bot_shows_what_all_bots_have(world: World) -> None:
    (world.tenant("acme", "help") / "a.txt").write_text("The pump is dry.")
    shop = world.tenant("acme", "shop")
    for number in range(3):
        (shop / f"{number}.txt").write_text(f"Lamp number {number}.")
    world.ingest("acme")
    (shop / "bad.pdf").write_bytes(b"%PDF-1.7 this is not one")
    world.run(SOURCES_JOB, "acme", bot="shop")

    sources, pair = world.run(SOURCES_JOB, "acme", bot="help"), world.run(PAIR_JOB, PAIR, bot="help")

    found = metadata(sources, "sources")
    assert (found["sources"], found["failed"], found["run_bot"], found["unchanged"]) == (5, 1, "help", 1)
    by_bot = bots(found)
    assert {bot: (row["sources"], row["failed"]) for bot, row in by_bot.items()} == {"help": (1, 0), "shop": (4, 1)}
    assert [record.data["source"] for record in found["failures"].records] == ["bad.pdf"]
    (check,) = [one for one in sources.get_asset_check_evaluations() if one.check_name == "sources_readable"]
    assert (check.passed, check.metadata["failed"].value) == (False, 1)
    assert [record.data["source"] for record in check.metadata["failures"].value.records] == ["bad.pdf"]

    published = metadata(pair, "knowledge_chunks")
    assert (published["serving_sources"], published["serving_chunks"], published["chunks_written"]) == (4, 4, 0)
    for asset in ("chunks", "profile_embeddings", "knowledge_chunks"):
        rows = bots(metadata(pair, asset))
        assert {bot: row["serving_chunks"] for bot, row in rows.items()} == {"help": 1, "shop": 3}, asset
    for asset in ("gin_index", "hnsw_index"):
        indexed = metadata(pair, asset)
        assert indexed["chunks"] == 4, asset
        assert {bot: row["chunks"] for bot, row in bots(indexed).items()} == {"help": 1, "shop": 3}, asset
