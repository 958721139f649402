from __future__ import annotations

import math
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, iter_calc, nDCG

from evals.datasets import EvalSet, Query
from evals.metrics import CUTOFFS, METRICS, evaluate
from evals.runs import RetrievalRun
from evals.significance import compare, confidence_intervals
from rag_assets.errors import UsageError
from tests.support.measurements import run_of, set_of

DOCUMENTS = [f"d{number}" for number in range(15)]
QUERY_IDS = [f"q{number}" for number in range(5)]
QRELS = st.dictionaries(
    st.sampled_from(QUERY_IDS),
    st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1),
    min_size=1,
)
RANKINGS = st.dictionaries(st.sampled_from(QUERY_IDS), st.lists(st.sampled_from(DOCUMENTS), unique=True))


def values_of(evalset: EvalSet, run: RetrievalRun, query: str) -> dict[str, float]:
    evaluation = evaluate(evalset, run)
    return {metric: evaluation.by_query(metric)[query] for metric in evaluation.values}


def test_metrics_are_those_computed_by_hand() -> None:
    evalset = set_of({"q": {"a": 2, "b": 1, "c": 1, "x": 0}})
    got = values_of(evalset, run_of({"q": ["x", "b", "y", "a", "z"]}), "q")
    gained = 1 / math.log2(3) + 2 / math.log2(5)
    ideal = 2 + 1 / math.log2(3) + 1 / math.log2(4)
    expected = {
        "recall@1": 0, "recall@3": 1 / 3, "recall@5": 2 / 3, "recall@10": 2 / 3,
        "hit_rate@1": 0, "hit_rate@3": 1, "hit_rate@5": 1, "hit_rate@10": 1,
        "capped_recall@1": 0, "capped_recall@3": 1 / 3, "capped_recall@5": 2 / 3, "capped_recall@10": 2 / 3,
        "mrr@1": 0, "mrr@3": 0.5, "mrr@5": 0.5, "mrr@10": 0.5,
        "ndcg@1": 0, "ndcg@3": 1 / math.log2(3) / ideal, "ndcg@5": gained / ideal, "ndcg@10": gained / ideal,
        "precision@1": 0, "precision@3": 1 / 3, "precision@5": 0.4, "precision@10": 0.2,
    }  # fmt: skip
    assert got == pytest.approx(expected)


def test_row_76_a_document_with_the_id_of_its_query_is_ranked_like_any_other() -> None:
    documents = [str(number) for number in range(10)]
    evalset = set_of({"0": dict.fromkeys(documents, 1)})
    assert evaluate(evalset, run_of({"0": documents})).means["recall@10"] == 1


def test_row_77_a_query_that_the_run_lacks_scores_0_and_is_reported() -> None:
    evaluation = evaluate(set_of({"q1": {"a": 1}, "q2": {"a": 1}}), run_of({"q1": ["a"], "q3": ["a"]}))
    assert evaluation.by_query("recall@5") == {"q1": 1, "q2": 0}
    assert (evaluation.missing, evaluation.unknown) == (("q2",), ("q3",))


def test_row_78_ids_that_are_numbers_are_compared_as_text() -> None:
    evalset = EvalSet((Query(7, "x"),), {7: {1: 1, 2: 1.0}})  # type: ignore[arg-type,dict-item]
    assert evaluate(evalset, RetrievalRun.from_chunks([(7, [(1, 1), (2, 0.5)])])).means["recall@5"] == 1


@pytest.mark.parametrize("position", [0, 1, 2])
def test_row_81_a_query_without_relevant_documents_is_excluded_and_shifts_no_other(position: int) -> None:
    qrels = [("q1", {"a": 1}), ("q2", {"b": 1})]
    qrels.insert(position, ("none", {"a": 0, "b": -1}))
    evaluation = evaluate(
        set_of(dict(qrels), unlabelled=["no-label"]), run_of({"none": ["a"], "q1": ["a"], "q2": ["a"]})
    )
    assert evaluation.by_query("recall@5") == {"q1": 1, "q2": 0}
    assert evaluation.means["recall@5"] == 0.5
    assert evaluation.unjudged == ("none", "no-label")


def test_row_82_the_mean_is_over_judged_queries_and_not_over_answered_ones() -> None:
    evaluation = evaluate(set_of({"q1": {"a": 1}, "q2": {"a": 1}}), run_of({"q1": ["a"]}))
    assert set(evaluation.means.values()) == {0.5, 0.5 / 3, 0.5 / 5, 0.5 / 10}


def test_row_83_recall_stays_below_1_where_more_is_relevant_than_k_and_capped_recall_does_not() -> None:
    documents = [f"d{number}" for number in range(10)]
    got = values_of(set_of({"q": dict.fromkeys(documents, 1)}), run_of({"q": documents}), "q")
    assert (got["recall@5"], got["capped_recall@5"], got["hit_rate@5"]) == (0.5, 1.0, 1.0)


