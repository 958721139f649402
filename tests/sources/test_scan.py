from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rag_assets.errors import ParseError, RootUnreadable
from rag_assets.sources import scan
from rag_assets.sources.ignore import HIDDEN
from rag_assets.sources.listing import NO_PARSER, Skipped
from rag_assets.sources.scan import SourceFile, read_file, scan_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ["b.md", "a b.txt", "sub/ü.html", "sub/.hidden.md", ".git/c.md", "x.bin"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_files_are_listed_by_uri_with_size_and_time(root: Path) -> None:
    listing = scan_root(str(root))
    assert [file.path_in_root for file in listing.files] == ["a b.txt", "b.md", "sub/ü.html"]
    assert [file.uri for file in listing.files] == [
        f"{root.as_uri()}/a%20b.txt",
        f"{root.as_uri()}/b.md",
        f"{root.as_uri()}/sub/%C3%BC.html",
    ]
    assert listing.files[1].size == 4
    assert listing.files[1].mtime_ns == (root / "b.md").stat().st_mtime_ns
    assert listing.skipped == (Skipped(".git/", HIDDEN), Skipped("sub/.hidden.md", HIDDEN), Skipped("x.bin", NO_PARSER))
    assert (listing.skipped_counts, listing.errors) == ({HIDDEN: 2, NO_PARSER: 1}, ())
    assert scan_root(root.as_uri()) == listing


def test_every_listed_file_can_be_read_back(root: Path) -> None:
    assert [read_file(file).decode() for file in scan_root(str(root)).files] == [
        "a b.txt",
        "b.md",
        "sub/ü.html",
    ]


def test_a_file_name_that_is_not_utf8_is_listed_and_read(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt")).write_text("x")
    file = next(f for f in scan_root(str(root)).files if "%E9" in f.uri)
    file.path_in_root.encode()
    assert read_file(file) == b"x"


def test_a_root_may_be_one_file(root: Path) -> None:
    assert [file.path_in_root for file in scan_root(str(root / "b.md")).files] == ["b.md"]
    assert scan_root(str(root / "x.bin")).skipped == (Skipped("x.bin", NO_PARSER),)


@pytest.mark.parametrize(
    "missing",
    [
        "/no/such/folder",
        "file:///no/such",
        "relative/path",
        "memory://no-such",
        "nostore://bucket/x",
        "file://host/x",
    ],
)
def test_a_root_that_is_not_there_is_an_error_and_not_an_empty_listing(missing: str) -> None:
    with pytest.raises(RootUnreadable, match=missing.removeprefix("file://")):
        scan_root(missing)


def test_an_empty_root_is_an_empty_listing(tmp_path: Path) -> None:
    assert scan_root(str(tmp_path)).files == ()


def test_symbolic_links_neither_loop_nor_leave_the_root(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (root / "loop").symlink_to(root)
    (root / "sub" / "up").symlink_to("..")
    (root / "out").symlink_to(outside)
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "dangling.md").symlink_to("nowhere.md")
    (root / "alias.md").symlink_to(".git/c.md")
    (root / "again").symlink_to("sub")
    listing = scan_root(str(root))
    assert [f.path_in_root for f in listing.files] == ["a b.txt", "alias.md", "b.md", "sub/ü.html"]


@contextmanager
def _without_privileges() -> Iterator[None]:
    root_user = os.geteuid() == 0
    if root_user:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root_user:
            os.seteuid(0)


@pytest.fixture
def open_root() -> Iterator[Path]:
    # pytest's own folders are closed to the other user that root becomes in these tests.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    for closed in folder.rglob("*"):
        closed.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_listed_is_reported_and_the_others_are_listed(open_root: Path) -> None:
    (open_root / "closed").mkdir()
    (open_root / "closed" / "a.md").write_text("a")
    (open_root / "b.md").write_text("b")
    (open_root / "closed").chmod(0)
    with _without_privileges():
        listing = scan_root(str(open_root))
        with pytest.raises(RootUnreadable, match="Permission denied"):
            scan_root(str(open_root / "closed"))
    assert [file.path_in_root for file in listing.files] == ["b.md"]
    assert [(e.path, e.uri) for e in listing.errors] == [("closed/", f"{open_root.as_uri()}/closed/")]
    assert "Permission denied" in listing.errors[0].message


def test_a_file_that_is_gone_is_a_parse_error(root: Path) -> None:
    file = scan_root(str(root)).files[0]
    (root / "a b.txt").unlink()
    with pytest.raises(ParseError, match="No such file"):
        read_file(file)


def test_a_file_over_the_limit_is_refused_by_listed_and_by_true_size(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scan_root(str(root)).files[0]
    with pytest.raises(ParseError, match="larger than 200 MB"):
        read_file(SourceFile(file.uri, file.path_in_root, 201 * 2**20, 0))
    monkeypatch.setattr(scan, "MAX_FILE_BYTES", 3)
    with pytest.raises(ParseError, match="larger than"):
        read_file(SourceFile(file.uri, file.path_in_root, -1, 0))
