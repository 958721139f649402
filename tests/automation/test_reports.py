"""What steps hand over reaches whoever executes their run, and nobody else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from rag_assets.ingest.chunks import ChunkReport
from rag_assets.ingest.sources import SyncReport
from rag_assets.runs.reports import add_seconds, collecting, hand_over


def test_the_newest_report_of_each_kind_is_kept_with_the_time_of_all() -> None:
    with collecting() as reports:
        for report in (ChunkReport(chunks=1), SyncReport(files=2), ChunkReport(chunks=3)):
            hand_over(report)
            add_seconds(0.5)
    assert reports.of(ChunkReport).chunks == 3
    assert reports.of(SyncReport).files == 2
    assert reports.seconds == 1.5


def test_what_no_step_has_done_is_told_apart_from_nothing_done() -> None:
    with collecting() as reports:
        hand_over(SyncReport())
    with pytest.raises(LookupError, match="ChunkReport"):
        reports.of(ChunkReport)


def test_where_nobody_collects_a_report_goes_nowhere() -> None:
    hand_over(SyncReport(files=1))
    with collecting() as reports:
        pass
    hand_over(SyncReport(files=2))
    with pytest.raises(LookupError):
        reports.of(SyncReport)


def test_runs_that_are_executed_at_once_do_not_see_each_other() -> None:
    both = Barrier(2)

    def run(number: int) -> tuple[int, float]:
        with collecting() as reports:
            both.wait()
            hand_over(SyncReport(files=number))
            add_seconds(number)
            both.wait()
            return reports.of(SyncReport).files, reports.seconds

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, (1, 2))) == [(1, 1.0), (2, 2.0)]
