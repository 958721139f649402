"""What is judged is the order that search returns, also where its scores say nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from evals.asking import RunSettings, Target, target_of
from evals.datasets import EvalSet, Query
from evals.metrics import evaluate
from evals.runner import run_queries
from rag_assets.store.database import Database
from rag_assets.store.search import Fusion, Mode
from tests.support.labelled_world import COARSE, labelled_bot, write_collection, write_corpus

_SYLLABLES = ("ab", "ek", "ol", "im", "un", "op", "ar", "es")
_DOCUMENTS = [f"d{number:02}" for number in range(20)]


def _words(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    return ["".join(generator.choices(_SYLLABLES, k=5)) for _ in range(count)]


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Bot `acme/b`: documents of some chunks each that have most words in common, so that many scores are equal."""
    database = new_database()
    folder = write_collection(tmp_path_factory.mktemp("labelled"))
    common = " ".join(_words(1, 300))
    write_corpus(
        folder,
        {name: f"{' '.join(_words(number // 2 + 2, 3))} {common}." for number, name in enumerate(_DOCUMENTS)},
    )
    labelled_bot(database, "acme", folder, [COARSE])
    yield database
    database.close()


def _documents_of(target: Target, text: str) -> tuple[tuple[str, ...], list[float]]:
    """Documents in the order in which their chunks are served, and the score of every chunk."""
    found = target.retriever.search(text, target.scope, RunSettings().depth)
    return tuple(dict.fromkeys(one.citation["document"] for one in found)), [one.score for one in found]


def _queries(texts: list[str]) -> EvalSet:
    queries = tuple(Query(f"q{number}", text) for number, text in enumerate(texts))
    return EvalSet(queries, {query.id: {_DOCUMENTS[0]: 1} for query in queries})


@pytest.mark.parametrize("fusion", get_args(Fusion))
@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_query_is_judged_by_the_documents_in_the_order_of_the_search(
    world: Database, mode: Mode, fusion: Fusion
) -> None:
    settings = RunSettings(fusion=fusion)
    target = target_of(world, "acme", "b", COARSE, mode, settings)
    evalset = _queries([*_words(1, 5), *_words(2, 3), " ".join(_words(3, 3)), *(f"zzz{n} qqq" for n in range(20))])
    run = run_queries(world, "acme", "b", COARSE, evalset, mode, settings)
    served = {query.id: _documents_of(target, query.text) for query in evalset.queries}
    assert {query: ranking.documents for query, ranking in run.rankings.items()} == {
        query: documents for query, (documents, _) in served.items()
    }
    if (mode, fusion) != ("hybrid", "rrf"):  # sums of reciprocal ranks are equal by chance alone
        assert any(len(set(scores)) < len(scores) for _, scores in served.values()), "no scores are equal"
    assert any(list(documents) != sorted(documents) for documents, _ in served.values())


def test_a_hybrid_search_whose_scores_are_all_0_is_judged_in_its_order(world: Database) -> None:
    target = target_of(world, "acme", "b", COARSE, "hybrid")
    texts = [f"zzz{number} qqq" for number in range(40)]
    served = {text: _documents_of(target, text) for text in texts}
    nothing = {text: documents for text, (documents, scores) in served.items() if set(scores) == {0.0}}
    assert len(nothing) >= 3, "the vectors of some queries without a known word point away from every chunk"
    evalset = _queries(list(nothing))
    evaluation = evaluate(evalset, run_queries(world, "acme", "b", COARSE, evalset))
    places = [documents.index(_DOCUMENTS[0]) for documents in nothing.values()]
    assert any(place > 0 for place in places), "by id it would be the first"
    for query, place in zip(evalset.queries, places, strict=True):
        assert evaluation.by_query("mrr@10")[query.id] == (1 / (place + 1) if place < 10 else 0.0)
        assert evaluation.by_query("recall@5")[query.id] == float(place < 5)
