"""What is gone from a root all at once is kept and served until somebody says that it has gone, or it is back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rag_assets.ingest.losses import is_implausible
from rag_assets.ingest.plan import Demand, make_plan
from rag_assets.ingest.roots import confirm_loss
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.sources.options import RootOptions
from rag_assets.store.database import Database
from rag_assets.store.roots import Loss, Root, RootScan, list_roots, set_options, update_scan
from tests.support.worlds import HASH_PROFILE, ingested, rewrite, write_files

THIRTY = {f"part{n % 3}/file{n:02}.md": f"The pump number {n} has a hose." for n in range(30)}


def again(database: Database, **flags: bool) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64", **flags)


def served(database: Database) -> int:
    """Sources that the profile serves."""
    with database.work("acme") as connection:
        rows = connection.execute("SELECT count(DISTINCT source_id) FROM rag.knowledge_chunks").fetchone()
    assert rows is not None
    return int(rows[0])


def only_root(database: Database) -> Root:
    with database.work("acme") as connection:
        (root,) = list_roots(connection, "acme", "support")
    return root


def remove(root: Path, numbers: Sequence[int]) -> None:
    for number in numbers:
        (root / f"part{number % 3}" / f"file{number:02}.md").unlink()


def held(report: IngestReport) -> list[tuple[int, int]]:
    return [(loss.held.sources, loss.held.of) for loss in report.sources.held]


def test_a_root_that_lists_empty_keeps_what_it_had_until_that_is_confirmed(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    remove(root, range(30))
    for _ in range(3):
        report = again(database)
        assert (report.sources.deleted, report.publication.withdrawn, served(database)) == (0, 0, 30)
        assert held(report) == [(30, 30)]
        (loss,) = report.sources.held
        for part in ("acme/support", str(root), "30 of 30", "--confirm-loss", f"rag root confirm {root}"):
            assert part in str(loss)
    report = again(database, confirm_loss=True)
    assert (report.sources.deleted, report.publication.withdrawn, served(database)) == (30, 30, 0)
    assert held(report) == held(again(database)) == []


def test_what_comes_back_ends_the_hold_without_being_embedded_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    away = root.rename(root.parent / "away")
    root.mkdir()
    assert held(again(database)) == [(30, 30)]
    root.rmdir()
    away.rename(root)
    report = again(database)
    assert held(report) == []
    assert (report.sources.unchanged, report.embeddings.embedded, report.publication.chunks_written) == (30, 0, 0)
    assert only_root(database).scan == RootScan(files=30, bytes=report.sources.bytes_read, sources=30)


def test_what_is_held_back_is_said_also_while_its_root_cannot_be_read(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    away = root.rename(root.parent / "away")
    root.mkdir()
    again(database)
    root.rmdir()
    report = again(database)
    assert (len(report.sources.unreadable_roots), held(report), served(database)) == (1, [(30, 30)], 30)
    away.rename(root)
    assert held(again(database)) == []


def test_what_is_not_back_with_the_rest_is_gone(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    remove(root, range(20))
    assert held(again(database)) == [(20, 30)]
    write_files(root, {name: text for name, text in THIRTY.items() if not name.endswith("0.md")})
    report = again(database)
    assert (held(report), report.sources.deleted, served(database)) == ([], 2, 28)


@pytest.mark.parametrize("steps", [[range(15), range(15, 30)], [range(14), range(14, 22), range(22, 30)]])
def test_a_loss_in_several_scans_is_one_loss(database: Database, root: Path, steps: list[range]) -> None:
    ingested(database, root, "acme", THIRTY)
    for step in steps:
        remove(root, step)
        report = again(database)
    assert held(report)
    assert served(database) >= 15


def test_what_was_gone_the_day_before_is_no_part_of_a_loss(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    remove(root, range(10))
    assert again(database).sources.deleted == 10
    found = only_root(database)
    assert found.scan is not None
    assert [loss.sources for loss in found.scan.losses] == [10]
    old = (Loss(at=datetime.now(UTC) - timedelta(hours=25), sources=10),)
    with database.work("acme") as connection:
        update_scan(connection, found, found.scan.model_copy(update={"losses": old}))
    remove(root, range(10, 19))
    assert (held(again(database)), served(database)) == ([], 11)


def test_other_files_in_the_place_of_the_known_ones_are_no_reason_to_believe_it(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    root.rename(root.parent / "away")
    write_files(root, {f"other{n}.md": f"Another device, file {n}." for n in range(40)})
    assert held(again(database)) == [(30, 30)]
    assert (held(again(database)), served(database)) == ([(30, 30)], 70)


def test_a_folder_that_is_sorted_anew_loses_nothing(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    for number in range(3):
        (root / f"part{number}").rename(root / f"Part {number}")
    report = again(database)
    assert (held(report), report.sources.deleted, report.embeddings.embedded, served(database)) == ([], 30, 0, 30)


@pytest.mark.parametrize("files", [1, 9])
def test_few_sources_are_taken_away_without_a_question(database: Database, root: Path, files: int) -> None:
    ingested(database, root, "acme", {f"{n}.md": f"File {n}." for n in range(files)})
    for n in range(files):
        (root / f"{n}.md").unlink()
    report = again(database)
    assert (held(report), report.sources.deleted, served(database)) == ([], files, 0)


def test_a_single_file_of_several_is_never_asked_for_whatever_it_held(database: Database, root: Path) -> None:
    rows = "".join(f'{{"id": "{n}", "text": "Record {n}."}}\n' for n in range(40))
    ingested(database, root, "acme", {"rows.jsonl": rows, "a.md": "The pump."})
    (root / "rows.jsonl").unlink()
    report = again(database)
    assert (held(report), report.sources.deleted, served(database)) == ([], 40, 1)


def test_the_only_file_of_a_root_is_not_believed_to_be_gone_with_all_its_records(
    database: Database, root: Path
) -> None:
    rows = "".join(f'{{"id": "{n}", "text": "Record {n}."}}\n' for n in range(40))
    ingested(database, root, "acme", {"rows.jsonl": rows})
    (root / "rows.jsonl").unlink()
    assert (held(again(database)), served(database)) == ([(40, 40)], 40)


def test_the_limit_of_a_root_is_its_own(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    with database.work("acme") as connection:
        set_options(connection, only_root(database), {"max_loss_percent": 10})
    remove(root, range(4))
    assert held(again(database)) == [(4, 30)]
    with database.work("acme") as connection:
        set_options(connection, only_root(database), {"max_loss_percent": 100})
    remove(root, range(4, 30))
    assert (held(again(database)), served(database)) == ([], 0)


@pytest.mark.parametrize("options", [{"exclude": ("part*/",)}, {"include": ("*.txt",)}])
def test_what_the_options_of_a_root_leave_out_is_not_lost(
    database: Database, root: Path, options: dict[str, tuple[str, ...]]
) -> None:
    ingested(database, root, "acme", THIRTY)
    with database.work("acme") as connection:
        set_options(connection, only_root(database), options)
    report = again(database)
    assert (held(report), report.sources.deleted, served(database)) == ([], 30, 0)


def test_what_a_file_of_patterns_leaves_out_all_at_once_is_held_back(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    (root / ".ragignore").write_text("*.md\n")
    assert (held(again(database)), served(database)) == ([(30, 30)], 30)
    (root / ".ragignore").unlink()
    assert (held(again(database)), served(database)) == ([], 30)


def test_held_sources_are_withdrawn_as_soon_as_that_is_confirmed(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    remove(root, range(30))
    again(database)
    assert confirm_loss(database, only_root(database)) == 30
    assert served(database) == 0
    assert confirm_loss(database, only_root(database)) == 0
    report = again(database)
    assert (held(report), report.sources.changes) == ([], 0)


def test_a_plan_says_what_would_be_held_back_and_not_that_it_would_be_deleted(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    remove(root, range(30))
    for _ in range(2):
        plan = make_plan(database, "acme", "support", [], Demand(database, "acme", HASH_PROFILE))
        assert (plan.gone, plan.held) == (0, 30)
        again(database)


def test_files_that_all_turn_unreadable_stay_served(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {f"{n}.pdf.md": f"File {n}." for n in range(12)})
    for n in range(12):
        (root / f"{n}.pdf.md").write_bytes(bytes(range(256)) * 40)
    report = again(database)
    assert (report.sources.failed, report.sources.deleted, served(database)) == (12, 0, 12)


@pytest.mark.parametrize(
    ("lost", "of", "percent", "implausible"),
    [(9, 9, 50, False), (5, 10, 50, False), (6, 10, 50, True), (10, 10, 100, False), (1, 10, 0, True)],
)
def test_more_than_the_share_of_at_least_ten_sources_is_implausible(
    lost: int, of: int, percent: int, implausible: bool
) -> None:
    assert is_implausible(lost, of, RootOptions(max_loss_percent=percent)) is implausible


def rows(numbers: Sequence[int]) -> str:
    return "".join(f'{{"id": "{n}", "text": "Record {n}."}}\n' for n in numbers)


def test_a_file_that_has_lost_most_of_its_records_keeps_them_until_that_is_confirmed(
    database: Database, root: Path
) -> None:
    ingested(database, root, "acme", {"rows.jsonl": rows(range(40)), "a.md": "The pump."})
    rewrite(root / "rows.jsonl", rows(range(4)))
    for _ in range(3):
        plan = make_plan(database, "acme", "support", [], Demand(database, "acme", HASH_PROFILE))
        assert (plan.work.sources, plan.work.to_embed) == (0, 0)
        report = again(database)
        assert (held(report), report.sources.deleted, served(database)) == ([(36, 41)], 0, 41)
    assert again(database, confirm_loss=True).sources.deleted == 36
    assert (held(again(database)), served(database)) == ([], 5)


def test_records_that_come_back_end_the_hold(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"rows.jsonl": rows(range(40))})
    rewrite(root / "rows.jsonl", rows(range(4)))
    assert held(again(database)) == [(36, 40)]
    rewrite(root / "rows.jsonl", rows(range(30)))
    report = again(database)
    assert (held(report), report.sources.deleted, report.embeddings.embedded, served(database)) == ([], 10, 0, 30)


def test_records_that_go_in_several_steps_are_one_loss(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"rows.jsonl": rows(range(40))})
    for count in (25, 15, 5):
        rewrite(root / "rows.jsonl", rows(range(count)))
        report = again(database)
    assert (held(report), served(database)) == ([(20, 25)], 25)


def test_a_file_of_which_all_records_are_others_now_has_lost_none(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"rows.jsonl": rows(range(40))})
    rewrite(root / "rows.jsonl", rows(range(100, 140)))
    report = again(database)
    assert (held(report), report.sources.deleted, served(database)) == ([], 40, 40)


def test_what_many_files_lose_of_their_records_is_one_loss_of_which_nothing_is_taken(
    database: Database, root: Path
) -> None:
    files = {f"{n}.jsonl": rows(range(3 * n, 3 * n + 3)) for n in range(20)}
    ingested(database, root, "acme", files)
    for n in range(20):
        rewrite(root / f"{n}.jsonl", rows([3 * n]))
    for _ in range(2):
        report = again(database)
        assert (held(report), report.sources.deleted, served(database)) == ([(40, 60)], 0, 60)
    write_files(root, files)
    assert (held(again(database)), served(database)) == ([], 60)
    for n in range(4):
        rewrite(root / f"{n}.jsonl", rows([3 * n]))
    report = again(database)
    assert (held(report), report.sources.deleted, served(database)) == ([], 8, 52)


EMPTY = {"file of no bytes": "", "blank": "\n \n"}


@pytest.mark.parametrize("nothing", EMPTY.values(), ids=EMPTY)
def test_files_that_are_all_empty_at_once_keep_their_texts_until_that_is_confirmed(
    database: Database, root: Path, nothing: str
) -> None:
    ingested(database, root, "acme", THIRTY)
    write_files(root, dict.fromkeys(THIRTY, nothing))
    for _ in range(3):
        plan = make_plan(database, "acme", "support", [], Demand(database, "acme", HASH_PROFILE))
        assert plan.work.sources == 0
        report = again(database)
        assert (held(report), report.sources.no_text, served(database)) == ([(30, 30)], 0, 30)
    (root / "part0/file00.md").write_text(THIRTY["part0/file00.md"])
    assert (held(again(database)), served(database)) == ([(29, 30)], 30)
    report = again(database, confirm_loss=True)
    assert (held(report), report.sources.no_text, served(database)) == ([], 29, 1)


def test_records_without_text_count_with_those_that_are_gone_and_with_files(database: Database, root: Path) -> None:
    files = {f"{n}.md": f"The pump {n}." for n in range(5)} | {"rows.jsonl": rows(range(20))}
    ingested(database, root, "acme", files)
    for n in range(5):
        (root / f"{n}.md").unlink()
    rewrite(root / "rows.jsonl", "".join(f'{{"id": "{n}", "text": ""}}\n' for n in range(5)) + rows(range(10, 20)))
    assert held(again(database)) == [(15, 25)]
    assert served(database) == 25


def test_what_was_held_back_and_is_confirmed_is_listed_as_it_is(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    write_files(root, dict.fromkeys(THIRTY, ""))
    again(database)
    assert confirm_loss(database, only_root(database)) == 30
    report = again(database)
    assert (held(report), report.sources.no_text, served(database)) == ([], 30, 0)


def test_a_few_files_that_are_emptied_hold_no_text(database: Database, root: Path) -> None:
    ingested(database, root, "acme", THIRTY)
    write_files(root, dict.fromkeys(list(THIRTY)[:4], ""))
    report = again(database)
    assert (held(report), report.sources.no_text, served(database)) == ([], 4, 26)
