from __future__ import annotations

import json
from pathlib import Path

import pytest

import evals
from evals.datasets import DatasetError, EvalSet, Query, load_evalset

BUNDLED = Path(evals.__file__).parent / "data"
QUERIES = [{"_id": "q1", "text": "first"}, {"_id": "q2", "text": "second"}]


def write(
    folder: Path, qrels: str, queries: list[dict[str, object]] | None = None, name: str = "qrels/test.tsv"
) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(qrels.encode())
    rows = queries if queries is not None else QUERIES
    (folder / "queries.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "qrels",
    [
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n",
        "q1\td1\t2\nq2\td2\t1",
        "q1 0 d1 2\nq2 0 d2 1\n\n",
        "query_id\tQ0\tdocno\trelevance\r\nq1\t0\td1\t2\r\n\r\nq2\t0\td2\t1\r\n",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\td1\t2.0\nq2\td2\t1.0\n",
    ],
    ids=["beir-header", "beir", "trec-trailing-blank-line", "trec-header-crlf", "bom-float-grades"],
)
def test_row_84_qrels_of_every_layout_read_alike(tmp_path: Path, qrels: str) -> None:
    evalset = load_evalset(write(tmp_path, qrels))
    assert evalset.qrels == {"q1": {"d1": 2}, "q2": {"d2": 1}}
    assert evalset.problems == ()


def test_row_84_an_identical_label_twice_counts_once_and_is_reported_with_its_line(tmp_path: Path) -> None:
    evalset = load_evalset(write(tmp_path, "q1\td1\t1\nq2\td2\t1\n\nq1\td1\t1\n"))
    assert evalset.qrels["q1"] == {"d1": 1}
    (problem,) = evalset.problems
    assert (problem.line, problem.message) == (4, "query q1 and document d1 repeats line 1; dropped")
    assert problem.file.endswith("test.tsv")


def test_row_84_conflicting_labels_are_rejected_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="lines 1 and 3 disagree about query q1 and document d1"):
        load_evalset(write(tmp_path, "q1\td1\t1\nq2\td2\t1\nq1\td1\t0\n"))


