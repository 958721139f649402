"""What is put in the place of a listed file, of a folder on the way to it, or of the root: nothing of it is read."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.errors import ParseError, RootUnreadable
from rag_assets.sources import beneath, local
from rag_assets.sources.scan import SourceFile, read_file, scan_root

SECRET = "secret of another tenant"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "acme" / "root"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "a.md").write_text("mine")
    other = tmp_path / "bolt" / "sub" / "deep"
    other.mkdir(parents=True)
    (other / "a.md").write_text(SECRET)
    return folder


def _other(root: Path) -> Path:
    return root.parent.parent / "bolt"


def _link_for_the_file(root: Path) -> None:
    (root / "sub/deep/a.md").unlink()
    (root / "sub/deep/a.md").symlink_to(_other(root) / "sub/deep/a.md")


def _link_for_its_folder(root: Path) -> None:
    shutil.rmtree(root / "sub/deep")
    (root / "sub/deep").symlink_to(_other(root) / "sub/deep")


def _link_for_a_folder_above(root: Path) -> None:
    shutil.rmtree(root / "sub")
    (root / "sub").symlink_to(_other(root) / "sub")


def _link_for_the_root(root: Path) -> None:
    shutil.rmtree(root)
    root.symlink_to(_other(root))


def _link_above_the_root(root: Path) -> None:
    shutil.rmtree(root.parent)
    (_other(root) / "root").symlink_to(".")
    root.parent.symlink_to(_other(root))


def _other_file(root: Path) -> None:
    (root / "sub/deep/a.md").unlink()
    os.link(_other(root) / "sub/deep/a.md", root / "sub/deep/a.md")


def _other_folder(root: Path) -> None:
    shutil.rmtree(root / "sub")
    shutil.move(_other(root) / "sub", root / "sub")


SWAPS = [
    *(_link_for_the_file, _link_for_its_folder, _link_for_a_folder_above, _link_for_the_root, _link_above_the_root),
    *(_other_file, _other_folder),
]


@pytest.mark.parametrize("swap", SWAPS)
def test_what_takes_the_place_of_a_listed_file_is_not_read(root: Path, swap: Callable[[Path], None]) -> None:
    (file,) = scan_root(str(root)).files
    swap(root)
    with pytest.raises(ParseError):
        read_file(file)


@pytest.mark.parametrize("swap", SWAPS[:5])
def test_a_link_put_there_while_a_file_is_opened_is_not_followed(
    root: Path, swap: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap comes at each of the steps in turn: whichever it is, nothing but the listed file is read."""
    kept = root.parent.parent / "kept"
    shutil.copytree(root.parent.parent, kept, symlinks=True)
    for step in range(20):
        for tenant in ("acme", "bolt"):
            whole = root.parent.parent / tenant
            whole.unlink() if whole.is_symlink() else shutil.rmtree(whole)
            shutil.copytree(kept / tenant, whole, symlinks=True)
        (file,) = scan_root(str(root)).files
        opened, steps = os.open, iter(range(step, -100, -1))

        def opening(*arguments: object, **more: object) -> int:
            if next(steps) == 0:  # noqa: B023
                swap(root)
            return opened(*arguments, **more)  # type: ignore[arg-type]  # noqa: B023

        monkeypatch.setattr(beneath.os, "open", opening)
        try:
            data = read_file(file)
        except ParseError:
            data = b"mine"
        monkeypatch.setattr(beneath.os, "open", opened)
        assert data == b"mine"


@pytest.mark.parametrize("swap", SWAPS[:3])
def test_a_link_put_there_while_a_folder_is_listed_is_not_followed(
    root: Path, swap: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned, done = os.scandir, list[bool]()

    def scanning(descriptor: int) -> object:
        with scanned(descriptor) as entries:
            names = [entry.name for entry in entries]
        if "deep" in names and not done:
            done.append(True)
            swap(root)
        return scanned(descriptor)

    monkeypatch.setattr(local.os, "scandir", scanning)
    listing = scan_root(str(root))
    assert done
    for file in listing.files:
        with pytest.raises(ParseError):
            read_file(file)


def test_a_link_inside_of_the_root_is_read_and_one_that_is_turned_outwards_later_is_not(root: Path) -> None:
    (root / "b.md").symlink_to("sub/deep/a.md")
    (root / "c").symlink_to("sub")
    files = {file.path_in_root: file for file in scan_root(str(root)).files}
    assert {name: read_file(file) for name, file in files.items()} == {"b.md": b"mine", "sub/deep/a.md": b"mine"}
    (root / "b.md").unlink()
    (root / "b.md").symlink_to(_other(root) / "sub/deep/a.md")
    assert read_file(files["b.md"]) == b"mine", "the file that was listed"
    assert [file.path_in_root for file in scan_root(str(root)).files] == ["sub/deep/a.md"]


def test_what_is_left_out_is_named_with_the_reason(root: Path) -> None:
    (root / "out.md").symlink_to(_other(root) / "sub/deep/a.md")
    (root / "nowhere.md").symlink_to("gone.md")
    (root / "round.md").symlink_to("round.md")
    os.mkfifo(root / "pipe.md")
    assert {one.path: one.reason for one in scan_root(str(root)).skipped} == {
        "nowhere.md": local.LEADS_NOWHERE,
        "out.md": local.LEADS_OUT,
        "pipe.md": local.NO_FILE,
        "round.md": local.LEADS_NOWHERE,
    }


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
@pytest.mark.parametrize("listed", [True, False])
def test_what_is_no_regular_file_never_blocks(root: Path, kind: str, listed: bool) -> None:
    (file,) = scan_root(str(root)).files
    path = root / "sub/deep/a.md"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as unix:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            here = os.getcwd()
            os.chdir(path.parent)
            try:
                unix.bind(path.name)  # a whole path would be too long for a socket
            finally:
                os.chdir(here)
        errors: list[Exception] = []

        def read() -> None:
            try:
                read_file(file if listed else SourceFile(file.uri, file.path_in_root, -1, 0))
            except ParseError as error:
                errors.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(20)
        assert not reader.is_alive()
    assert "no regular file" in str(errors[0])


def test_a_root_that_is_no_folder_and_no_file_never_blocks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(RootUnreadable, match="neither a folder nor a file"):
        scan_root(str(tmp_path / "pipe.md"))


def test_a_file_that_grows_or_is_written_anew_in_its_place_is_read_as_it_is(root: Path) -> None:
    (file,) = scan_root(str(root)).files
    (root / "sub/deep/a.md").write_text("mine, and longer")
    assert read_file(file) == b"mine, and longer"


def test_where_files_have_no_lasting_number_size_and_times_tell_them_apart(root: Path) -> None:
    path = root / "sub/deep/a.md"
    status = path.stat()
    place = beneath.Place.of(str(path), status, lasting=False)
    other = os.stat_result((*status[:1], status.st_ino + 1, *status[2:]), {"st_mtime_ns": 1, "st_ctime_ns": 1})
    assert place.is_that_of(status)
    assert not place.is_that_of(other)


def test_folders_without_end_are_an_error_of_their_own(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    (tmp_path / "a.md").write_text("here")
    listing = scan_root(str(tmp_path))
    assert [file.path_in_root for file in listing.files] == ["a.md"]
    assert "deeper than 256 folders" in listing.errors[0].message


def test_a_file_is_found_again_beneath_its_root_only(root: Path) -> None:
    uri = (root / "sub/deep/a.md").as_uri()
    assert read_file(local.locate(str(root), uri)) == b"mine"
    _link_for_a_folder_above(root)
    with pytest.raises(ParseError, match="outside of its root"):
        local.locate(str(root), uri)
