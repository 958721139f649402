"""Labelled sets in BEIR or TREC layout: queries, graded labels of documents, and which queries are critical.

BEIR: `queries.jsonl` and `qrels/<split>.tsv` (or `qrels.tsv`) of query, document, grade.
TREC: `topics.tsv` and `qrels.tsv` of query, iteration, document, grade. Header rows are optional.
Critical queries stand in `critical.txt`, one id a line, or have a true `critical` field or column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from evals.tables import (
    DatasetError,
    parse_flag,
    parse_grade,
    parse_id,
    read_json_lines,
    read_lines,
    read_table,
    split_fields,
    split_topic,
)

__all__ = [
    "DatasetError",
    "EvalSet",
    "Problem",
    "Query",
    "load_evalset",
    "with_labels",
]

QUERY_FILES = ("queries.jsonl", "topics.tsv", "queries.tsv", "topics.txt")
QRELS_FILES = ("qrels.tsv", "qrels.txt")
_QRELS_LAYOUTS = {3: ("query", "document", "grade"), 4: ("query", "iteration", "document", "grade")}
_TOPIC_LAYOUTS = {2: ("query", "text"), 3: ("query", "text", "critical")}
Key = TypeVar("Key")
Value = TypeVar("Value")
_SHOWN = 20  # conflicts listed in one error


@dataclass(frozen=True)
class Query:
    """A question; `critical` ones must never get worse. `kind` groups them in reports."""

    id: str
    text: str
    critical: bool = False
    kind: str | None = None


@dataclass(frozen=True)
class Problem:
    """Something in a file that was left out and does not stop the rest; `line` counts from 1, 0 is the file."""

    line: int
    file: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class EvalSet:
    """Queries in the order of their file, and the graded documents of each. A grade of 1 or more is relevant."""

    queries: tuple[Query, ...]
    qrels: Mapping[str, Mapping[str, int]]
    critical: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = field(default=(), compare=False)

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """Ids of the queries that have a relevant document."""
        return tuple(query.id for query in self.queries if any(g > 0 for g in self.qrels.get(query.id, {}).values()))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the questions, labels and critical ids; the order of files and rows does not matter."""
        content = {
            "queries": sorted((query.id, query.text) for query in self.queries),
            "qrels": sorted((q, d, grade) for q, grades in self.qrels.items() for d, grade in grades.items()),
            "critical": sorted(self.critical),
        }
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

    def subset(self, query_ids: Iterable[str]) -> EvalSet:
        """The same set with these queries only."""
        kept = frozenset(query_ids)
        return replace(
            self,
            queries=tuple(query for query in self.queries if query.id in kept),
            qrels={query: grades for query, grades in self.qrels.items() if query in kept},
            critical=self.critical & kept,
        )


def load_evalset(
    folder: Path, *, split: str | None = None, queries_file: Path | None = None, qrels_file: Path | None = None
) -> EvalSet:
    """Read a labelled set; `split` picks one of several files in `qrels/`, by default `test`.

    Raises:
        DatasetError: a file is missing or unreadable, a row cannot be understood, or rows contradict each other.
    """
    queries_path = queries_file or _first_of(folder, QUERY_FILES, "queries")
    qrels_path = qrels_file or _qrels_path(folder, split)
    problems: list[Problem] = []
    queries = _read_queries(queries_path, problems)
    qrels, marked = _read_qrels(qrels_path, queries.keys(), problems)
    critical = marked | {query.id for query in queries.values() if query.critical}
    critical |= _read_critical(folder / "critical.txt", queries.keys(), problems)
    flagged = tuple(replace(query, critical=query.id in critical) for query in queries.values())
    return EvalSet(flagged, qrels, frozenset(critical), tuple(problems))


def with_labels(evalset: EvalSet, qrels_file: Path) -> EvalSet:
    """The same questions with the labels of another file; queries that it marks are critical too.

    Raises:
        DatasetError: the file is missing or unreadable, a row cannot be understood, or rows contradict each other.
    """
    problems: list[Problem] = []
    qrels, marked = _read_qrels(qrels_file, {query.id for query in evalset.queries}, problems)
    critical = evalset.critical | marked
    flagged = tuple(replace(query, critical=query.id in critical) for query in evalset.queries)
    return EvalSet(flagged, qrels, critical, tuple(problems))


