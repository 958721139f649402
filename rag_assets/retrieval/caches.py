"""Answers and vectors of queries that were asked before, and never an answer that has become another one meanwhile."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.protocol import Caller, Embedded, Usage
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.arguments import check_whole
from rag_assets.retrieval.limits import MAX_CACHE_MB, MAX_CACHED
from rag_assets.retrieval.protocol import (
    Retriever,
    SteppedRetriever,
    checked,
    database_of,
    require_retriever,
    scores_of,
    steps_of,
)
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Ask, Branch, Embed, Step, Steps, Together, ask
from rag_assets.store.search import corpus_version

_Value = TypeVar("_Value")
_MB = 1 << 20
_OVERHEAD = 300  # bytes of an entry beside its value, about


@dataclass(frozen=True)
class CacheStats:
    """What a cache was asked for and what it holds. `outdated` counts entries that were dropped because the corpus had
    changed, `evicted` those that made room for others."""

    hits: int
    misses: int
    entries: int
    bytes: int
    outdated: int
    evicted: int

    @property
    def hit_rate(self) -> float:
        """The share of hits, in [0, 1]; 0 before anything was asked."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class _Cache(Generic[_Value]):
    """The entries that were used last, so many at most and so many bytes. Each belongs to a tenant and to a version of
    its corpus, and those of another version than was seen last are dropped. Safe to use from many threads."""

    def __init__(self, entries: int, size: int) -> None:
        self._most, self._most_bytes = entries, size
        self._entries: OrderedDict[bytes, tuple[str, int, _Value]] = OrderedDict()
        self._of_tenant: dict[str, tuple[str, set[bytes]]] = {}
        self._bytes = self._hits = self._misses = self._outdated = self._evicted = 0
        self._lock = Lock()

    def get(self, tenant: str, version: str, key: bytes) -> _Value | None:
        with self._lock:
            self._outdate(tenant, version)
            found = self._entries.get(key)
            if found is None:
                self._misses += 1
                return None
            self._entries.move_to_end(key)
            self._hits += 1
            return found[2]

    def put(self, tenant: str, version: str, key: bytes, value: _Value, size: int) -> None:
        """Keep a value that was true of this version, or of a later one."""
        size += _OVERHEAD
        if size > self._most_bytes:
            return
        with self._lock:
            self._outdate(tenant, version)
            self._drop(key)
            self._entries[key] = (tenant, size, value)
            self._of_tenant.setdefault(tenant, (version, set()))[1].add(key)
            self._bytes += size
            while len(self._entries) > self._most or self._bytes > self._most_bytes:
                self._drop(next(iter(self._entries)))
                self._evicted += 1

    def stats(self) -> CacheStats:
        with self._lock:
            counts = (self._hits, self._misses, len(self._entries), self._bytes, self._outdated, self._evicted)
        return CacheStats(*counts)

    def _outdate(self, tenant: str, version: str) -> None:
        known, keys = self._of_tenant.get(tenant, (version, set()))
        if known != version:
            self._outdated += len(keys)
            for key in tuple(keys):
                self._drop(key)

    def _drop(self, key: bytes) -> None:
        if key in self._entries:
            tenant, size, _ = self._entries.pop(key)
            self._bytes -= size
            keys = self._of_tenant[tenant][1]
            keys.discard(key)
            if not keys:
                del self._of_tenant[tenant]


@dataclass(frozen=True)
class _Seen:
    """What one search met: of each vector that was wanted, whether it was there; and the versions of the tenant's
    corpus that answers were read from."""

    tenant: str
    vectors: list[bool]
    versions: set[str | None]


