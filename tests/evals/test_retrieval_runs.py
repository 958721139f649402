from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.runs import Ranking, RetrievalRun, RunError, read_parquet, read_trec, write_parquet, write_trec

IDS = (
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool)
)
CHUNKS = st.dictionaries(
    IDS, st.lists(st.tuples(IDS, st.floats(-1e6, 1e6)), min_size=1, max_size=8), min_size=1, max_size=5
)


def test_a_document_has_the_rank_of_its_best_chunk_and_counts_once() -> None:
    run = RetrievalRun.from_chunks({"q": [("a", 0.9), ("b", 0.5), ("b", 0.4), ("a", 0.2), ("c", 0.1)]})
    assert list(run.rankings["q"]) == [("a", 0.9), ("b", 0.5), ("c", 0.1)]


@pytest.mark.parametrize("scores", [(0.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5), (0.1, 0.2, 0.9, 0.3)])
def test_chunks_keep_the_order_in_which_they_were_retrieved_whatever_their_scores(scores: tuple[float, ...]) -> None:
    documents = ("c", "a", "d", "b")
    orders = (documents, documents[::-1])
    runs = [RetrievalRun.from_chunks({"q": list(zip(order, scores, strict=True))}) for order in orders]
    assert [run.rankings["q"].documents for run in runs] == list(orders)
    assert [run.top("q", 2) for run in runs] == [("c", "a"), ("b", "d")]
    assert runs[0].run_hash != runs[1].run_hash


@settings(deadline=None)
@given(CHUNKS)
def test_documents_are_ranked_by_their_first_chunk(chunks: dict[str, list[tuple[str, float]]]) -> None:
    run = RetrievalRun.from_chunks(chunks)
    assert {query: list(ranking.documents) for query, ranking in run.rankings.items()} == {
        query: list(dict.fromkeys(document for document, _ in scored)) for query, scored in chunks.items()
    }
    for query, scored in chunks.items():
        assert dict(run.rankings[query]) == dict(reversed(scored)), "the score of the first chunk"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_row_85_scores_that_are_no_numbers_are_refused_with_the_query_and_the_count(bad: float) -> None:
    with pytest.raises(RunError, match=r"2 scores are not finite numbers, in 1 query \(q2\)") as caught:
        RetrievalRun.from_chunks({"q1": [("a", 1.0)], "q2": [("a", bad), ("b", 1.0), ("c", bad)]})
    assert caught.value.invalid_scores == {"q2": 2}


def test_row_78_ids_become_text() -> None:
    run = RetrievalRun.from_chunks([(1, [(2, 1), (3, 2)])])
    assert run.rankings == {"1": Ranking(("2", "3"), (1.0, 2.0))}


def test_a_run_without_any_document_is_known_as_empty() -> None:
    assert RetrievalRun.from_chunks({"q1": [], "q2": []}).is_empty
    assert RetrievalRun.from_chunks({}).is_empty
    assert not RetrievalRun.from_chunks({"q1": [], "q2": [("a", 0.0)]}).is_empty


@settings(deadline=None, max_examples=40)
@given(CHUNKS)
def test_files_give_back_the_run_that_was_written(
    tmp_path_factory: pytest.TempPathFactory, chunks: dict[str, list[tuple[str, float]]]
) -> None:
    run = RetrievalRun.from_chunks(chunks)
    folder = tmp_path_factory.mktemp("runs")
    write_trec(run, folder / "run.trec")
    write_parquet(run, folder / "run.parquet")
    assert read_trec(folder / "run.trec").rankings == run.rankings
    assert read_trec(folder / "run.trec").run_hash == run.run_hash
    assert read_parquet(folder / "run.parquet") == run


def test_parquet_keeps_latencies_by_stage_and_queries_without_documents(tmp_path: Path) -> None:
    latencies = {"embed": {"q1": 1.5}, "search": {"q1": 2.5, "q2": 3.5}}
    run = RetrievalRun.from_chunks({"q1": [("a", 1.0)], "q2": []}, latencies)
    write_parquet(run, tmp_path / "run.parquet")
    again = read_parquet(tmp_path / "run.parquet")
    assert again.latencies_ms == latencies
    assert again.rankings["q2"] == Ranking()


