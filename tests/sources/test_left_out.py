"""What of a folder is not read: by its name, by what programs fill, by the patterns of its owner."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rag_assets.errors import InvalidArgument, RootUnreadable
from rag_assets.sources import ignore
from rag_assets.sources.listing import NAMED_SKIPPED, NO_PARSER, RootListing
from rag_assets.sources.options import RootOptions
from rag_assets.sources.patterns import EXCLUDED, NOT_INCLUDED, compiled
from rag_assets.sources.scan import scan_root


def _made(root: Path, files: dict[str, str] | list[str]) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name] if isinstance(files, dict) else name)
    return root


def _names(listing: RootListing) -> list[str]:
    assert listing.errors == ()
    return [file.path_in_root for file in listing.files]


def _reasons(listing: RootListing) -> dict[str, str]:
    return {one.path: one.reason for one in listing.skipped}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, ignore.LOCK) for name in ("~$report.docx", ".~lock.x.odt#", "~WRL0001.tmp", "x.tmp", ".a.md.swp")),
        *((name, ignore.LOCK) for name in ("4913", "#x.md#", "x.md~", ".#x.md", "a.laccdb", "~WRD0000.TMP")),
        *((name, ignore.SYSTEM) for name in ("Thumbs.db", "desktop.ini", ".DS_Store", "._a.md", "THUMBS.DB")),
        *((name, ignore.DOWNLOAD) for name in ("a.pdf.crdownload", "a.pdf.part", "a.partial", "a.download", "x.aria2")),
        (".env", ignore.HIDDEN),
    ],
)
def test_what_nobody_wrote_to_be_read_is_left_out_and_counted(tmp_path: Path, name: str, reason: str) -> None:
    _made(tmp_path, ["report.docx", name])
    listing = scan_root(str(tmp_path))
    assert _names(listing) == ["report.docx"]
    assert _reasons(listing) == {name: reason}
    assert listing.skipped_counts == {reason: 1}


def test_names_that_only_resemble_such_files_are_read(tmp_path: Path) -> None:
    names = ["#1 guide.md", "download.md", "part.md", "report ~ final.md", "thumbs.md", "tmp.md", "~notes.md"]
    assert _names(scan_root(str(_made(tmp_path, names)))) == names


def test_ignore_files_hold_below_their_own_folder_and_the_nearest_decides(tmp_path: Path) -> None:
    _made(
        tmp_path,
        {
            ".ragignore": "# a comment\n\nsecret.txt\n/top.md\n*.log\nbuild/\n!keep.log\ndocs/**/draft-*\n",
            "secret.txt": "",
            "top.md": "",
            "a.log": "",
            "keep.log": "",
            "build/x.md": "",
            "docs/a/b/draft-1.md": "",
            "docs/top.md": "",
            "docs/secret.txt": "",
            "docs/.ragignore": "!secret.txt\n/only.md\n",
            "docs/only.md": "",
            "docs/deep/only.md": "",
        },
    )
    listing = scan_root(str(tmp_path))
    assert _names(listing) == ["docs/deep/only.md", "docs/secret.txt", "docs/top.md", "keep.log"]
    assert _reasons(listing)["build/"] == "listed in .ragignore"


def test_gitignore_counts_by_option_and_ragignore_is_stronger(tmp_path: Path) -> None:
    _made(
        tmp_path,
        {".gitignore": "*.md\n", ".ragignore": "!a.md\nb.txt\n", "sub/.gitignore": "!b.txt\n", "a.md": "", "c.md": "",
         "sub/b.txt": "", "d.txt": ""},
    )  # fmt: skip
    assert _names(scan_root(str(tmp_path))) == ["a.md", "c.md", "d.txt"]
    listing = scan_root(str(tmp_path), options=RootOptions(gitignore=True))
    assert _names(listing) == ["a.md", "d.txt"]
    assert _reasons(listing)["c.md"] == "listed in .gitignore"


def test_options_include_and_exclude(tmp_path: Path) -> None:
    _made(tmp_path, ["a.md", "b.txt", "docs/c.md", "docs/private/d.md", "old/e.md"])
    options = RootOptions(include=("*.md",), exclude=("private/", "/old"))
    listing = scan_root(str(tmp_path), options=options)
    assert _names(listing) == ["a.md", "docs/c.md"]
    assert _reasons(listing)["b.txt"] == NOT_INCLUDED
    assert _reasons(listing)["old/"] == _reasons(listing)["docs/private/"] == EXCLUDED
    assert all(file.options == options for file in listing.files)


def test_folders_that_programs_fill_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    filled = {
        "node_modules/x/readme.md": "",
        "pkg/__pycache__/x.md": "",
        "env/pyvenv.cfg": "",
        "env/lib/x.md": "",
        "Cargo.toml": "",
        "target/doc/x.md": "",
        "cache/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n",
        "cache/x.md": "",
        "out/CMakeCache.txt": "",
        "out/x.md": "",
    }
    kept = {"build/a.md": "", "dist/b.md": "", "sub/target/c.md": "", "tagged/CACHEDIR.TAG": "no", "tagged/d.md": ""}
    _made(tmp_path, filled | kept)
    listing = scan_root(str(tmp_path))
    names = [name for name in _names(listing) if name.endswith(".md")]
    assert names == ["build/a.md", "dist/b.md", "sub/target/c.md", "tagged/d.md"]
    assert listing.skipped_counts[ignore.PROGRAMS] == 6
    everything = scan_root(str(tmp_path), options=RootOptions(all_folders=True))
    assert ignore.PROGRAMS not in everything.skipped_counts
    assert len([name for name in _names(everything) if name.endswith(".md")]) == 10
    assert _names(scan_root(str(tmp_path / "node_modules"))) == ["x/readme.md"], "who names the folder means it"


@pytest.mark.parametrize(
    "body", ["*a*b*c*d*\n", "x" * 2000 + "\n", "a/" * 3 + "*/**/*/**/*/**/*/**/*/**\n", "y\n" * 10_001]
)
def test_patterns_that_could_stop_a_scan_hide_their_folder_instead(tmp_path: Path, body: str) -> None:
    """What they were to leave out must not be read, and what was read before is kept."""
    _made(tmp_path, {"a.md": "", "sub/.ragignore": body, "sub/b.md": ""})
    listing = scan_root(str(tmp_path))
    assert [file.path_in_root for file in listing.files] == ["a.md"]
    assert [error.path for error in listing.errors] == ["sub/"]
    assert ".ragignore" in listing.errors[0].message
    with pytest.raises(RootUnreadable, match="ragignore"):
        scan_root(str(tmp_path / "sub"))


def test_a_link_is_no_file_of_patterns(tmp_path: Path) -> None:
    _made(tmp_path, {"outside": "*.md\n", "root/a.md": "", "root/sub/b.md": ""})
    (tmp_path / "root/sub/.ragignore").symlink_to(tmp_path / "outside")
    listing = scan_root(str(tmp_path / "root"))
    assert [file.path_in_root for file in listing.files] == ["a.md"]
    assert [error.path for error in listing.errors] == ["sub/"]


def test_options_that_are_no_patterns_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="exclude"):
        compiled(("*a*b*c*d*",), "exclude")
    with pytest.raises(RootUnreadable, match="exclude"):
        scan_root("/tmp", options=RootOptions(exclude=("*a*b*c*d*",)))


def test_a_pattern_costs_little_whatever_a_name_looks_like(tmp_path: Path) -> None:
    _made(tmp_path, {".ragignore": "*a*a*b\n" * 5, **{"a" * 200 + f"{n}.md": "" for n in range(20)}})
    began = time.process_time()
    assert len(scan_root(str(tmp_path)).files) == 20
    assert time.process_time() - began < 20


def test_many_left_out_names_are_counted_and_only_some_are_kept(tmp_path: Path) -> None:
    _made(tmp_path, [f"{n}.bin" for n in range(NAMED_SKIPPED + 50)] + ["~$a.docx"])
    listing = scan_root(str(tmp_path))
    assert listing.skipped_counts == {NO_PARSER: NAMED_SKIPPED + 50, ignore.LOCK: 1}
    assert len(listing.skipped) == NAMED_SKIPPED + 1
