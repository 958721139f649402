"""The query log's writer: off the search's path, by one thread, and rather with a gap than in anybody's way."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any
from uuid import UUID

from rag_assets.errors import DatabaseUnavailable
from rag_assets.observing.masks import masked, masked_values
from rag_assets.observing.records import Asked, Told
from rag_assets.observing.switches import switches
from rag_assets.observing.telemetry import instruments
from rag_assets.store.database import Database
from rag_assets.store.query_log import MAX_QUERY_CHARS, adding, answering
from rag_assets.store.statements import Scope, Statement, storable

_log = logging.getLogger(__name__)
_MOST = 10_000  # entries that wait
_BATCH = 500  # of them, in one round
_GATHER_S = 0.3  # so that many searches make one round trip
_EXIT_S = 2.0
_RESULTS = 100  # of a query, the best
_FILTERS_CHARS = 4000
_WARN_S = 60.0


@dataclass(frozen=True)
class _Entry:
    """A search, or the citations of the answer to one."""

    database: Database
    scope: Scope
    added: float  # monotonic
    asked: Asked | None = None
    told: Told | None = None
    query_id: UUID | None = None
    cited: tuple[UUID, ...] = ()


@dataclass(frozen=True)
class LogStats:
    """What became of entries in this process."""

    written: int
    dropped: int
    waiting: int


class QueryLog:
    """Entries on their way into the table. Safe to use from many threads, and in forked processes."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        """As it is in a new process: what a parent has waiting is the parent's to write."""
        self._changed = Condition()
        self._waiting: deque[_Entry] = deque()
        self._thread: Thread | None = None
        self._added = self._done = self._written = self._dropped = 0
        self._hurry = False
        self._warned = -_WARN_S

    def search(self, asked: Asked, told: Told) -> None:
        """Write down a search, soon. One without a scope belongs to nobody and is not written."""
        if asked.database is not None and asked.tenant is not None:
            self._add(_Entry(asked.database, asked.scope, time.monotonic(), asked, told))

    def answer(self, database: Database, scope: Scope, query_id: UUID, cited: Iterable[UUID]) -> None:
        """Write down which results the answer to a query cites, after the query."""
        self._add(_Entry(database, scope, time.monotonic(), query_id=query_id, cited=tuple(cited)))

    def flush(self, limit_s: float) -> bool:
        """Write what waits, for at most so long; whether all of it was dealt with."""
        with self._changed:
            upto = self._added
            if self._done < upto:
                self._hurry = True
                self._changed.notify_all()
            return self._changed.wait_for(lambda: self._done >= upto, limit_s)

    @property
    def stats(self) -> LogStats:
        """What became of entries so far."""
        with self._changed:
            return LogStats(self._written, self._dropped, self._added - self._done)

    def _add(self, entry: _Entry) -> None:
        with self._changed:
            full = len(self._waiting) >= self._most
            if not full:
                self._waiting.append(entry)
                self._added += 1
                if self._thread is None or not self._thread.is_alive():
                    self._thread = Thread(target=self._write, name="rag-query-log", daemon=True)
                    self._thread.start()
                if len(self._waiting) == 1:
                    self._changed.notify_all()
            else:
                self._dropped += 1
        if full:
            _count("dropped", 1)

    def _write(self) -> None:
        while True:
            batch = self._next()
            written = 0
            try:
                written = self._written_of(batch)
            except Exception:  # the thread is the only one, and goes on
                _log.exception("entries of the query log were dropped")
            finally:
                with self._changed:
                    self._done += len(batch)
                    self._written += written
                    self._dropped += len(batch) - written
                    self._hurry = self._hurry and bool(self._waiting)
                    self._changed.notify_all()
            _count("written", written)
            _count("dropped", len(batch) - written)

    def _next(self) -> list[_Entry]:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting))
            self._changed.wait_for(lambda: self._hurry or len(self._waiting) >= _BATCH, _GATHER_S)
            return [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]

    def _written_of(self, batch: Sequence[_Entry]) -> int:
        groups: dict[tuple[int, tuple[tuple[str, str | None], ...]], list[_Entry]] = {}
        for entry in batch:
            groups.setdefault((id(entry.database), tuple(sorted(entry.scope.items()))), []).append(entry)
        away: set[int] = set()
        written = 0
        for (database, _), entries in groups.items():
            if database in away:
                continue
            try:
                entries[0].database.ask(entries[0].scope, _statements(entries))
                written += len(entries)
            except Exception as error:  # whatever it is, the search it belongs to is long over
                if isinstance(error, DatabaseUnavailable):
                    away.add(database)  # for all others of this round, too
                self._warn(error)
        return written

    def _warn(self, error: Exception) -> None:
        if time.monotonic() - self._warned >= _WARN_S:
            self._warned = time.monotonic()
            _log.warning("entries of the query log are dropped (%s)", type(error).__name__)


def _statements(entries: Sequence[_Entry]) -> list[Statement]:
    now = time.monotonic()  # one for all, so that they stay in their order
    searches = [_row(one.asked, one.told, now - one.added) for one in entries if one.asked and one.told]
    answers = [answering(one.query_id, one.cited) for one in entries if one.query_id]
    return [*([adding(searches)] if searches else []), *answers]


def _row(asked: Asked, told: Told, age_s: float) -> dict[str, Any]:
    """A row of the table, without what the table knows from the scope."""
    mask = switches().mask
    filters = masked_values(dict(asked.filters), mask)
    return {
        "query_id": str(asked.query_id),
        "age_s": max(0.0, age_s) + told.timings_ms["total"] / 1000,
        "query": storable(masked(asked.query, mask))[:MAX_QUERY_CHARS],
        "profile": asked.profile or "",
        "retriever": asked.retriever,
        "mode": asked.mode,
        "top_k": asked.top_k,
        "filters": _kept(filters),
        "rung": told.rung,
        "degraded": told.degraded,
        "error": told.error,
        "top_similarity": told.top_similarity,
        "results": [
            {"source_id": str(hit.source_id), "chunk_id": str(hit.chunk_id), "score": round(hit.score, 6)}
            for hit in told.hits[:_RESULTS]
        ],
        "timings_ms": {name: round(ms, 3) for name, ms in told.timings_ms.items()},
    }


def _kept(filters: Mapping[str, Any]) -> Any:
    """Filters as JSON holds them; None for more than anybody types."""
    value = _plain(filters)
    return value if len(repr(value)) <= _FILTERS_CHARS else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {storable(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else storable(str(value))


def _count(outcome: str, number: int) -> None:
    tools = instruments()
    if tools is not None and number:
        tools.query_log.add(number, {"rag.query_log.outcome": outcome})


QUERY_LOG = QueryLog()
os.register_at_fork(after_in_child=QUERY_LOG._begin)
atexit.register(QUERY_LOG.flush, _EXIT_S)
