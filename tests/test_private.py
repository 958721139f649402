"""What holds tenants' documents is for nobody else on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from upath import UPath

from rag_assets.ingest.chunk_files import spool
from rag_assets.io_managers import make_folder
from rag_assets.private import close_to_others, make_private
from rag_assets.store.server import stop_server
from tests.support.imports import HOUSE

OTHERS = 0o077


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """As most systems have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_paths(folder: Path) -> list[str]:
    """What others may do anything with, in a folder and below."""
    found = [folder, *folder.rglob("*")]
    return [
        f"{path} {path.stat().st_mode & 0o777:o}"
        for path in found
        if path.lstat().st_mode & OTHERS and not path.is_symlink() and not path.is_socket()  # its folder is what counts
    ]


def test_staged_tables_are_for_nobody_else_whatever_process_writes_them(tmp_path: Path) -> None:
    base = tmp_path / "given" / "base"
    folder = UPath(base / "acme" / "hash-64")
    make_folder(folder, UPath(base))
    table = pa.table({"a": [1]})
    spool([table], table.schema, Path(folder.path))
    assert open_paths(tmp_path / "given") == []


def test_a_base_of_ones_own_stays_as_it_is_and_what_is_ours_in_it_is_closed(tmp_path: Path) -> None:
    base = tmp_path / "shared"
    old = base / "acme" / "hash-64"
    old.mkdir(parents=True)
    (base / "of somebody").mkdir()
    (old / "chunks.parquet").write_text("as an earlier version left it")
    make_folder(UPath(old), UPath(base))
    assert open_paths(base / "acme") == []
    assert base.stat().st_mode & 0o777 == 0o755
    assert (base / "of somebody").stat().st_mode & 0o777 == 0o755


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        make_private(tmp_path / "file" / "acme" / "hash-64")


def test_a_folder_that_was_open_is_closed_with_all_in_it_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, outside = tmp_path / "dagster", tmp_path / "outside"
    (home / "storage" / "run" / "compute_logs").mkdir(parents=True)
    (home / "storage" / "run" / "compute_logs" / "a.err").write_text("")
    program = home / "program"
    program.write_text("")
    program.chmod(0o755)
    outside.write_text("")
    (home / "link").symlink_to(outside)
    make_private(home)
    close_to_others(home)
    assert open_paths(home) == []
    assert program.stat().st_mode & 0o777 == 0o700
    assert outside.stat().st_mode & 0o777 == 0o644, "what a link names is not in the folder"
    assert len(caplog.records) == 1
    assert str(home) in caplog.text
    assert "drwxr-xr-x" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns nothing of others and can still change it")
def test_what_belongs_to_another_user_stays(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "theirs").write_text("")
    os.chown(folder / "theirs", 65534, 65534)
    close_to_others(folder)
    assert (folder / "theirs").stat().st_mode & 0o777 == 0o644
    os.chown(folder, 65534, 65534)
    folder.chmod(0o755)
    close_to_others(folder)
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.slow
def test_a_command_makes_nothing_that_others_can_read_and_closes_what_was_open(tmp_path: Path) -> None:
    """From the first command on a new home, in a folder that a careful person has closed, to reports."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home, documents = closed / "home", closed / "documents"
    documents.mkdir()
    (documents / "a.txt").write_text("The pump is dry.")
    (home / "dagster" / "logs").mkdir(parents=True)
    environment = {**os.environ, "RAG_HOME": str(home), "PYTHONPATH": str(HOUSE)}
    for name in ("DATABASE_URL", "RAG_STORAGE", "DAGSTER_PG_URL"):
        environment.pop(name, None)
    rag = Path(sys.executable).with_name("rag")

    def run(*words: str) -> str:
        done = subprocess.run([rag, *words], env=environment, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    scope = ("--tenant", "acme", "--bot", "help")
    try:
        said = run("ingest", str(documents), *scope, "--profile", "static-64")
        assert f"{home / 'dagster'} was open to others" in said
        run("search", "pump", *scope)
        run("inspect", str(documents / "a.txt"), "--html", str(closed / "page.html"))
        assert (home / "storage" / "acme" / "static-64" / "bots" / "help" / "chunks.parquet").is_file()
        for part in ("dagster", "storage", "postgres"):
            assert open_paths(home / part) == []
        assert [path.name for path in home.iterdir() if path.is_file() and path.stat().st_mode & OTHERS] == []
        assert (closed / "page.html").stat().st_mode & OTHERS == 0
    finally:
        stop_server(home)
