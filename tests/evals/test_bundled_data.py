"""The bundled labelled set is the ground the gate stands on, so its own consistency is checked here."""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "evals" / "data"
TENANTS = ("quarrowby", "orrelune")
KINDS = {"paraphrase", "code", "keyword", "multilingual", "unanswerable"}
TEXT_FORMATS = {".md", ".txt", ".html", ".py", ".yaml"}
TWINS = (
    "account/password-reset.md",
    "account/delete-account.md",
    "account/two-factor.md",
    "legal/privacy.md",
    "legal/refund-clause.txt",
)
CODE = re.compile(
    r"""
    \b[A-Z]{1,5}-\d+[A-Z0-9]*(?:-[A-Z0-9]+)*\b   # PX-4410, VLV-0932-B, ERR-2043
    | \b[A-Z]+\d{2,}\b                           # E17
    | \B--[a-z][a-z-]+\b                         # --delete-guard
    | \b\d+\.\d+\.\d+\b                          # 3.1.0
    | \b[A-Za-z]+(?:[._][A-Za-z]+)+\b            # retention.legal_hold, ORRE_VAULT_RESERVE
    """,
    re.VERBOSE,
)


@cache
def records(tenant: str) -> dict[str, str]:
    """Text of every record of the collection files, by its id; a repeated id fails."""
    found: dict[str, str] = {}
    for path in sorted((DATA / tenant / "sources").rglob("*")):
        if path.suffix == ".jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as handle:
                rows = list(csv.DictReader(handle, strict=True))
        else:
            continue
        for row in rows:
            key = row["_id"] if "_id" in row else row["id"]
            assert key not in found, f"{tenant}: two records are called {key}"
            assert all(isinstance(value, str) and value.strip() for value in row.values()), key
            found[key] = " ".join(row.values())
    return found


@cache
def files(tenant: str) -> dict[str, Path]:
    """Every file that is a document by itself, by its path below `sources/`."""
    root = DATA / tenant / "sources"
    return {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.suffix in TEXT_FORMATS | {".pdf"}
    }


@cache
def texts(tenant: str) -> dict[str, str]:
    """Text of every document whose format is text, by label."""
    plain = {
        name: path.read_text(encoding="utf-8") for name, path in files(tenant).items() if path.suffix in TEXT_FORMATS
    }
    return plain | records(tenant)


