"""Runs and verdicts on real databases: what is measured is what was searched, or nothing is decided."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from evals.asking import Target, ask_all
from evals.datasets import EvalSet, Query
from evals.gate import Criterion, GatePolicy, Verdict
from evals.runner import (
    corpus_of,
    import_set,
    judge,
    measure,
    measure_pair,
    run_queries,
    stored_set,
)
from evals.tuning import WEIGHTS, halves, tune
from rag_assets.errors import ProfileNotReady, UnknownBot, UnknownProfile, UsageError
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.run import ingest
from rag_assets.progress import reporting
from rag_assets.retrieval import Retrieval, RetrievalResult, RetrievalScope
from rag_assets.store.database import Database
from rag_assets.store.tenants import add_tenant
from tests.support.labelled_world import COARSE, DOCUMENTS, FINE, add_document, labelled_bot, write_collection
from tests.support.worlds import HASH_PROFILE

pytestmark = pytest.mark.slow  # runs of Dagster, or whole ingests and evaluations, in each

GAIN = GatePolicy(max_p95_ratio=None)  # what else the machine does is no part of these tests
SAME = GatePolicy(min_recall_gain=None, non_inferior=0.01, max_p95_ratio=None)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("labelled"), critical=("q3",))


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], collection: Path) -> Iterator[Database]:
    """Bot `acme/b` with both profiles; tests leave its sources as they are."""
    database = new_database()
    labelled_bot(database, "acme", collection)
    yield database
    database.close()


def criterion(verdict: Verdict, name: str) -> Criterion:
    (found,) = [one for one in verdict.criteria if one.name == name]
    return found


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]


def test_a_run_has_every_judged_query_with_documents_and_times(world: Database) -> None:
    run = run_queries(world, "acme", "b", FINE, stored_set(world, "acme", "b").evalset, "dense")
    assert set(run.rankings) == {f"q{n}" for n in range(DOCUMENTS)}
    assert run.top("q7", 1) == ("d7",)
    assert all(len(ranking) == DOCUMENTS for ranking in run.rankings.values())
    for stage in ("total", "embed", "search"):
        assert set(run.latencies_ms[stage]) == set(run.rankings)
        assert (run.percentile_ms(stage, 0.95) or 0) > 0


def test_the_same_profile_gives_the_same_run_again(world: Database) -> None:
    evalset = stored_set(world, "acme", "b").evalset
    runs = {run_queries(world, "acme", "b", FINE, evalset, "hybrid").run_hash for _ in range(2)}
    assert len(runs) == 1


def test_a_measured_run_is_recorded_with_its_corpus(world: Database) -> None:
    done = measure(world, "acme", "b", COARSE, "dense")
    ((mode, snapshot, run_hash, metrics),) = rows(
        world, f"SELECT mode, snapshot, run_hash, metrics FROM rag.eval_runs WHERE id = {done.id}"
    )
    assert (mode, snapshot, run_hash) == ("dense", done.snapshot, done.measured.run.run_hash)
    assert metrics["queries"] == DOCUMENTS
    assert metrics["recall@5"] == pytest.approx(done.measured.evaluation.means["recall@5"])
    assert metrics["total_p95_ms"] > 0
    assert done.problems == ()


def test_a_better_profile_passes_and_the_reverse_is_refused(world: Database) -> None:
    better = judge(world, "acme", "b", FINE, mode="dense", policy=GAIN)
    assert better.verdict.outcome == "passed", better.verdict.reasons
    assert (better.candidate.name, better.baseline.name) == (FINE, COARSE)
    ((outcome, criteria),) = rows(
        world, f"SELECT outcome, criteria FROM rag.gate_verdicts WHERE id = {better.verdict_id}"
    )
    assert (outcome, criteria) == ("passed", better.verdict.as_dict()["criteria"])
    worse = judge(world, "acme", "b", COARSE, FINE, "dense", GAIN).verdict
    assert worse.outcome == "refused"
    assert criterion(worse, "recall_gain").passed is False


def test_a_profile_is_no_improvement_on_itself_and_never_inferior_to_itself(world: Database) -> None:
    for mode in ("dense", "lexical", "hybrid"):
        assert judge(world, "acme", "b", FINE, FINE, mode, GAIN).verdict.outcome == "refused"
        assert judge(world, "acme", "b", FINE, FINE, mode, SAME).verdict.outcome == "passed"


class _Meanwhile:
    """Does something once, when the first answers are in."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work

    def begin(self, what: str, total: int | None) -> None:
        """Stages are not shown."""

    def advance(self, amount: int) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()

    def end(self) -> None:
        """Stages are not shown."""


@pytest.mark.parametrize("profile", [COARSE, FINE])
def test_nothing_is_decided_about_sources_that_change_while_they_are_measured(
    database: Database, tmp_path: Path, profile: str
) -> None:
    folder = write_collection(tmp_path / "labelled")
    labelled_bot(database, "acme", folder)

    def change() -> None:
        add_document(folder)
        ingest(database, "acme", "b", profile)

    with reporting(_Meanwhile(change)):
        verdict = judge(database, "acme", "b", FINE, mode="dense", policy=GAIN).verdict
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 2)
    assert criterion(verdict, "stable_measurement").reason == "sources changed while it was measured"


