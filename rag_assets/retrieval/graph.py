"""Retrieval along triples: from what the query names to what is said of that, hop by hop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any
from uuid import UUID

from rag_assets.errors import InvalidArgument, RagError
from rag_assets.retrieval.arguments import check_whole
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.results import Retrieval, RetrievalResult, joined, to_result
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Branch, Outcome, Steps, ask, together
from rag_assets.store.triples import GraphRequest, GraphRow, graph_statement
from rag_assets.terms import prepare_names_in

MAX_HOPS = 5
MAX_BEAM = 100


class GraphRetriever(SteppedRetriever):
    """What another retriever finds, and the chunks that triples lead to from the entities that the query names.

    A question whose answer does not name what it is asked about ("in which town is the maker of the Brimble valve?")
    is answered by a chunk that no search by words or meaning ranks high; a path of two triples leads there. Where no
    triple is met, the answer is the inner retriever's.
    """

    def __init__(self, retriever: Retriever, *, max_hops: int = 2, beam: int = 5) -> None:
        """Paths are at most `max_hops` (1 to 5) triples long; of each length the `beam` (1 to 100) best are followed
        and lead to chunks, which take turns with what `retriever` finds.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        database = database_of(require_retriever(retriever, "retriever"))
        if database is None:
            raise InvalidArgument("retriever must be one that asks a database, where triples are", "retriever")
        super().__init__(database)
        self._inner = retriever
        self._max_hops = check_whole(max_hops, "max_hops", MAX_HOPS)
        self._beam = check_whole(beam, "beam", MAX_BEAM)

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`. Where triples cannot be asked, the answer is the inner retriever's, and says so."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        started = time.perf_counter()
        scopes = [scope] if scope.shared is None else [scope, scope.shared]
        inner, *graphs = yield from together(
            Branch(steps_of(self._inner, query, scope, top_k, filters)),
            *(Branch(self._walked(query, one, top_k, filters)) for one in scopes),
        )
        found: Retrieval = inner.get()
        hits, took_ms, degraded = _hits(graphs)
        results = interleaved(found.results, hits)[:top_k]
        known = {one.chunk_id for one in found}
        added = sum(one.chunk_id not in known for one in results)
        timings = {
            **found.timings_ms,
            "graph": found.timings_ms.get("graph", 0.0) + took_ms,
            "total": 1000 * (time.perf_counter() - started),
        }
        trace = (*found.trace, {"stage": "graph", "chunks": len(hits), "added": added})
        told = joined(found.degraded, degraded)
        return replace(found, results=results, timings_ms=timings, degraded=told, trace=trace)

    def _walked(
        self, query: str, scope: RetrievalScope, top_k: int, filters: Mapping[str, Any]
    ) -> Steps[tuple[list[GraphRow], float]]:
        started = time.perf_counter()
        text = prepare_names_in(query)
        if not text:
            return [], 0.0
        request = GraphRequest(text, self._max_hops, self._beam, top_k, filters)
        (rows,) = yield from ask(scope.settings, graph_statement(request), stage="graph")
        return rows, 1000 * (time.perf_counter() - started)


def _hits(
    outcomes: Sequence[Outcome[tuple[list[GraphRow], float]]],
) -> tuple[list[RetrievalResult], float, str | None]:
    """What paths in all spaces led to, best first, how long the longest of them took, and what could not be asked."""
    hits: list[RetrievalResult] = []
    took_ms, degraded = 0.0, None
    for outcome in outcomes:
        try:
            rows, this_ms = outcome.get()
        except RagError as error:  # less is found, and nothing that the scope may not see
            degraded = f"triples could not be asked ({error}); searched without them"
            continue
        hits += [replace(to_result(row), path=tuple(row.path)) for row in rows]
        took_ms = max(took_ms, this_ms)
    return sorted(hits, key=lambda one: -one.score), took_ms, degraded


def interleaved(inner: Sequence[RetrievalResult], hits: Sequence[RetrievalResult]) -> tuple[RetrievalResult, ...]:
    """The two lists in turn, the inner one first: what it thinks best stays the best. A chunk, or a text, that is in
    both comes once, as the inner list has it and with the path; without hits the inner list stays as it is."""
    known = {one.chunk_id: one for one in inner}
    by_text = {one.content: one for one in reversed(inner)}
    paths = {(known.get(hit.chunk_id) or by_text.get(hit.content, hit)).chunk_id: hit for hit in hits}
    walked = [replace(known.get(chunk, hit), path=hit.path) for chunk, hit in paths.items()]
    own = [replace(one, path=paths[one.chunk_id].path) if one.chunk_id in paths else one for one in inner]
    first: dict[UUID, RetrievalResult] = {}
    for one in chain.from_iterable(zip_longest(own, walked)):
        if one is not None:
            first.setdefault(one.chunk_id, one)
    return tuple(first.values())