def _first_of(folder: Path, names: Iterable[str], what: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DatasetError(f"{folder}: no {what} found, expected one of {', '.join(names)}")


def _qrels_path(folder: Path, split: str | None) -> Path:
    splits = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if split is None and not splits:
        return _first_of(folder, QRELS_FILES, "labels (qrels)")
    wanted = split or ("test" if "test" in splits else next(iter(splits)))
    if wanted not in splits or (split is None and wanted != "test" and len(splits) > 1):
        raise DatasetError(f"{folder / 'qrels'}: name one of its splits: {', '.join(splits) or 'it has none'}")
    return splits[wanted]


class _Unique(Generic[Key, Value]):
    """Values by key; equal repeats are dropped and reported, contradicting ones are collected."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.values: dict[Key, Value] = {}
        self._lines: dict[Key, int] = {}
        self._path, self._problems = path, problems
        self._conflicts: list[str] = []

    def add(self, key: Key, value: Value, line: int, name: str) -> None:
        earlier = self._lines.setdefault(key, line)
        if earlier == line:
            self.values[key] = value
        elif self.values[key] == value:
            message = f"{name} repeats line {earlier}; dropped"
            self._problems.append(Problem(line, str(self._path), message))
        else:
            self._conflicts.append(f"lines {earlier} and {line} disagree about {name}")

    def result(self) -> dict[Key, Value]:
        if self._conflicts:
            shown = "; ".join(self._conflicts[:_SHOWN])
            more = len(self._conflicts) - _SHOWN
            raise DatasetError(f"{self._path}: {shown}" + (f"; and {more} more" if more > 0 else ""))
        return self.values


def _read_queries(path: Path, problems: list[Problem]) -> dict[str, Query]:
    queries = _Unique[str, Query](path, problems)
    for line, row in _query_rows(path):
        where = f"{path}:{line}"
        query_id = parse_id(row.get("query"), where)
        text = str(row.get("text") or "").strip()
        if not text:
            raise DatasetError(f"{where}: query {query_id} has no text")
        kind = str(row["kind"]) if row.get("kind") else None
        query = Query(query_id, text, parse_flag(row.get("critical"), where), kind)
        queries.add(query_id, query, line, f"query {query_id}")
    if not queries.values:
        raise DatasetError(f"{path}: no queries in it")
    return queries.result()


def _query_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if path.suffix != ".jsonl":
        yield from read_table(path, _TOPIC_LAYOUTS, split_topic)
        return
    for line, row in read_json_lines(path):
        query = next((row[name] for name in ("_id", "id", "query_id") if name in row), None)
        yield line, {**row, "query": query}


def _read_qrels(
    path: Path, known: Collection[str], problems: list[Problem]
) -> tuple[dict[str, dict[str, int]], set[str]]:
    labels = _Unique[tuple[str, str], int](path, problems)
    critical: set[str] = set()
    for line, row in read_table(path, _QRELS_LAYOUTS, split_fields):
        where = f"{path}:{line}"
        query, document = parse_id(row.get("query"), where), parse_id(row.get("document"), where)
        grade = parse_grade(row.get("grade", ""), where)
        if query not in known:
            problems.append(Problem(line, str(path), f"label of the unknown query {query}; left out"))
            continue
        labels.add((query, document), grade, line, f"query {query} and document {document}")
        if parse_flag(row.get("critical"), where):
            critical.add(query)
    qrels: dict[str, dict[str, int]] = {}
    for (query, document), grade in labels.result().items():
        qrels.setdefault(query, {})[document] = grade
    return qrels, critical


def _read_critical(path: Path, known: Collection[str], problems: list[Problem]) -> set[str]:
    if not path.exists():
        return set()
    named = _Unique[str, bool](path, problems)
    for line, text in read_lines(path):
        if (query := text.strip()) in known:
            named.add(query, True, line, f"query {query}")
        else:
            problems.append(Problem(line, str(path), f"the critical query {query} is unknown; left out"))
    return set(named.result())
