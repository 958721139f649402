from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.command_line import Rag


def _of(tenant: str, *more: str) -> tuple[str, ...]:
    return ("--tenant", tenant, "--bot", "b", *more)


def _roots(rag: Rag, tenant: str) -> list[dict[str, object]]:
    roots: list[dict[str, object]] = rag.json("root", "list", "--tenant", tenant)["roots"]
    return roots


def test_roots_are_listed_and_shown_with_what_their_last_scan_found(rag: Rag, filled: str, documents: Path) -> None:
    (root,) = _roots(rag, filled)
    assert (root["root"], root["bot"], root["files"], root["sources"], root["held"]) == (
        str(documents),
        "b",
        2,
        2,
        None,
    )
    assert (root["error"], root["held"]) == (None, None)
    assert root["scanned_at"]
    shown = rag.json("root", "show", str(documents), *_of(filled))
    assert {name: shown[name] for name in root} == root
    assert shown["options"]["exclude"] == []
    for words in (("root", "list", "--tenant", filled), ("root", "show", str(documents), *_of(filled))):
        assert str(documents) in rag(*words).stdout


def test_a_root_is_found_by_a_relative_path_a_uri_and_its_id(
    rag: Rag, filled: str, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(documents.parent)
    (root,) = _roots(rag, filled)
    for word in ("documents", f"{documents}/", documents.as_uri(), str(root["id"])):
        assert rag.json("root", "show", word, *_of(filled))["id"] == root["id"]


def test_a_root_that_is_not_there_is_a_wrong_use_that_names_those_that_are(
    rag: Rag, filled: str, documents: Path
) -> None:
    for command in ("show", "remove", "confirm", "set"):
        more = {"remove": ("--yes",), "set": ("--encoding", "utf-8")}.get(command, ())
        kind, message = rag.error("root", command, "/no/such", *_of(filled, *more))
        assert kind == "UnknownRoot"
        assert str(documents) in message
    assert rag.error("root", "list", "--tenant", "nobody-here")[0] == "UnknownTenant"


def test_options_are_set_kept_and_unset(rag: Rag, filled: str, documents: Path) -> None:
    words = ("root", "set", str(documents), *_of(filled))
    rag(*words, "--exclude", "*.tmp", "--exclude", "drafts/", "--gitignore", "--interval", "60")
    options = rag.json(*words, "--max-loss-percent", "80")["options"]
    assert options["exclude"] == ["*.tmp", "drafts/"]
    assert (options["gitignore"], options["interval_s"], options["max_loss_percent"]) == (True, 60, 80)
    options = rag.json(*words, "--unset", "interval", "--unset", "exclude")["options"]
    assert (options["interval_s"], options["exclude"], options["gitignore"]) == (None, [], True)
    assert rag.json("root", "show", str(documents), *_of(filled))["options"] == options


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "nothing to set"),
        (("--encoding", "utf-99"), "utf-99"),
        (("--interval", "1"), "interval_s"),
        (("--exclude", "*" + "a*" * 20), "exclude"),
        (("--max-loss-percent", "101"), "max_loss_percent"),
        (("--unset", "colour"), "colour"),
        (("--gitignore", "--unset", "gitignore"), "gitignore"),
    ],
)
def test_what_a_root_cannot_be_told_is_a_wrong_use(
    rag: Rag, filled: str, documents: Path, words: tuple[str, ...], part: str
) -> None:
    kind, message = rag.error("root", "set", str(documents), *_of(filled, *words))
    assert kind in ("UsageError", "InvalidArgument")
    assert part in message


def test_a_removed_root_is_found_no_more_after_a_dry_run_and_a_question(rag: Rag, filled: str, documents: Path) -> None:
    words = ("root", "remove", str(documents), *_of(filled))
    assert rag.json(*words, "--dry-run")["withdrawn"] == 2
    assert "--yes" in rag.json(*words, code=2)["error"]["message"], "nobody can be asked for JSON"
    refused = rag(*words, answer="n\n")
    assert "nothing was removed" in refused.stdout
    assert rag.json("search", "PX-4412", *_of(filled))["results"]
    assert rag.json(*words, "--yes")["withdrawn"] == 2
    assert _roots(rag, filled) == []
    assert not rag.json("search", "PX-4412", *_of(filled))["results"]


def test_a_moved_root_is_served_as_before(rag: Rag, filled: str, documents: Path) -> None:
    before = rag.json("search", "PX-4412", *_of(filled))["results"]
    new = documents.rename(documents.parent / "moved")
    moved = rag.json("root", "move", str(documents), str(new), *_of(filled))
    assert (moved["was"], moved["root"], moved["files"], moved["sources"]) == (str(documents), str(new), 2, 2)
    assert [root["root"] for root in _roots(rag, filled)] == [str(new)]
    assert rag.json("search", "PX-4412", *_of(filled))["results"] == before
    assert rag.error("root", "move", str(new), "/no/such/place", *_of(filled))[0] == "UnknownPath"


