"""Put labelled queries to profiles, and listen to what comes back and how long it takes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from evals.datasets import EvalSet, Query
from evals.labels import NO_LABELS, Labels
from evals.runs import RetrievalRun, RunError
from rag_assets.progress import stage
from rag_assets.retrieval import Retrieval, RetrievalScope, Retriever, open_scope
from rag_assets.retrieval.files import RetrieverFile
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.search import Fusion, Mode

STAGES = ("total", "embed", "search")
_WARM_UP = 3  # queries asked before anything is timed: they load models and fill caches
_TIMED = 200  # queries whose 95th percentile stands for that of all
_AT_ONCE = 8  # as many as a database has connections for searching, unless it was told otherwise


@dataclass(frozen=True)
class RunSettings:
    """How queries are put: `depth` chunks each; weight of the dense list (None: as searches of the profile have it) and
    kind of fusion in hybrid mode. With a `retriever` it is asked, whatever the mode, and the rest is its own affair."""

    dense_weight: float | None = None
    fusion: Fusion = "minmax"
    depth: int = 100
    retriever: RetrieverFile | None = None

    def as_dict(self) -> dict[str, Any]:
        """As a run keeps it: two runs are comparable where it is equal."""
        fields: dict[str, Any] = {"dense_weight": self.dense_weight, "fusion": self.fusion, "depth": self.depth}
        return fields if self.retriever is None else {**fields, "retriever": dict(self.retriever.spec)}


@dataclass(frozen=True)
class Answers:
    """A run, and what was wrong with it: scores that are no finite numbers, and answers with less than was asked."""

    run: RetrievalRun
    invalid_scores: int = 0
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """A profile and a way to search it, ready to be asked."""

    retriever: Retriever
    scope: RetrievalScope


def target_of(
    database: Database, tenant: str, bot: str, profile: str, mode: Mode, settings: RunSettings | None = None
) -> Target:
    """A profile to be asked, in this mode or through the retriever of the settings.

    Raises:
        ProfileNotReady: it is not completely built.
        UsageError: the retriever cannot be made as its file says.
    """
    settings = settings or RunSettings()
    scope = open_scope(database, tenant, bot, profile)
    if settings.retriever is not None:
        return Target(settings.retriever.make(database), scope)
    retriever = RETRIEVERS[mode](
        database, dense_weight=settings.dense_weight, fusion=settings.fusion, candidates=settings.depth
    )
    return Target(retriever, scope)


def ask_all(
    evalset: EvalSet, targets: Sequence[Target], depth: int = 100, what: str = "ask", labels: Labels = NO_LABELS
) -> list[Answers]:
    """Put every judged query to every target.

    A hit counts for the documents that `labels` finds at its places, by default for the one that it cites.

    Up to 200 of the queries, from all parts of the set, are asked one after the other, and timed: each of them of every
    target before the next one, so that all meet the machine in the same mood. Who is asked first changes from query to
    query: the first one warms the caches of the others. The rest are asked some at a time, and not timed.
    """
    judged = frozenset(evalset.judged)
    queries = [query for query in evalset.queries if query.id in judged]
    heard = [_Heard() for _ in targets]
    for query in queries[:_WARM_UP]:
        for target in targets:
            target.retriever.search(query.text, target.scope, depth)
    step = max(1.0, len(queries) / _TIMED)
    places = {int(step * number) for number in range(min(_TIMED, len(queries)))}
    with stage(what, len(queries) * len(targets)) as bar:
        for number, query in enumerate(queries[place] for place in sorted(places)):
            for place in range(len(targets)):
                turn = (place + number) % len(targets)
                found = targets[turn].retriever.search(query.text, targets[turn].scope, depth)
                heard[turn].note(query.id, found, labels, evalset.qrels[query.id], timed=True)
            bar.advance(len(targets))
        rest = [query for place, query in enumerate(queries) if place not in places]
        for query, answers in _at_once(rest, targets, depth):
            for one, found in zip(heard, answers, strict=True):
                one.note(query.id, found, labels, evalset.qrels[query.id])
            bar.advance(len(targets))
    return [one.answers([query.id for query in queries]) for one in heard]


def _at_once(
    queries: Sequence[Query], targets: Sequence[Target], depth: int
) -> Iterator[tuple[Query, list[Retrieval]]]:
    """What each target answers to each query, in their order. After an error nothing more is asked."""

    def ask(query: Query) -> list[Retrieval]:
        return [target.retriever.search(query.text, target.scope, depth) for target in targets]

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="rag-ask") as pool:
        asked: deque[tuple[Query, Future[list[Retrieval]]]] = deque()
        try:
            for query in queries:
                # Each in a context of its own, which has what the caller's has: tracing, and who asks.
                asked.append((query, pool.submit(copy_context().run, ask, query)))
                if len(asked) > 2 * _AT_ONCE:  # a thousand answers are a hundred thousand hits
                    first, answers = asked.popleft()
                    yield first, answers.result()
            for first, answers in asked:
                yield first, answers.result()
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass
class _Heard:
    """What one target has answered so far; the times are those of the queries that were asked alone."""

    chunks: dict[str, list[tuple[object, float]]] = field(default_factory=dict)
    latencies: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in STAGES})
    degraded: list[str] = field(default_factory=list)

    def note(
        self, query_id: str, found: Retrieval, labels: Labels, relevant: Mapping[str, int], *, timed: bool = False
    ) -> None:
        self.chunks[query_id] = [(name, one.score) for one in found for name in labels.documents_of(one, relevant)]
        for name in STAGES if timed else ():
            self.latencies[name][query_id] = found.timings_ms[name]
        if found.degraded:
            self.degraded.append(f"query {query_id}: {found.degraded}")

    def answers(self, query_ids: Sequence[str]) -> Answers:
        chunks = {query: self.chunks[query] for query in query_ids}
        try:
            return Answers(RetrievalRun.from_chunks(chunks, self.latencies), 0, tuple(self.degraded))
        except RunError as error:
            finite = {name: [(d, s) for d, s in scored if math.isfinite(s)] for name, scored in chunks.items()}
            run = RetrievalRun.from_chunks(finite, self.latencies)
            return Answers(run, sum(error.invalid_scores.values()), tuple(self.degraded))