class CachedRetriever(SteppedRetriever):
    """Answers a query that it has answered before as it did then, as long as nothing has changed that could make the
    answer another one.

    The version of the tenant's corpus is read from the database at each search. Publications, withdrawals, erasures,
    promotions and changes of visibility change it in their own transactions, so nobody is given what was taken back.
    Less than was asked for (`degraded`) is not kept.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        results: int = 1000,
        results_mb: int = 64,
        vectors: int = 10_000,
        vectors_mb: int = 64,
    ) -> None:
        """At most so many answers and vectors of queries are kept, in so many megabytes; those that were not asked for
        longest go first.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind; or nothing in the retriever
                asks a database, so that nobody could tell when its answers change.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")), scores_of(retriever))
        if self.database is None:
            raise InvalidArgument("retriever asks no database that could say when its answers change", "retriever")
        self._retriever = retriever
        self._results: _Cache[bytes] = _Cache(
            check_whole(results, "results", MAX_CACHED), _MB * check_whole(results_mb, "results_mb", MAX_CACHE_MB)
        )
        self._vectors: _Cache[NDArray[np.float32]] = _Cache(
            check_whole(vectors, "vectors", MAX_CACHED), _MB * check_whole(vectors_mb, "vectors_mb", MAX_CACHE_MB)
        )

    @property
    def stats(self) -> Mapping[str, CacheStats]:
        """What the caches of `results` and of `vectors` did in this process."""
        return {"results": self._results.stats(), "vectors": self._vectors.stats()}

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        started = time.perf_counter()
        # Read before the search: what is published meanwhile makes another version, and the answer is not used again.
        ((row,),) = yield from ask(scope.settings, corpus_version(scope.tenant_id), stage="cache")
        key = _key(_scope_text(scope), query, top_k, filters, [vars(turn) for turn in self.history])
        kept = self._results.get(scope.tenant_id, row.version, key) if row.version else None
        took = 1000 * (time.perf_counter() - started)
        if kept is not None:
            found: Retrieval = pickle.loads(kept)  # nosec B301: made by this object, in this process
            timings = {"embed": 0.0, "search": 0.0, "cache": took, "total": took}
            trace = (*found.trace, {"stage": "cache", "hit": True})
            return replace(found, timings_ms=timings, usage=None, trace=trace)
        seen = _Seen(scope.tenant_id, [], set())
        found = yield from self._with_vectors(steps_of(self._retriever, query, scope, top_k, filters), seen)
        # Several replicas may answer one search, and one may be behind the other.
        if row.version and found.degraded is None and seen.versions <= {row.version}:
            packed = pickle.dumps(found)  # a copy: whoever gets an answer may change what is in it
            self._results.put(scope.tenant_id, row.version, key, packed, len(packed))
        timings = {**found.timings_ms, "cache": took, "total": found.timings_ms.get("total", 0.0) + took}
        vectors = {"hits": seen.vectors.count(True), "misses": seen.vectors.count(False)}
        return replace(
            found, timings_ms=timings, trace=(*found.trace, {"stage": "cache", "hit": False, "vectors": vectors})
        )

    def _with_vectors(self, steps: Steps[Any], seen: _Seen) -> Steps[Any]:
        """The same steps, but for queries whose vectors are known, and with the version of what is read."""
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                step = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as done:
                return done.value
            answer = failure = None
            try:
                answer = yield from self._done(step, seen)
            except Exception as error:  # it belongs to whoever asked for the step
                failure = error

    def _done(self, step: Step, seen: _Seen) -> Steps[Any]:
        if isinstance(step, Together):
            branches = [Branch(self._with_vectors(one.steps, seen), one.limit_s) for one in step.branches]
            return (yield replace(step, branches=branches))
        if isinstance(step, Ask) and step.scope.get("tenant") == seen.tenant:
            # First, so that what is read after it is of this version or of a later one.
            ((row,), *rows) = yield replace(step, statements=[corpus_version(seen.tenant), *step.statements])
            seen.versions.add(row.version)
            return rows
        if not isinstance(step, Embed):
            return (yield step)
        whose = step.caller.tenant
        key = _key(whose, step.caller.bot, step.profile.model_dump_json(), step.text)
        vector = self._vectors.get(whose, "", key)
        seen.vectors.append(vector is not None)
        if vector is not None:
            return Embedded(vector, _nothing_used(step.caller))
        embedded: Embedded = yield step
        kept = embedded.vectors.copy()
        kept.setflags(write=False)
        self._vectors.put(whose, "", key, kept, kept.nbytes)
        return embedded


def _nothing_used(caller: Caller) -> Usage:
    return Usage(caller.tenant, caller.bot, items=0, tokens=0)


def _scope_text(scope: RetrievalScope) -> dict[str, Any]:
    """All that a scope says, whatever fields it has, but for a signature, which is another one for each request."""
    values = {field.name: getattr(scope, field.name) for field in dataclasses.fields(scope) if field.compare}
    return {**values, "profile": scope.profile.model_dump_json()}


def _key(*parts: Any) -> bytes:
    text = json.dumps(parts, sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(), digest_size=20).digest()