@pytest.mark.slow
def test_an_ingest_holds_a_mass_loss_back_with_1_until_it_is_confirmed(
    rag: Rag, documents: Path, tmp_path: Path
) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for n in range(30):
        (root / f"{n}.md").write_text(f"The pump number {n}.")
    assert rag.json("ingest", str(root), *_of("lost", "--profile", "tiny"))["sources"]["ready"] == 30
    for n in range(30):
        (root / f"{n}.md").unlink()
    for _ in range(2):
        report = rag.json("ingest", *_of("lost"), code=1)
        (held,) = report["held"]
        assert (held["root"], held["sources"], held["of"]) == (str(root), 30, 30)
        assert (report["sources"]["deleted"], report["sources"]["unchanged"]) == (0, 30)
        assert report["embedded"] == 0
    assert "--confirm-loss" in rag("ingest", *_of("lost"), code=1).stdout
    assert rag.json("root", "show", str(root), *_of("lost"))["held"]["sources"] == 30
    assert rag.json("ingest", *_of("lost", "--dry-run"))["held"] == 30
    assert rag.json("root", "confirm", str(root), *_of("lost"))["withdrawn"] == 30
    assert rag.json("ingest", *_of("lost"))["held"] == []
    assert not rag.json("search", "pump", *_of("lost"))["results"]


@pytest.mark.slow
def test_a_moved_folder_is_not_read_as_a_new_root_unless_that_is_said(rag: Rag, documents: Path) -> None:
    rag("ingest", str(documents), *_of("moving", "--profile", "tiny"))
    new = documents.rename(documents.parent / "elsewhere")
    kind, message = rag.error("ingest", str(new), *_of("moving"), code=1)
    assert kind == "RootMoved"
    assert f"rag root move {documents} {new} --tenant moving --bot b" in message
    assert rag.error("ingest", str(new), *_of("moving", "--dry-run"), code=1)[0] == "RootMoved"
    assert rag.json("ingest", str(new), *_of("moving", "--dry-run", "--as-new"))["files"]["new"] == 2
    assert [root["root"] for root in _roots(rag, "moving")] == [str(documents)]
    rag("root", "move", str(documents), str(new), *_of("moving"))
    done = rag.json("ingest", str(new), *_of("moving"))
    assert (done["sources"]["unchanged"], done["sources"]["deleted"], done["embedded"]) == (2, 0, 0)


@pytest.mark.slow
def test_a_new_root_that_cannot_be_read_is_said_and_not_remembered(rag: Rag, documents: Path) -> None:
    rag("ingest", str(documents), *_of("typo", "--profile", "tiny"))
    done = rag.json("ingest", "az://no/such/folder", *_of("typo"), code=1)
    assert done["forgotten_roots"] == ["az://no/such/folder"]
    assert done["unreadable_roots"][0]["root"] == "az://no/such/folder"
    assert "not remembered" in rag("ingest", "az://no/such/folder", *_of("typo"), code=1).stdout
    assert [root["root"] for root in _roots(rag, "typo")] == [str(documents)]


@pytest.mark.slow
def test_what_a_path_is_told_is_remembered_with_it(rag: Rag, documents: Path) -> None:
    rag("ingest", str(documents), *_of("told", "--profile", "tiny", "--exclude", "*.txt", "--encoding", "cp1252"))
    options = _roots(rag, "told")[0]["options"]
    assert isinstance(options, dict)
    assert (options["exclude"], options["encoding"]) == (["*.txt"], "cp1252")
    assert rag.error("ingest", *_of("told", "--exclude", "*.md"))[0] == "UsageError"
    same = rag.json("ingest", str(documents), *_of("told", "--dry-run", "--encoding", "cp1252"))
    other = rag.json("ingest", str(documents), *_of("told", "--dry-run", "--encoding", "cp1250"))
    assert (same["files"]["changed"], other["files"]["unchanged"]) == (0, 0)
    assert other["files"]["changed"] == same["files"]["unchanged"] > 0, "a dry run says what is read anew"


def test_a_root_is_shown_without_empty_lines_and_parts_of_seconds(rag: Rag, filled: str, documents: Path) -> None:
    shown = rag("root", "show", str(documents), *_of(filled)).stdout
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line[0] == "│"]
    assert all(value for _, value in rows)
    told = dict(rows)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told["scanned at"])
    assert told["next scan at"].startswith("the next look")
    assert "error" not in told
