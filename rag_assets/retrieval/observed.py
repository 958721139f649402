"""The one place where a search is watched: the outermost retriever's, whatever is in it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rag_assets.observing.records import Asked, Hit, Told, new_query_id
from rag_assets.observing.searches import is_heard, opened
from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.database import Database

_WITHIN: ContextVar[bool] = ContextVar("within", default=False)


@contextmanager
def observed(
    retriever: Any, query: object, scope: object, top_k: object, filters: object
) -> Iterator[Callable[[Retrieval], Retrieval]]:
    """Around a search: what is yielded is given its result, and returns it with the id of the query. Within another
    search nothing is told and the result stays as it is."""
    if _WITHIN.get():
        yield lambda found: found
        return
    token = _WITHIN.set(True)
    query_id = new_query_id()
    try:
        if is_heard():
            with _told(query_id, retriever, query, scope, top_k, filters) as keep:
                yield lambda found: keep(replace(found, query_id=query_id))
        else:
            yield lambda found: replace(found, query_id=query_id)
    finally:
        _WITHIN.reset(token)


@contextmanager
def _told(
    query_id: UUID, retriever: Any, query: object, scope: object, top_k: object, filters: object
) -> Iterator[Callable[[Retrieval], Retrieval]]:
    given = scope if isinstance(scope, RetrievalScope) else None
    database = getattr(retriever, "database", None)
    asked = Asked(
        query_id,
        datetime.now(UTC),
        query if isinstance(query, str) else "",
        given.tenant_id if given else None,
        given.bot_id if given else None,
        given.profile.name if given else None,
        kind_of(retriever),
        getattr(retriever, "mode", None) or getattr(retriever, "scored_by", None),
        top_k if isinstance(top_k, int) else 0,
        filters if isinstance(filters, Mapping) else {},
        database if isinstance(database, Database) else None,
        given.settings if given else {},
    )
    kept: list[Retrieval] = []

    def keep(found: Retrieval) -> Retrieval:
        kept.append(found)
        return found

    started = time.perf_counter()
    with opened() as search:
        try:
            yield keep
        except BaseException as error:  # a task that is cancelled, too
            took = 1000 * (time.perf_counter() - started)
            search.told(asked, Told({"total": took}, error=type(error).__name__))
            raise
        if kept:
            search.told(asked, _of(kept[0]))


def kind_of(retriever: object) -> str:
    """The kind of a retriever, as files of retrievers name it: `hybrid` of a `HybridRetriever`."""
    name = type(retriever).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix("Retriever") or name).lower()


def _of(found: Retrieval) -> Told:
    return Told(
        {"total": 0.0, **found.timings_ms},
        tuple(map(_hit, found)),
        found.rung,
        found.degraded is not None,
        max((one.dense_score for one in found if one.dense_score is not None), default=None),
        _caches(found),
        found.usage.tokens if found.usage is not None else None,
    )


def _hit(one: RetrievalResult) -> Hit:
    by_meaning, by_words = one.dense_score is not None, one.lexical_score is not None
    return Hit(one.source_id, one.chunk_id, one.score, one.space, by_meaning, by_words)


def _caches(found: Retrieval) -> dict[str, tuple[int, int]]:
    """Hits and misses of all caches in the retriever, as their stages say."""
    counts: dict[str, tuple[int, int]] = {}
    for step in found.trace:
        if step.get("stage") == "cache":
            told = {"results": (int(step["hit"]), int(not step["hit"]))}
            vectors = step.get("vectors") or {}
            told["vectors"] = (vectors.get("hits", 0), vectors.get("misses", 0))
            for name, (hits, misses) in told.items():
                before = counts.get(name, (0, 0))
                counts[name] = (before[0] + hits, before[1] + misses)
    return counts
