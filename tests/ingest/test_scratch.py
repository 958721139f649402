"""Folders of what is cut and not published yet: none outlives its process for long, none is taken from a live one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rag_assets.ingest.scratch import scratch_folder

KILLED = (
    "import os, signal\n"
    "from rag_assets.ingest.scratch import scratch_folder\n"
    "with scratch_folder() as folder:\n"
    "    (folder / 'cut').write_text('a text of a tenant')\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_what_a_killed_process_left_goes_with_the_next(place: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == -9
    (left,) = place.iterdir()
    with scratch_folder() as folder:
        assert not left.exists()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []


def test_nobody_takes_the_folder_of_one_that_is_at_work(place: Path) -> None:
    with scratch_folder() as first:
        (first / "cut").write_text("a text")
        with scratch_folder() as second:
            assert first != second
        assert (first / "cut").read_text() == "a text"


def test_nothing_but_folders_of_its_own_is_taken_away(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    (place / "rag-ingest-link").symlink_to(elsewhere)
    (place / "rag-ingest-file").write_text("kept")
    (place / "rag-other").mkdir()
    with scratch_folder():
        pass
    assert (elsewhere / "kept").exists()
    assert {path.name for path in place.iterdir()} == {"elsewhere", "rag-ingest-link", "rag-ingest-file", "rag-other"}