def test_a_broken_first_row_is_an_error_and_not_taken_for_a_header(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"test\.tsv:1: the grade 'x' is not a whole number"):
        load_evalset(write(tmp_path, "q1\td1\tx\nq2\td2\t1\n"))


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("q1\td1\n", "1: 2 columns where 3 or 4 are expected"),
        ("q1\td1\t1\nq1\td2\t0.5\n", "2: the grade '0.5'"),
        ("q1\td1\tnan\n", "1: the grade 'nan'"),
        ("q1\t\t1\n", "1: '' is not an id"),
        ("query-id\tcorpus-id\tscore\nq1\t0\td1\t1\n", "2: 4 columns where 3 are expected"),
    ],
)
def test_a_row_that_cannot_be_understood_is_an_error_with_its_line(tmp_path: Path, qrels: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load_evalset(write(tmp_path, qrels))


def test_ids_are_text_also_where_the_file_has_numbers(tmp_path: Path) -> None:
    evalset = load_evalset(write(tmp_path, "1 0 2 1\n", [{"_id": 1, "text": "one"}]))
    assert evalset.queries == (Query("1", "one"),)
    assert evalset.qrels == {"1": {"2": 1}}


def test_document_paths_may_hold_spaces_between_tabs(tmp_path: Path) -> None:
    assert load_evalset(write(tmp_path, "q1\ta b.md\t1\n")).qrels == {"q1": {"a b.md": 1}}


def test_labels_of_unknown_queries_are_left_out_and_reported(tmp_path: Path) -> None:
    evalset = load_evalset(write(tmp_path, "q1\td1\t1\nq9\td1\t1\n"))
    assert "q9" not in evalset.qrels
    assert [(p.line, p.message) for p in evalset.problems] == [(2, "label of the unknown query q9; left out")]


def test_queries_that_repeat_are_dropped_and_contradicting_ones_rejected(tmp_path: Path) -> None:
    repeated = load_evalset(write(tmp_path, "q1\td1\t1\n", [*QUERIES, QUERIES[0]]))
    assert len(repeated.queries) == 2
    assert [p.line for p in repeated.problems] == [3]
    with pytest.raises(DatasetError, match="lines 1 and 3 disagree about query q1"):
        load_evalset(write(tmp_path, "q1\td1\t1\n", [*QUERIES, {"_id": "q1", "text": "other"}]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "queries.jsonl:1: not valid JSON"),
        ("[]", "queries.jsonl:1: expected a JSON object, found list"),
        ('{"text": "x"}', "queries.jsonl:1: None is not an id"),
        ('{"_id": "q", "text": " "}', "queries.jsonl:1: query q has no text"),
        ('{"_id": "q", "text": "x", "critical": "perhaps"}', "critical is 'perhaps'"),
        ("", "no queries in it"),
    ],
)
def test_a_query_that_cannot_be_asked_is_an_error_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    write(tmp_path, "q1\td1\t1\n")
    (tmp_path / "queries.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        load_evalset(tmp_path)


def test_critical_queries_come_from_the_file_the_field_and_the_column(tmp_path: Path) -> None:
    queries: list[dict[str, object]] = [{"_id": f"q{n}", "text": f"question {n}"} for n in range(4)]
    queries[0]["critical"] = True
    write(tmp_path, "query-id\tcorpus-id\tscore\tcritical\nq1\td1\t1\ttrue\nq3\td1\t1\tfalse\n", queries)
    (tmp_path / "critical.txt").write_text("q2\n\nq7\n", encoding="utf-8")
    evalset = load_evalset(tmp_path)
    assert evalset.critical == {"q0", "q1", "q2"}
    assert [query.id for query in evalset.queries if query.critical] == ["q0", "q1", "q2"]
    assert [(p.line, p.message) for p in evalset.problems] == [(3, "the critical query q7 is unknown; left out")]


@pytest.mark.parametrize(
    "topics",
    ["q1\tfirst one\nq2\tsecond\n", "qid\ttitle\nq1\tfirst one\nq2\tsecond\n", "q1 first one\nq2 second\n"],
    ids=["tabs", "header", "spaces"],
)
def test_trec_topics_are_read_with_and_without_a_header(tmp_path: Path, topics: str) -> None:
    (tmp_path / "topics.tsv").write_text(topics, encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("q1 0 d1 1\n", encoding="utf-8")
    assert load_evalset(tmp_path).queries == (Query("q1", "first one"), Query("q2", "second"))


def test_the_test_split_is_the_default_and_others_are_named(tmp_path: Path) -> None:
    write(tmp_path, "q1\td1\t1\n")
    write(tmp_path, "q2\td2\t1\n", name="qrels/dev.tsv")
    assert list(load_evalset(tmp_path).qrels) == ["q1"]
    assert list(load_evalset(tmp_path, split="dev").qrels) == ["q2"]
    with pytest.raises(DatasetError, match="name one of its splits: dev, test"):
        load_evalset(tmp_path, split="train")
    (tmp_path / "qrels" / "test.tsv").rename(tmp_path / "qrels" / "other.tsv")
    with pytest.raises(DatasetError, match="name one of its splits: dev, other"):
        load_evalset(tmp_path)


def test_missing_and_unreadable_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no queries found, expected one of queries\.jsonl"):
        load_evalset(tmp_path)
    write(tmp_path, "")
    (tmp_path / "queries.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(DatasetError, match="not UTF-8"):
        load_evalset(tmp_path)
    with pytest.raises(DatasetError, match="cannot be read"):
        load_evalset(tmp_path, queries_file=tmp_path / "none.tsv")


def test_the_content_hash_ignores_order_and_sees_every_change() -> None:
    queries = (Query("q1", "a"), Query("q2", "b"))
    base = EvalSet(queries, {"q1": {"d1": 1, "d2": 2}, "q2": {"d1": 1}}, frozenset({"q1"}))
    same = EvalSet(queries[::-1], {"q2": {"d1": 1}, "q1": {"d2": 2, "d1": 1}}, frozenset({"q1"}))
    assert base.content_hash == same.content_hash
    others = [
        EvalSet((Query("q1", "A"), queries[1]), base.qrels, base.critical),
        EvalSet(queries, {**base.qrels, "q2": {"d1": 2}}, base.critical),
        EvalSet(queries, base.qrels, frozenset()),
    ]
    assert len({base.content_hash, *(other.content_hash for other in others)}) == 4


def test_a_subset_keeps_only_what_belongs_to_its_queries() -> None:
    whole = EvalSet((Query("q1", "a"), Query("q2", "b")), {"q1": {"d": 1}, "q2": {"d": 1}}, frozenset({"q1", "q2"}))
    half = whole.subset(["q2"])
    assert (half.judged, dict(half.qrels), half.critical) == (("q2",), {"q2": {"d": 1}}, {"q2"})


@pytest.mark.parametrize(("tenant", "judged", "unanswerable"), [("quarrowby", 95, 10), ("orrelune", 105, 10)])
def test_the_bundled_sets_load_without_a_problem(tenant: str, judged: int, unanswerable: int) -> None:
    evalset = load_evalset(BUNDLED / tenant)
    assert evalset.problems == ()
    assert len(evalset.judged) == judged
    assert sum(query.kind == "unanswerable" for query in evalset.queries) == unanswerable
    assert evalset.critical <= set(evalset.judged)