def test_a_query_is_measured_the_same_beside_one_with_more_labels() -> None:
    evaluation = evaluate(set_of({"few": {"a": 1}, "many": {"a": 1, "b": 2, "c": 1}}), run_of({"few": ["a"]}))
    assert evaluation.by_query("ndcg@10") == {"few": 1, "many": 0}


@pytest.mark.parametrize("cutoffs", [(0,), (5, -1), ()])
def test_row_88_a_cutoff_below_1_is_refused(cutoffs: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="cutoffs must be 1 or more"):
        evaluate(set_of({"q": {"a": 1}}), run_of({"q": ["a"]}), cutoffs)


@pytest.mark.parametrize("score", [0.0, 0.5, -1.0])
def test_equal_scores_are_measured_in_the_order_of_the_run(score: float) -> None:
    evalset = set_of({"q": {"b": 1}})
    for order, rank in (("bac", 1), ("abc", 2), ("cba", 2), ("acb", 3)):
        got = values_of(evalset, RetrievalRun.from_chunks({"q": [(document, score) for document in order]}), "q")
        assert got["mrr@10"] == pytest.approx(1 / rank)
        assert got["ndcg@10"] == pytest.approx(1 / math.log2(rank + 1))
        assert [got["recall@1"], got["recall@3"]] == [rank == 1, 1]


@settings(deadline=None, max_examples=60)
@given(QRELS, RANKINGS, st.lists(st.floats(-1, 1), min_size=15, max_size=15))
def test_scores_change_no_metric(
    qrels: dict[str, dict[str, int]], rankings: dict[str, list[str]], scores: list[float]
) -> None:
    run = RetrievalRun.from_chunks(
        {query: list(zip(ranked, scores, strict=False)) for query, ranked in rankings.items()}
    )
    assert run_of(rankings).rankings.keys() == run.rankings.keys()
    expected = evaluate(set_of(qrels), run_of(rankings))
    for metric, values in evaluate(set_of(qrels), run).values.items():
        assert values.tolist() == expected.values[metric].tolist(), metric


def test_one_cutoff_alone_is_measured() -> None:
    evaluation = evaluate(set_of({"q": {"a": 1}}), run_of({"q": ["a"]}), (5,))
    assert evaluation.means == {f"{metric}@5": 0.2 if metric == "precision" else 1.0 for metric in METRICS}


def test_a_set_without_judged_queries_and_an_empty_run_are_measured_as_such() -> None:
    nothing = evaluate(set_of({}, unlabelled=["q"]), run_of({"q": ["a"]}))
    assert nothing.query_ids == ()
    assert math.isnan(nothing.means["recall@5"])
    empty = evaluate(set_of({"q": {"a": 1}}), run_of({}))
    assert empty.is_empty
    assert set(empty.means.values()) == {0.0}


@settings(deadline=None, max_examples=60)
@given(QRELS, RANKINGS)
def test_ir_measures_agrees_to_four_digits(qrels: dict[str, dict[str, int]], rankings: dict[str, list[str]]) -> None:
    run = run_of(rankings)
    evaluation = evaluate(set_of(qrels), run)
    theirs = {query: dict(ranking) for query, ranking in run.rankings.items() if ranking.documents}
    names = {"recall": R, "hit_rate": Success, "mrr": RR, "ndcg": nDCG, "precision": P}
    measures = {measure @ k: f"{name}@{k}" for name, measure in names.items() for k in CUTOFFS}
    judged = {query: {d: max(0, g) for d, g in qrels[query].items()} for query in evaluation.query_ids}
    for found in iter_calc(list(measures), judged, theirs) if theirs and judged else ():
        ours = evaluation.by_query(measures[found.measure])[found.query_id]
        assert ours == pytest.approx(found.value, abs=5e-5), found


@settings(deadline=None, max_examples=60)
@given(QRELS, RANKINGS)
def test_every_metric_lies_between_0_and_1_and_grows_with_k_where_it_must(
    qrels: dict[str, dict[str, int]], rankings: dict[str, list[str]]
) -> None:
    evaluation = evaluate(set_of(qrels), run_of(rankings))
    for values in evaluation.values.values():
        assert ((values >= 0) & (values <= 1)).all()
    for name in ("recall", "hit_rate", "mrr"):
        steps = np.diff([evaluation.values[f"{name}@{k}"] for k in CUTOFFS], axis=0)
        assert (steps >= 0).all()


