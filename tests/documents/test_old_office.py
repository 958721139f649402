"""`.doc` and `.ppt` are read by programs of the system, within bounds; what these do wrong fails one file."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from rag_assets.documents.isolated import close_workers, parse_file
from rag_assets.documents.model import Record
from tests.support.word_files import powerpoint, word

SENTENCE = "until the gauge shows three bar, then wait for ten minutes: größer, naïve, 日本."
Programs = Callable[..., Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """A function that makes these the only programs there are: by name the text of a script, or None for the real one.
    Its answer is the folder for temporary files."""
    folder, temporary = tmp_path / "bin", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()

    def only(**scripts: str | None) -> Path:
        for name, script in scripts.items():
            if script is None:
                real = shutil.which(name)
                if real is None:
                    pytest.skip(f"{name} is not installed")
                (folder / name).symlink_to(real)
            else:
                (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
                (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("TMPDIR", str(temporary))
        close_workers()
        return temporary

    yield only
    close_workers()


def one(data: bytes, name: str) -> Record:
    (record,) = parse_file(data, name)
    return record


def text(data: bytes, name: str) -> str:
    record = one(data, name)
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize("program", ["antiword", "catdoc"])
def test_a_word_file_is_read_by_whichever_program_is_there(programs: Programs, program: str) -> None:
    left = programs(**{program: None})
    record = one(word(), "manual.doc")
    assert record.document is not None, record.error
    assert record.document.text.startswith("Pump manual")
    assert SENTENCE in record.document.text
    assert record.document.content_type == "application/msword"
    assert record.document.metadata["quality"]["read_by"] == program
    assert not list(left.iterdir())


def test_a_table_that_antiword_draws_is_a_table(programs: Programs) -> None:
    programs(antiword=None)
    record = one(word(), "manual.doc")
    assert record.document is not None
    (table,) = (block for block in record.document.blocks if block.kind == "table")
    assert record.document.text[table.start : table.end] == "Part | Price\nGasket | 12.50"


def test_a_presentation_is_read_by_catppt(programs: Programs) -> None:
    programs(catppt=None)
    assert text(powerpoint("Pump für 日本", "Second slide"), "talk.ppt") == "Pump für 日本\nSecond slide"


@pytest.mark.slow
def test_libreoffice_comes_first_and_keeps_headings(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("soffice"):
        pytest.skip("LibreOffice is not installed")
    close_workers()
    record = one(word(), "manual.doc")
    assert record.document is not None, record.error
    assert record.document.metadata["quality"]["read_by"] == "LibreOffice"
    assert record.document.blocks[0].kind == "heading"
    assert "Part | Price\nGasket | 12.50" in record.document.text
    assert SENTENCE in record.document.text


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (word(), "a.doc", "LibreOffice, antiword or catdoc, of which none is installed"),
        (powerpoint("x"), "a.ppt", "LibreOffice or catppt, of which none is installed"),
        (word(), "misnamed.ppt", "save it as .docx"),
    ],
)
def test_where_no_program_is_installed_it_is_said_which_would_help(
    programs: Programs, data: bytes, name: str, said: str
) -> None:
    programs()
    record = one(data, name)
    assert record.status == "failed"
    assert said in (record.error or "")
    assert "--retry-failed" in (record.error or "")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ("echo it is too small >&2; exit 1", "cannot read it: it is too small"),
        ("exec yes flood", "writes more than 64 MB"),
        ("head -c 9000 /dev/urandom", "binary content"),
        (":", "finds no text"),
        ("sleep 60", "took more than"),
    ],
)
def test_a_program_that_fails_fails_one_file_and_says_how(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "10" if "yes" in script else "3")
    left = programs(antiword=script)
    record = one(word(), "manual.doc")
    assert record.status == "failed"
    assert said in (record.error or "")
    assert not list(left.iterdir())


def test_where_one_program_fails_the_next_one_is_asked(programs: Programs) -> None:
    programs(antiword="exit 1", catdoc="echo the text")
    assert text(word(), "manual.doc") == "the text"


def test_what_a_program_has_started_ends_with_the_file_and_its_folder_goes(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "2")
    # The inner one leaves nothing to wait for; the outer one hangs until the time of the file is over.
    left = programs(soffice="sleep 300 & sleep 301", antiword="sleep 302 & sleep 303")
    assert one(word(), "manual.doc").status == "failed"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (_sleeping() or list(left.iterdir())):
        time.sleep(0.05)
    assert _sleeping() == []
    assert list(left.iterdir()) == []


def test_a_program_sees_no_settings_reads_no_input_and_has_a_home_of_its_own(programs: Programs) -> None:
    os.environ["RAG_TEST_KEY"] = "secret"
    try:
        programs(antiword="env; echo input: $(cat | wc -c); pwd; echo $1 $2 $3 $4 $5")
        said = text(word(), "-rf $(id).doc")
    finally:
        del os.environ["RAG_TEST_KEY"]
    assert "secret" not in said
    assert "input: 0" in said
    home = next(line for line in said.splitlines() if line.startswith("HOME="))
    assert "rag-tool-" in home
    assert f"-m UTF-8.txt -w 0 {home.removeprefix('HOME=')}/in.doc" in said


def test_a_program_in_the_working_folder_is_not_run(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    left = programs(antiword="echo hostile")
    monkeypatch.chdir(left.parent / "bin")
    monkeypatch.setenv("PATH", ".")
    close_workers()
    assert "none is installed" in (one(word(), "manual.doc").error or "")


def _sleeping() -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"] in [["sleep", f"30{digit}"] for digit in "0123"]:
            found.append(process.pid)
    return found


def test_a_program_has_no_network_where_the_system_allows_that(programs: Programs) -> None:
    apart = ["unshare", "-n" if os.geteuid() == 0 else "-rn", "true"]
    if shutil.which("unshare") is None or subprocess.run(apart, capture_output=True, check=False).returncode:
        pytest.skip("this system parts no process from its network")
    programs(antiword="grep : /proc/net/dev")
    assert [line.partition(":")[0].strip() for line in text(word(), "a.doc").splitlines()] == ["lo"]