@cache
def queries(tenant: str) -> list[dict[str, str]]:
    lines = (DATA / tenant / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def labels(tenant: str) -> dict[str, dict[str, int]]:
    """Grades by query and document; a pair labelled twice fails."""
    header, *lines = (DATA / tenant / "qrels.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "query-id\tcorpus-id\tscore"
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for line in lines:
        query, document, score = line.split("\t")
        assert document not in grades[query], f"{query} labels {document} twice"
        grades[query][document] = int(score)
    return dict(grades)


def count_of(kind: str, tenants: tuple[str, ...] = TENANTS) -> int:
    return sum(query["kind"] == kind for tenant in tenants for query in queries(tenant))


@pytest.mark.parametrize("tenant", TENANTS)
def test_sources_hold_only_formats_that_are_counted(tenant: str) -> None:
    root = DATA / tenant / "sources"
    suffixes = {path.suffix for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert suffixes <= TEXT_FORMATS | {".pdf", ".jsonl", ".csv"}
    assert suffixes >= {".md", ".txt", ".html", ".pdf", ".jsonl", ".csv"}


@pytest.mark.parametrize("tenant", TENANTS)
def test_no_label_can_mean_both_a_file_and_a_record(tenant: str) -> None:
    assert not files(tenant).keys() & records(tenant).keys()


@pytest.mark.parametrize("tenant", TENANTS)
def test_every_labelled_document_exists(tenant: str) -> None:
    known = files(tenant).keys() | records(tenant).keys()
    missing = {name for grades in labels(tenant).values() for name in grades} - known
    assert not missing, "a label that names nothing makes its query impossible to answer"


@pytest.mark.parametrize("tenant", TENANTS)
def test_grades_are_one_or_two_and_each_judged_query_has_a_full_answer(tenant: str) -> None:
    for query, grades in labels(tenant).items():
        assert set(grades.values()) <= {1, 2}, query
        assert 2 in grades.values(), f"{query} has no document that answers it"


@pytest.mark.parametrize("tenant", TENANTS)
def test_queries_have_unique_ids_and_texts_and_a_known_kind(tenant: str) -> None:
    rows = queries(tenant)
    assert all(row.keys() == {"_id", "text", "kind"} and row["text"].strip() for row in rows)
    assert {row["kind"] for row in rows} == KINDS
    for field in ("_id", "text"):
        repeated = [value for value, n in Counter(row[field] for row in rows).items() if n > 1]
        assert not repeated


@pytest.mark.parametrize("tenant", TENANTS)
def test_exactly_the_unanswerable_queries_have_no_label(tenant: str) -> None:
    judged = labels(tenant).keys()
    assert judged == {row["_id"] for row in queries(tenant) if row["kind"] != "unanswerable"}


@pytest.mark.parametrize("tenant", TENANTS)
def test_critical_queries_exist_once_and_can_be_answered(tenant: str) -> None:
    critical = (DATA / tenant / "critical.txt").read_text(encoding="utf-8").split()
    assert 4 <= len(critical) == len(set(critical))
    assert set(critical) <= labels(tenant).keys()


@pytest.mark.parametrize("tenant", TENANTS)
def test_codes_asked_for_stand_literally_in_a_labelled_document(tenant: str) -> None:
    for row in queries(tenant):
        if row["kind"] != "code":
            continue
        codes = CODE.findall(row["text"])
        assert codes, f"{row['_id']} is a code query without a code"
        readable = [texts(tenant)[name] for name in labels(tenant)[row["_id"]] if name in texts(tenant)]
        assert not readable or any(all(code in text for code in codes) for text in readable), row


@pytest.mark.parametrize("tenant", TENANTS)
def test_codes_of_unanswerable_queries_occur_nowhere_in_the_tenant(tenant: str) -> None:
    corpus = "\n".join(texts(tenant).values())
    for row in queries(tenant):
        if row["kind"] == "unanswerable":
            assert not [code for code in CODE.findall(row["text"]) if code in corpus], row


@pytest.mark.parametrize("name", TWINS)
def test_twins_of_both_tenants_are_nearly_the_same_text_and_never_equal(name: str) -> None:
    first, second = (texts(tenant)[name].split() for tenant in TENANTS)
    assert first != second
    assert difflib.SequenceMatcher(None, first, second, autojunk=False).ratio() > 0.85


def test_the_set_is_as_large_as_its_readme_says() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    for label, sizes in {
        "Files": [len([p for p in (DATA / t / "sources").rglob("*.*") if p.is_file()]) for t in TENANTS],
        "Documents (files and records)": [len(files(t)) + len(records(t)) for t in TENANTS],
        "Queries": [len(queries(t)) for t in TENANTS],
    }.items():
        assert f"| {label} | {sizes[0]} | {sizes[1]} |" in readme
    for kinds in (("paraphrase", "code", "keyword"), ("multilingual", "unanswerable")):
        cells = [" / ".join(str(count_of(kind, (tenant,))) for kind in kinds) for tenant in TENANTS]
        assert f"| {' / '.join(kinds)} | {cells[0]} | {cells[1]} |" in readme


def test_each_kind_of_query_is_frequent_enough_to_be_reported() -> None:
    assert sum(len(files(tenant)) + len(records(tenant)) for tenant in TENANTS) >= 90
    assert all(len(queries(tenant)) >= 60 for tenant in TENANTS)
    assert count_of("paraphrase") >= 40
    assert count_of("code") >= 25
    assert count_of("multilingual") >= 15
    assert count_of("unanswerable") >= 14


def test_german_and_japanese_documents_are_there() -> None:
    names = files("orrelune")
    assert sum(name.startswith("de/") for name in names) >= 10
    assert sum(name.startswith("ja/") for name in names) >= 2


@pytest.mark.parametrize("tenant", TENANTS)
def test_text_files_are_unix_utf8_with_words_in_them(tenant: str) -> None:
    for name, text in texts(tenant).items():
        assert not {"\r", "\0"} & set(text), name
        assert len(text) > 60, f"{name} says next to nothing"


@pytest.mark.parametrize("tenant", TENANTS)
def test_pdf_files_stay_small(tenant: str) -> None:
    for name, path in files(tenant).items():
        if path.suffix == ".pdf":
            assert path.read_bytes().startswith(b"%PDF-"), name
            assert path.stat().st_size < 30_000, name
