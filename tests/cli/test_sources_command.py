"""`rag sources`: what a bot has, where it stands, and the life of one source."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rag_assets.ingest.run import ingest
from rag_assets.store.attempts import failed_work, record_failure
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from tests.support.command_line import Rag
from tests.support.zip_files import zip_of

FAQ = "question,answer\nIs it open?,The shop opens at nine.\nIs it far?,Two stops.\n"


@pytest.fixture
def tenant(filled: str, documents: Path) -> str:
    """A tenant with two documents, a table of questions, an archive with a locked member, and a broken picture."""
    (documents / "faq.csv").write_text(FAQ)
    (documents / "old.zip").write_bytes(zip_of({"in/note.md": "The note.", "secret.md": "x"}, locked=("secret.md",)))
    (documents / "scan.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing of a picture")
    database = Database.from_settings()
    ingest(database, filled, "b", "tiny")
    database.close()
    return filled


def listed(rag: Rag, tenant: str, *words: str) -> Any:
    return rag.json("sources", "--tenant", tenant, "--bot", "b", *words)


def test_each_record_and_member_is_listed_with_its_file_its_place_and_its_root(
    rag: Rag, tenant: str, documents: Path
) -> None:
    found = {source["name"]: source for source in listed(rag, tenant)["sources"]}
    places = {name: (source["file"], source["place"]) for name, source in found.items()}
    assert places == {
        "pump.md": ("pump.md", None),
        "returns.txt": ("returns.txt", None),
        "scan.png": ("scan.png", None),
        "Is it open?": ("faq.csv", "line 2"),
        "Is it far?": ("faq.csv", "line 3"),
        "old.zip#in/note.md": ("old.zip", "in/note.md"),
        "old.zip#secret.md": ("old.zip", "secret.md"),
    }
    assert {source["root"] for source in found.values()} == {str(documents)}
    shown = rag("sources", "--tenant", tenant, "--bot", "b").stdout
    assert "faq.csv, line 3" in shown


def test_sources_of_the_same_name_are_told_apart_by_their_roots(
    rag: Rag, filled: str, documents: Path, tmp_path: Path
) -> None:
    words = ("sources", "--tenant", filled, "--bot", "b")
    assert "root" not in rag(*words).stdout.splitlines()[1]
    other = tmp_path / "other"
    other.mkdir()
    (other / "pump.md").write_text("Another pump.")
    database = Database.from_settings()
    add_root(database, filled, "b", str(other))
    ingest(database, filled, "b", "tiny")
    database.close()
    lines = [line for line in rag(*words, "--like", "pump.md").stdout.splitlines() if line.startswith("│")]
    assert len(lines) == 2
    assert {line.split("│")[4].strip().removesuffix("…") for line in lines} == {str(other), str(documents)}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--status", "failed"), ["old.zip#secret.md", "scan.png"]),
        (("--like", "FAQ"), ["Is it open?", "Is it far?"]),
        (("--like", "line 3"), ["Is it far?"]),
        (("--like", "old", "--status", "ready"), ["old.zip#in/note.md"]),
        (("--like", "%"), []),
    ],
)
def test_the_list_is_filtered(rag: Rag, tenant: str, words: tuple[str, ...], names: list[str]) -> None:
    found = listed(rag, tenant, *words)
    assert sorted(source["name"] for source in found["sources"]) == sorted(names)
    assert found["matching"] == len(names)


def test_a_limit_says_how_many_there_are(rag: Rag, tenant: str) -> None:
    found = listed(rag, tenant, "--limit", "2")
    assert (len(found["sources"]), found["matching"]) == (2, 7)
    assert "2 of 7 sources" in rag("sources", "--tenant", tenant, "--bot", "b", "--limit", "2").stdout


def test_files_are_listed_with_what_they_hold(rag: Rag, tenant: str) -> None:
    files = {file["file"]: file for file in listed(rag, tenant, "--by-file")["files"]}
    assert (files["faq.csv"]["sources"], files["faq.csv"]["statuses"]) == (2, {"ready": 2})
    assert files["old.zip"]["statuses"] == {"ready": 1, "failed": 1}
    assert "old.zip" in rag("sources", "--tenant", tenant, "--bot", "b", "--by-file").stdout


def test_the_life_of_a_source_is_told_by_its_name_its_path_its_id_or_a_part_of_them(
    rag: Rag, tenant: str, documents: Path
) -> None:
    (life,) = listed(rag, tenant, "--show", "pump.md")["sources"]
    for name in (str(documents / "pump.md"), life["source_id"], "PUMP", life["external_id"]):
        assert listed(rag, tenant, "--show", name)["sources"] == [life]
    assert all(life[at] for at in ("root_scanned_at", "read_at", "created_at", "characters", "quality", "versions"))
    (profile,) = life["profiles"]
    assert (profile["profile"], profile["chunks"], profile["up_to_date"], profile["work"]) == ("tiny", 1, True, None)
    shown = rag("sources", "--tenant", tenant, "--bot", "b", "--show", "pump.md").stdout
    for step in ("seen", "read", "parsed", "tiny (active): 1 chunk cut, embedded and published", "next"):
        assert step in shown


def test_what_failed_says_why_and_when_it_is_tried_again(rag: Rag, tenant: str) -> None:
    (life,) = listed(rag, tenant, "--show", "secret.md")["sources"]
    assert (life["status"], life["failed_stage"]) == ("failed", "read")
    assert "password" in life["error"]
    assert "--retry-failed" in life["next_try"]


def test_of_what_failed_or_holds_no_text_only_what_is_true_is_shown(rag: Rag, tenant: str, documents: Path) -> None:
    (documents / "empty.txt").touch()
    database = Database.from_settings()
    ingest(database, tenant, "b", "tiny")
    database.close()
    way_out = f"rag ingest --tenant {tenant} --bot b --retry-failed"
    for name, steps in (
        ("scan.png", ["in", "id", "visible", "seen", "read", "failed", "next"]),
        ("empty.txt", ["in", "id", "visible", "seen", "read", "parsed", "next"]),
    ):
        lines = rag("sources", "--tenant", tenant, "--bot", "b", "--show", name).stdout.splitlines()[1:]
        told = dict(line.strip().split(maxsplit=1) for line in lines if line.strip())
        assert list(told) == steps
        assert all(told.values())
        assert way_out in told["next"]
    assert told["parsed"] == "no text: the file is empty"


def test_work_whose_attempts_fail_says_how_often_why_and_when_it_is_tried_again(
    rag: Rag, tenant: str, documents: Path
) -> None:
    (documents / "new.md").write_text("Not published yet.")
    database = Database.from_settings()
    with database.work(tenant) as connection:
        connection.execute("UPDATE rag.knowledge_sources SET checksum = 'new' WHERE name = 'pump.md'")
        for run in ("one", "two"):
            record_failure(connection, tenant, "tiny", error="no key for it", at=datetime.now(UTC), run_id=run)
        (failed,) = failed_work(connection, tenant)
    database.close()
    (life,) = listed(rag, tenant, "--show", "pump.md")["sources"]
    assert life["next_try"].startswith(f"tiny failed 2 times, next try {failed.next_try_at:%Y-%m-%d %H:%M:%S}")
    assert "no key for it" in life["next_try"]
    assert f"rag ingest --tenant {tenant} --bot b" in life["next_try"]


def test_the_line_below_a_list_names_the_roots_of_what_is_listed(
    rag: Rag, tenant: str, documents: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    database = Database.from_settings()
    add_root(database, tenant, "b", str(other))
    database.close()
    words = ("sources", "--tenant", tenant, "--bot", "b")
    assert rag(*words).stdout.rstrip().endswith(f"7 sources under: {documents}, {other}")
    assert rag(*words, "--like", "pump").stdout.rstrip().endswith(f"\n1 source under: {documents}")
    assert rag(*words, "--like", "nothing like it").stdout.rstrip().endswith("0 sources")


def test_a_file_tells_the_lives_of_all_that_is_in_it(rag: Rag, tenant: str) -> None:
    assert len(listed(rag, tenant, "--show", "faq.csv")["sources"]) == 2


@pytest.mark.parametrize(
    ("name", "said"), [("pmup.md", "did you mean 'pump.md'"), ("Is it", "Is it far? (faq.csv, line 3)")]
)
def test_an_unclear_name_is_refused_with_what_may_be_meant(rag: Rag, tenant: str, name: str, said: str) -> None:
    kind, message = rag.error("sources", "--tenant", tenant, "--bot", "b", "--show", name)
    assert kind == "UsageError"
    assert said in message


def test_what_is_held_back_says_so_and_until_when(rag: Rag, tenant: str) -> None:
    database = Database.from_settings()
    with database.work(tenant) as connection:
        connection.execute(
            "UPDATE rag.source_files SET held_since = now() WHERE tenant_id = %s AND uri LIKE '%%returns.txt'", [tenant]
        )
    database.close()
    (life,) = listed(rag, tenant, "--show", "returns.txt")["sources"]
    assert life["held_since"]
    assert "confirmed" in life["next_try"]
    assert "too much went at once" in rag("sources", "--tenant", tenant, "--bot", "b", "--show", "returns.txt").stdout


def test_who_sees_a_source_is_told_in_the_list_and_in_its_life(rag: Rag, filled: str, tmp_path: Path) -> None:
    words = ("sources", "--tenant", filled, "--bot", "b")
    assert "visible to" not in rag(*words).stdout  # all of them are the bot's
    for name in ("mine", "ours"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(f"What is {name} alone.")
    database = Database.from_settings()
    ingest(database, filled, "b", "tiny", [tmp_path / "mine"], visibility="user", user="ann@acme.example")
    ingest(database, filled, "b", "tiny", [tmp_path / "ours"], visibility="tenant")
    database.close()
    found = {one["name"]: (one["visibility"], one["user"]) for one in listed(rag, filled)["sources"]}
    assert found == {"mine.md": ("user", "ann@acme.example"), "pump.md": ("bot", None), "returns.txt": ("bot", None)}
    assert "user ann@acme.example" in rag(*words).stdout
    assert "to user ann@acme.example alone" in rag(*words, "--show", "mine.md").stdout
    assert "to all users of the bot" in rag(*words, "--show", "pump.md").stdout
    (life,) = listed(rag, filled, "--show", "mine.md")["sources"]
    assert (life["visibility"], life["user"]) == ("user", "ann@acme.example")
    shared = ("sources", "--tenant", filled, "--bot", "all-bots")
    assert [(one["visibility"], one["user"]) for one in rag.json(*shared)["sources"]] == [("tenant", None)]
    assert "to all bots of the tenant" in rag(*shared, "--show", "ours.md").stdout


@pytest.fixture
def poor(tenant: str, documents: Path) -> str:
    """The tenant with a file that is damaged, and rows of which two hang on a guess."""
    (documents / "damaged.txt").write_bytes("Die Tür ist grün und schön. ".encode() * 90 + b"\xff " * 9)
    (documents / "table.csv").write_bytes("question,answer\nGdzie?,Żółć\nKto?,Jaźń\nWhere?,Here\n".encode("cp1250"))
    database = Database.from_settings()
    ingest(database, tenant, "b", "tiny")
    database.close()
    return tenant


def test_poor_sources_are_listed_with_their_reasons(rag: Rag, poor: str) -> None:
    found = {source["name"]: source["poor"] for source in listed(rag, poor, "--poor")["sources"]}
    assert set(found) == {"damaged.txt", "Gdzie?", "Kto?"}
    assert found["damaged.txt"][0].endswith("of the characters could not be decoded")
    everything = {source["name"]: source["poor"] for source in listed(rag, poor)["sources"]}
    assert {name: reasons for name, reasons in everything.items() if reasons} == found
    words = ("sources", "--tenant", poor, "--bot", "b")
    assert "a guess" in " ".join(rag(*words, "--poor").stdout.split())
    assert "rag sources --poor" in rag(*words).stdout
    assert "could not be decoded" in rag(*words, "--show", "damaged.txt").stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--status", "failed"), []),
        (("--like", "table"), ["Gdzie?", "Kto?"]),
        (("--like", "table", "--status", "ready"), ["Gdzie?", "Kto?"]),
    ],
)
def test_poor_sources_are_filtered_like_any(rag: Rag, poor: str, words: tuple[str, ...], names: list[str]) -> None:
    assert sorted(source["name"] for source in listed(rag, poor, "--poor", *words)["sources"]) == names
    limited = listed(rag, poor, "--poor", *words, "--limit", "1")
    assert (len(limited["sources"]), limited["matching"]) == (min(1, len(names)), len(names))


def test_files_of_poor_sources_are_counted(rag: Rag, poor: str) -> None:
    files = listed(rag, poor, "--poor", "--by-file")["files"]
    assert {file["file"]: file["sources"] for file in files} == {"damaged.txt": 1, "table.csv": 2}