@settings(deadline=None, max_examples=60)
@given(QRELS, RANKINGS, st.data())
def test_a_better_placed_relevant_document_never_lowers_a_metric(
    qrels: dict[str, dict[str, int]], rankings: dict[str, list[str]], data: st.DataObject
) -> None:
    evalset = set_of(qrels)
    before = evaluate(evalset, run_of(rankings))
    for query in before.query_ids:
        documents = rankings.get(query, [])
        best = max(qrels[query], key=lambda document: qrels[query][document])
        place = data.draw(st.integers(0, documents.index(best) if best in documents else len(documents)))
        moved = [document for document in documents if document != best]
        moved.insert(place, best)
        after = evaluate(evalset, run_of({**rankings, query: moved}))
        for metric in before.values:
            assert after.by_query(metric)[query] >= before.by_query(metric)[query] - 1e-12, metric


@settings(deadline=None, max_examples=40)
@given(QRELS, RANKINGS, st.randoms())
def test_the_order_of_queries_and_labels_does_not_change_the_means(
    qrels: dict[str, dict[str, int]], rankings: dict[str, list[str]], random: object
) -> None:
    def shuffled(values: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        items = [(query, dict(reversed(list(grades.items())))) for query, grades in values.items()]
        random.shuffle(items)  # type: ignore[attr-defined]
        return dict(items)

    first = evaluate(set_of(qrels), run_of(rankings)).means
    second = evaluate(set_of(shuffled(qrels)), run_of(dict(reversed(list(rankings.items()))))).means
    assert first == pytest.approx(second, nan_ok=True)


def test_threads_may_measure_at_the_same_time() -> None:
    evalset = set_of({f"q{number}": {"a": 1} for number in range(20)})
    run = run_of({f"q{number}": ["b", "a"] for number in range(20)})
    found: list[float] = []

    def measure() -> None:
        for _ in range(20):
            found.append(evaluate(evalset, run).means["mrr@10"])

    threads = [threading.Thread(target=measure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0.5] * 80


def test_a_query_with_thousands_of_labels_does_not_widen_all_the_others() -> None:
    qrels = {f"q{number}": {"a": 1} for number in range(3_000)}
    qrels["q1500"] = {f"d{number}": 1 for number in range(20_000)}
    evalset, run = set_of(qrels), run_of({query: ["a"] for query in qrels})
    evaluate(evalset.subset(["q0", "q1"]), run)
    tracemalloc.start()
    evaluation = evaluate(evalset, run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert evaluation.query_ids == tuple(qrels)
    assert evaluation.by_query("recall@5")["q1500"] == 0
    assert peak < 100e6, "3,000 queries padded to 20,000 labels would take 960 MB"


@pytest.mark.slow
def test_ten_thousand_queries_are_measured_and_compared_in_bounded_memory() -> None:
    documents = [f"document-{number}" for number in range(2_000)]
    queries = [f"q{number}" for number in range(10_000)]
    place = np.random.default_rng(3).integers(0, 1_900, len(queries)).tolist()
    evalset = set_of({q: {documents[p + 3]: 1, documents[p + 50]: 2} for q, p in zip(queries, place, strict=True)})
    scores = [1 / (rank + 1) for rank in range(100)]
    tracemalloc.start()
    run = RetrievalRun.from_chunks(
        (q, zip(documents[p : p + 100], scores, strict=True)) for q, p in zip(queries, place, strict=True)
    )
    evaluation = evaluate(evalset, run)
    compare(evaluation, evaluation, "recall@5")
    confidence_intervals(evaluation)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert evaluation.means["mrr@10"] == pytest.approx(0.25)
    assert peak < 200e6


def test_nothing_is_compiled_for_the_metrics_and_they_are_those_of_ranx() -> None:
    code = (
        "import numpy as np, numba.core.dispatcher as d, evals.metrics as m\n"
        "def refuse(*_): raise AssertionError('compiled')\n"
        "compile_, d.Dispatcher.compile = d.Dispatcher.compile, refuse\n"
        "random = np.random.default_rng(1)\n"
        "labels = np.full((50, 4, 2), -1.0); labels[:, :3, 0] = [0, 1, 2]; labels[:, :3, 1] = [3, 2, 1]\n"
        "ranking = np.stack([random.permuted(np.tile(np.arange(-7.0, 3), (50, 1)), axis=1), np.zeros((50, 10))], 2)\n"
        "ranking[:, :, 0] = np.maximum(ranking[:, :, 0], -1); ranking[:, :, 1] = range(10, 0, -1)\n"
        "found = {name: kernel(labels, ranking, 5) for name, kernel in m._kernels().items()}\n"
        "import ranx; d.Dispatcher.compile = compile_\n"
        "wanted = ranx.evaluate(labels, ranking, ['hits@5', 'mrr@5', 'ndcg@5'], return_mean=False)\n"
        "assert all(np.array_equal(found[name], wanted[f'{name}@5']) for name in found), (found, wanted)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
