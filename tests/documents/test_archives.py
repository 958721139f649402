from __future__ import annotations

import io
import random
import stat
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.model import Record
from rag_assets.documents.parsers import nested, zips
from rag_assets.documents.registry import parse
from tests.support.office_files import docx, paragraph, zipped


def entries(records: list[Record]) -> dict[str, str]:
    return {record.key: record.document.text if record.document else record.status for record in records}


def test_each_file_is_a_source_with_its_path_as_key() -> None:
    data = zipped({"a/b.txt": "text", "c.docx": docx(paragraph("word")), "rows.jsonl": '{"_id": "7", "text": "row"}'})
    assert entries(parse(data, "all.zip")) == {"a/b.txt": "text", "c.docx": "word", "rows.jsonl#7": "row"}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("../../etc/passwd.txt", "etc/passwd.txt"),
        ("/abs/a.txt", "abs/a.txt"),
        ("C:\\dir\\a.txt", "dir/a.txt"),
        ("http://host/a.txt", "http:/host/a.txt"),
        ("./x/./a.txt", "x/a.txt"),
    ],
)
def test_a_path_that_leads_outside_is_only_a_name(path: str, key: str) -> None:
    (record,) = parse(zipped({path: "text"}), "a.zip")
    assert (record.key, record.source_type) == (key, "file")
    assert record.document is not None
    assert record.document.canonical_url is None


def test_paths_that_become_the_same_keep_keys_of_their_own() -> None:
    data = zipped({"a.txt": "1", "/a.txt": "2", "./a.txt": "3", "a (2).txt": "4"})
    assert [record.key for record in parse(data, "a.zip") if record.document] == [
        "a.txt",
        "a (2).txt",
        "a (3).txt",
        "a (2) (2).txt",
    ]


def test_hidden_files_links_and_folders_are_passed_over() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.txt", "text")
        archive.writestr("__MACOSX/._a.txt", "x")
        archive.writestr(".git/config.txt", "x")
        archive.mkdir("folder.txt")
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert [record.key for record in parse(target.getvalue(), "a.zip")] == ["a.txt"]


def test_what_no_parser_takes_is_named_once_for_the_archive() -> None:
    first, archive = parse(zipped({"a.txt": "text", "b.exe": "x", "c.dll": "x"}), "a.zip")
    assert first.key == "a.txt"
    assert (archive.key, archive.status) == ("", "no_text")
    assert archive.error == "2 files inside are of kinds that no parser takes: b.exe, c.dll"


def test_an_empty_archive_holds_no_text() -> None:
    (record,) = parse(zipped({}), "a.zip")
    assert (record.key, record.status) == ("", "no_text")


def changed(data: bytes, name: bytes, local: dict[int, bytes], central: dict[int, bytes]) -> bytes:
    """Zip data with bytes replaced in the two headers of an entry, by offset in the header."""
    patched = bytearray(data)
    for magic, name_offset, changes in ((b"PK\3\4", 30, local), (b"PK\1\2", 46, central)):
        place = next(
            n for n in range(len(data)) if data.startswith(magic, n) and data.startswith(name, n + name_offset)
        )
        for offset, value in changes.items():
            patched[place + offset : place + offset + len(value)] = value
    return bytes(patched)


def test_an_encrypted_and_a_damaged_entry_fail_alone() -> None:
    data = zipped({"good.txt": "text", "secret.txt": "text", "bad.txt": "text " * 50, "odd.txt": "text"})
    data = changed(data, b"secret.txt", {6: b"\1\0"}, {8: b"\1\0"})
    data = changed(data, b"bad.txt", {37: b"\xff\xff\xff"}, {})
    data = changed(data, b"odd.txt", {8: b"\x63\0"}, {10: b"\x63\0"})
    records = {record.key: record for record in parse(data, "a.zip")}
    assert records["good.txt"].status == "ready"
    assert {records[key].status for key in ("secret.txt", "bad.txt", "odd.txt")} == {"failed"}
    assert "encrypted" in (records["secret.txt"].error or "")
    assert "damaged" in (records["bad.txt"].error or "")
    assert "cannot be unpacked" in (records["odd.txt"].error or "")


def test_a_bomb_fails_before_it_is_unpacked() -> None:
    (record,) = parse(zipped({"a.txt": b"\0" * 20_000_000}), "a.zip")
    assert record.status == "failed"
    assert "bomb" in (record.error or "")


def test_an_entry_that_lies_about_its_size_is_cut_off() -> None:
    data = changed(zipped({"a.txt": b"x" * 100_000}), b"a.txt", {22: struct.pack("<I", 9)}, {24: struct.pack("<I", 9)})
    (record,) = parse(data, "a.zip")
    assert record.status == "failed" or len(record.document.text if record.document else "") <= 9


def test_entries_that_share_their_bytes_are_refused() -> None:
    data = bytearray(zipped({"a.txt": "x" * 1000, "b.txt": "y" * 1000}))
    second = data.rindex(b"PK\1\2")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    (record,) = parse(bytes(data), "a.zip")
    assert record.status == "failed"
    assert "share the same bytes" in (record.error or "")


def test_a_bomb_of_nested_archives_meets_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "MAX_BYTES", 3_000_000)
    noise = random.Random(1).randbytes(400_000).hex()
    inner = zipped({"a.txt": noise})
    records = parse(zipped({f"{number}.zip": inner for number in range(9)}), "a.zip")
    assert sum(record.status == "ready" for record in records) < 4
    assert any("allowed" in (record.error or "") or "unpack" in (record.error or "") for record in records)


def test_archives_in_archives_end_at_a_depth() -> None:
    data = zipped({"a.txt": "deep"})
    for _ in range(nested.MAX_DEPTH):
        data = zipped({"a.zip": data})
    (record,) = parse(data, "a.zip")
    assert record.status == "failed"
    assert "nested" in (record.error or "")


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "MAX_FILES", 10)
    (record,) = parse(zipped({f"{n}.txt": "x" for n in range(11)}), "a.zip")
    assert "11 files" in (record.error or "")
    monkeypatch.setattr(zips, "MAX_CENTRAL_ENTRIES", 5)
    (record,) = parse(zipped({f"{n}.txt": "x" for n in range(6)}), "a.zip")
    assert "more than 5 entries" in (record.error or "")


def test_the_budget_of_one_archive_is_not_that_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "MAX_FILES", 3)
    data = zipped({f"{n}.txt": "x" for n in range(3)})
    for _ in range(3):
        assert [record.status for record in parse(data, "a.zip")] == ["ready"] * 3


def test_a_damaged_archive_fails_with_a_reason() -> None:
    (record,) = parse(zipped({"a.txt": "text"})[:-10], "a.zip")
    assert record.status == "failed"
    assert "damaged" in (record.error or "")


def test_names_in_utf_8_are_read_whether_or_not_they_say_so() -> None:
    data = zipped({"Größe.txt": "text"})
    assert [record.key for record in parse(data, "a.zip")] == ["Größe.txt"]
    silent = changed(data, "Größe.txt".encode(), {6: b"\0\0"}, {8: b"\0\0"})
    assert [record.key for record in parse(silent, "a.zip")] == ["Größe.txt"]


@given(st.binary(max_size=300), st.integers(0, 400))
def test_no_change_to_an_archive_does_more_than_fail(noise: bytes, place: int) -> None:
    data = zipped({"a.txt": "text " * 20, "b/c.md": "# Title"})
    records = parse(data[:place] + noise + data[place + len(noise) :], "a.zip")
    assert all(record.status in ("ready", "no_text", "failed") for record in records)
