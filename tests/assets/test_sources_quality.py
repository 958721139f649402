"""The check that says which sources were read poorly."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rag_assets.automation.jobs import SOURCES_JOB
from rag_assets.store.roots import add_root
from tests.support.dagster_world import World

pytestmark = pytest.mark.slow  # runs of Dagster in each

DAMAGED = "Die Tür ist grün und schön. ".encode() * 90 + b"\xff " * 9


def quality_check(result: dg.ExecuteInProcessResult) -> tuple[bool, dict[str, Any]]:
    (check,) = [one for one in result.get_asset_check_evaluations() if one.check_name == "sources_quality"]
    assert check.severity == dg.AssetCheckSeverity.WARN
    assert not check.blocking
    assert check.partition == "acme"
    return check.passed, {name: value.value for name, value in check.metadata.items()}


def rows_of(table: Any) -> list[dict[str, Any]]:
    return [dict(record.data) for record in table.records]


def test_poor_sources_are_counted_by_reason_and_named_for_each_bot_and_fail_nothing(world: World) -> None:
    root, other = world.tenant("acme"), world.tenant("acme", "sales")
    (root / "good.txt").write_text("Grün, schön und gut.")
    passed, told = quality_check(world.run(SOURCES_JOB, "acme"))
    assert passed
    assert told["poor"] == 0
    (root / "damaged.txt").write_bytes(DAMAGED)
    (root / "short.txt").write_bytes("Żółć i jaźń".encode("cp1250"))
    (other / "short.txt").write_bytes("Żółć i jaźń".encode("cp1250"))
    result = world.run(SOURCES_JOB, "acme")
    assert result.success
    passed, told = quality_check(result)
    assert not passed
    assert told["poor"] == 3
    assert rows_of(told["reasons"]) == [
        {"bot": "help", "reason": "encoding_guessed", "sources": 1},
        {"bot": "help", "reason": "replacement_characters", "sources": 1},
        {"bot": "sales", "reason": "encoding_guessed", "sources": 1},
    ]
    worst = {(row["bot"], row["source"]): row["why"] for row in rows_of(told["worst"])}
    assert set(worst) == {("help", "damaged.txt"), ("help", "short.txt"), ("sales", "short.txt")}
    assert "of the characters could not be decoded" in worst["help", "damaged.txt"]
    assert worst["help", "short.txt"].startswith("the encoding is a guess (cp1250) from ")


def test_a_stated_encoding_ends_the_doubt_though_no_file_has_changed(world: World) -> None:
    root = world.tenant("acme")
    (root / "short.txt").write_bytes("Żółć i jaźń".encode("cp1250"))
    assert not quality_check(world.run(SOURCES_JOB, "acme"))[0]
    add_root(world.database, "acme", "help", str(root), {"encoding": "cp1250"})
    assert quality_check(world.run(SOURCES_JOB, "acme"))[0]
    (root / "short.txt").unlink()
    assert quality_check(world.run(SOURCES_JOB, "acme"))[0], "what has gone is not poor"