def test_trec_lines_have_the_six_standard_fields_and_ranks_from_one(tmp_path: Path) -> None:
    write_trec(RetrievalRun.from_chunks({"q": [("a", 0.5), ("b", 0.25)]}), tmp_path / "run.trec", tag="dense")
    assert [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()] == [
        ["q", "Q0", "a", "1", "0.5", "dense"],
        ["q", "Q0", "b", "2", "0.25", "dense"],
    ]


def test_trec_files_of_others_are_read_by_score(tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text("q Q0 low 1 0.1 x\nq Q0 high 2 0.9 x\n\n")
    assert read_trec(tmp_path / "run.trec").top("q", 5) == ("high", "low")


@pytest.mark.parametrize("ranks", [("0", "1", "2"), ("3", "2", "1"), ("1", "1", "1"), ("x", "y", "z")])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_equal_scores_in_trec_files_of_others_are_ordered_by_document_id(
    tmp_path: Path, separator: str, ranks: tuple[str, ...]
) -> None:
    lines = [("q", "Q0", document, rank, "0.5", "x") for document, rank in zip("cab", ranks, strict=True)]
    (tmp_path / "run.trec").write_text("".join(separator.join(line) + "\n" for line in lines))
    assert read_trec(tmp_path / "run.trec").top("q", 5) == ("a", "b", "c")


def test_a_document_that_a_trec_file_of_others_repeats_counts_where_it_scores_best(tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text("q Q0 a 1 0.2 x\nq Q0 b 2 0.5 x\nq Q0 a 3 0.9 x\n")
    assert list(read_trec(tmp_path / "run.trec").rankings["q"]) == [("a", 0.9), ("b", 0.5)]


def test_files_of_a_run_whose_scores_are_all_0_keep_its_order(tmp_path: Path) -> None:
    run = RetrievalRun.from_chunks({query: [(document, 0.0) for document in query] for query in ("cab", "bac")})
    write_trec(run, tmp_path / "run.trec")
    write_parquet(run, tmp_path / "run.parquet")
    for again in (read_trec(tmp_path / "run.trec"), read_parquet(tmp_path / "run.parquet")):
        assert again == run
        assert again.run_hash == run.run_hash


@pytest.mark.parametrize("line", ["q Q0 a 1 0.5", "q Q0 a 1 much x"])
def test_a_line_that_is_no_run_is_an_error_with_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "run.trec").write_text(f"q Q0 b 1 1.0 x\n{line}\n")
    with pytest.raises(RunError, match=r"run.trec:2: not a line of a TREC run"):
        read_trec(tmp_path / "run.trec")


def test_an_id_that_a_trec_line_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot hold this id"):
        write_trec(RetrievalRun.from_chunks({"q": [("a\tb", 1.0)]}), tmp_path / "run.trec")


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.parquet").write_text("not parquet")
    with pytest.raises(RunError, match="not a run in Parquet"):
        read_parquet(tmp_path / "run.parquet")


def test_the_run_hash_sees_scores_and_documents_and_not_latencies() -> None:
    base = RetrievalRun.from_chunks({"q": [("a", 0.5)], "r": []}, {"total": {"q": 1.0}})
    assert base.run_hash == RetrievalRun.from_chunks({"r": [], "q": [("a", 0.5)]}).run_hash
    others = [{"q": [("a", 0.25)], "r": []}, {"q": [("b", 0.5)], "r": []}, {"q": [("a", 0.5)]}]
    assert len({base.run_hash, *(RetrievalRun.from_chunks(other).run_hash for other in others)}) == 4


def test_percentiles_are_values_that_were_measured() -> None:
    run = RetrievalRun({}, {"total": {str(n): float(n) for n in range(1, 101)}})
    assert (run.percentile_ms("total", 0.5), run.percentile_ms("total", 0.95)) == (50.0, 95.0)
    assert run.percentile_ms("rerank", 0.5) is None
