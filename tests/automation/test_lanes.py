"""The places of the lanes, as Dagster's queue counts them."""

from __future__ import annotations

from typing import Any, get_args

import dagster as dg
import yaml
from dagster._utils.tags import TagConcurrencyLimitsCounter

from rag_assets.partitions import TENANT_TAG
from rag_assets.runs.lanes import AFTER_TAG, LANE_TAG, Lane, longest_s
from rag_assets.settings import bundled

RUNS: dict[str, Any] = yaml.safe_load(bundled("dagster.yaml").read_text())["concurrency"]["runs"]


def run(lane: Lane, tenant: str, after: str = "") -> dg.DagsterRun:
    return dg.DagsterRun(job_name="j", tags={LANE_TAG: lane, TENANT_TAG: tenant, AFTER_TAG: after or tenant})


def waits(one: dg.DagsterRun, *under_way: dg.DagsterRun) -> bool:
    return TagConcurrencyLimitsCounter(RUNS["tag_concurrency_limits"], list(under_way)).is_blocked(one)


def test_every_lane_has_places_and_an_end_and_all_of_them_fit() -> None:
    places = {limit["value"]: limit["limit"] for limit in RUNS["tag_concurrency_limits"] if limit["key"] == LANE_TAG}
    assert set(places) == set(get_args(Lane))
    assert sum(places.values()) <= RUNS["max_concurrent_runs"], "a full lane must not keep another one out"
    assert all(longest_s(lane) > 0 for lane in get_args(Lane))


def test_what_has_failed_before_holds_one_place_however_many_there_are() -> None:
    assert waits(run("retry", "b"), run("retry", "a"))
    assert not waits(run("quick", "c"), run("retry", "a"))
    assert not waits(run("outside", "c"), run("retry", "a"))


def test_who_waits_for_servers_or_has_much_to_do_leaves_the_places_of_the_quick() -> None:
    slow = [run("outside", "a"), run("outside", "b"), run("bulk", "c"), run("retry", "d"), run("evals", "e")]
    assert not waits(run("quick", "f"), *slow)
    assert not waits(run("quick", "g"), *slow, run("quick", "f"))
    assert not waits(run("quick", "h"), *slow, run("quick", "f"), run("quick", "g"))
    assert waits(run("quick", "i"), *slow, run("quick", "f"), run("quick", "g"), run("quick", "h"))


def test_runs_of_one_tenant_wait_for_each_other_but_what_serves_not_for_a_candidate() -> None:
    assert waits(run("quick", "a"), run("quick", "a"))
    assert not waits(run("quick", "a"), run("quick", "a", "a/aside"))
    assert waits(run("quick", "a", "a/aside"), run("quick", "a", "a/aside"))