def test_a_candidate_that_is_not_complete_is_refused_for_what_it_lacks(database: Database, tmp_path: Path) -> None:
    labelled_bot(database, "acme", write_collection(tmp_path / "labelled"), [COARSE])
    enable_pair(database, "acme", "b", FINE)
    verdict = judge(database, "acme", "b", FINE, mode="dense", policy=GAIN).verdict
    assert verdict.outcome == "refused"
    assert criterion(verdict, "coverage").value == DOCUMENTS
    assert criterion(verdict, "run_not_empty").passed is False
    assert "'building'" in verdict.problems[-1]


class _Scored:
    """A retriever that answers every query with one document at one score."""

    def __init__(self, score: float, degraded: str | None = None) -> None:
        self._score, self._degraded = score, degraded

    def search(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        result = RetrievalResult(UUID(int=1), UUID(int=2), "name", self._score, "text", 1, {"document": "d"})
        return Retrieval((result,), {"total": 1.0, "embed": 0.0, "search": 1.0}, self._degraded)

    async def asearch(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Retrieval:
        return self.search(query, scope, top_k, filters)


ONE_QUERY = EvalSet((Query("q", "text"),), {"q": {"d": 1}})
SCOPE = RetrievalScope("acme", "b", UUID(int=3), 1, HASH_PROFILE)


def test_scores_that_are_no_numbers_are_counted_and_rank_nothing() -> None:
    (heard,) = ask_all(ONE_QUERY, [Target(_Scored(math.nan), SCOPE)])
    assert heard.invalid_scores == 1
    assert heard.run.is_empty


def test_answers_with_less_than_was_asked_for_are_told() -> None:
    (heard,) = ask_all(ONE_QUERY, [Target(_Scored(0.5, "the query could not be embedded"), SCOPE)])
    assert heard.degraded == ("query q: the query could not be embedded",)
    assert heard.run.top("q", 1) == ("d",)


def test_every_target_is_asked_every_query_and_takes_turns_at_being_first() -> None:
    asked: list[tuple[str, str]] = []

    class Noted(_Scored):
        def __init__(self, name: str) -> None:
            super().__init__(0.5)
            self.name = name

        def search(self, query: str, *rest: Any, **named: Any) -> Retrieval:
            asked.append((self.name, query))
            return super().search(query, *rest, **named)

    queries = tuple(Query(f"q{n}", f"text {n}") for n in range(6))
    evalset = EvalSet(queries, {query.id: {"d": 1} for query in queries[:5]})
    first, second = ask_all(evalset, [Target(Noted("a"), SCOPE), Target(Noted("b"), SCOPE)])
    assert set(first.run.rankings) == set(second.run.rankings) == {f"q{n}" for n in range(5)}
    timed = asked[-10:]
    assert [name for name, _ in timed[::2]] == ["a", "b", "a", "b", "a"]
    assert [query for _, query in timed] == [f"text {n}" for n in range(5) for _ in "ab"]


def test_of_many_queries_two_hundred_from_all_parts_are_timed_alone_and_the_others_asked_at_once() -> None:
    alone, together = set[str](), threading.Barrier(2)

    class Slow(_Scored):
        def search(self, query: str, *rest: Any, **named: Any) -> Retrieval:
            if threading.current_thread() is threading.main_thread():
                alone.add(query)
            elif query in ("text 3", "text 4"):
                together.wait(60)  # two are under way at a time, or this fails
            return super().search(query, *rest, **named)

    queries = tuple(Query(f"q{n}", f"text {n}") for n in range(1000))
    evalset = EvalSet(queries, {query.id: {"d": 1} for query in queries})
    (heard,) = ask_all(evalset, [Target(Slow(0.5), SCOPE)])
    assert list(heard.run.rankings) == [query.id for query in queries]
    assert set(heard.run.latencies_ms["total"]) == {f"q{n}" for n in range(0, 1000, 5)}
    assert len(alone - {"text 0", "text 1", "text 2"}) == 199


def test_an_error_of_one_of_many_queries_ends_the_asking() -> None:
    class Failing(_Scored):
        def search(self, query: str, *rest: Any, **named: Any) -> Retrieval:
            if query == "text 301":
                raise RuntimeError(query)
            return super().search(query, *rest, **named)

    queries = tuple(Query(f"q{n}", f"text {n}") for n in range(500))
    evalset = EvalSet(queries, {query.id: {"d": 1} for query in queries})
    with pytest.raises(RuntimeError, match="text 301"):
        ask_all(evalset, [Target(Failing(0.5), SCOPE)])


def test_the_set_imported_last_counts_also_when_it_was_known_before(database: Database, tmp_path: Path) -> None:
    one = write_collection(tmp_path / "one")
    other = write_collection(tmp_path / "other", critical=("q1",))
    hashes = [import_set(database, "acme", "b", folder).content_hash for folder in (one, other, one)]
    assert hashes[0] == hashes[2] != hashes[1]
    assert stored_set(database, "acme", "b").evalset.content_hash == hashes[0]
    assert rows(database, "SELECT count(*) FROM rag.eval_sets") == [(2,)]


def test_labels_that_were_only_measured_with_do_not_become_the_bots_own(world: Database) -> None:
    own = stored_set(world, "acme", "b").evalset
    measure(world, "acme", "b", FINE, "dense", evalset=own.subset({"q1", "q2"}))
    assert stored_set(world, "acme", "b").evalset.content_hash == own.content_hash


def test_a_stored_set_is_the_one_that_was_imported(world: Database, collection: Path) -> None:
    evalset = stored_set(world, "acme", "b").evalset
    assert evalset == import_set(world, "acme", "b", collection)
    assert [query.id for query in evalset.queries] == [f"q{n}" for n in range(DOCUMENTS)]
    assert evalset.critical == {"q3"}


def test_text_that_postgres_cannot_hold_does_not_stop_an_import(database: Database, tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "labelled", {"odd": {"d1": 1}})
    with (folder / "queries.jsonl").open("a") as handle:
        handle.write(json.dumps({"_id": "odd", "text": "what\x00 is \ud800 this"}) + "\n")
    evalset = import_set(database, "acme", "b", folder)
    assert evalset.queries[-1].text == "what is \ufffd this"
    assert stored_set(database, "acme", "b").evalset.content_hash == evalset.content_hash


def test_documents_come_from_a_corpus_or_a_folder_of_sources(tmp_path: Path) -> None:
    assert corpus_of(tmp_path) is None
    (tmp_path / "sources").mkdir()
    assert corpus_of(tmp_path) == tmp_path / "sources"
    (tmp_path / "corpus.jsonl").touch()
    assert corpus_of(tmp_path) == tmp_path / "corpus.jsonl"


def test_labels_alone_need_a_bot_that_has_documents(database: Database, tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "labelled")
    (folder / "corpus.jsonl").unlink()
    add_tenant(database, "acme")
    with pytest.raises(UnknownBot):
        import_set(database, "acme", "b", folder)


def test_what_cannot_be_measured_says_what_is_missing(database: Database, tmp_path: Path) -> None:
    add_tenant(database, "acme", "b")
    with pytest.raises(UsageError, match=r"no labelled queries yet.*rag eval import"):
        measure(database, "acme", "b", COARSE)
    labelled_bot(database, "acme", write_collection(tmp_path / "labelled"), [])
    with pytest.raises(UnknownProfile, match=r"not built.*rag ingest"):
        measure(database, "acme", "b", COARSE)
    enable_pair(database, "acme", "b", COARSE)
    with pytest.raises(ProfileNotReady):
        measure(database, "acme", "b", COARSE)
    with pytest.raises(ProfileNotReady, match="has no active profile"):
        judge(database, "acme", "b", COARSE)


def test_two_profiles_measured_for_a_report_leave_no_verdict(world: Database) -> None:
    before = rows(world, "SELECT (SELECT count(*) FROM rag.gate_verdicts), (SELECT count(*) FROM rag.eval_runs)")
    after, base = measure_pair(world, "acme", "b", FINE, COARSE, "dense")
    assert (after.name, base.name) == (FINE, COARSE)
    ((verdicts, runs),) = before
    assert rows(world, "SELECT (SELECT count(*) FROM rag.gate_verdicts), (SELECT count(*) FROM rag.eval_runs)") == [
        (verdicts, runs + 2)
    ]


def test_a_query_stays_in_its_half_whatever_else_is_labelled(world: Database) -> None:
    evalset = stored_set(world, "acme", "b").evalset
    one, other = (set(half.judged) for half in halves(evalset))
    assert one | other == set(evalset.judged)
    assert not one & other
    assert min(len(one), len(other)) > DOCUMENTS / 4
    fewer = halves(evalset.subset([f"q{n}" for n in range(20)]))
    assert set(fewer[0].judged) <= one
    assert set(fewer[1].judged) <= other


def test_tuning_prefers_words_where_vectors_say_nothing(world: Database) -> None:
    evalset = stored_set(world, "acme", "b").evalset
    found = tune(world, "acme", "b", COARSE, evalset)
    assert set(found.tuning) == set(WEIGHTS)
    assert found.weight <= 0.5
    best = max(one.means["recall@5"] for one in found.tuning.values())
    assert found.tuning[found.weight].means["recall@5"] == pytest.approx(best)
    assert set(found.tuned.query_ids) == set(halves(evalset)[1].judged)
    assert found.comparison.mean_b == pytest.approx(found.tuned.means["recall@5"])
    with pytest.raises(UsageError, match="two halves"):
        tune(world, "acme", "b", COARSE, evalset.subset(["q1"]))
