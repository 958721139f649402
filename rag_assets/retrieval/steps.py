"""A retrieval as steps: what it does is written once, and done by threads or by tasks.

A retrieval is a generator. It yields what it needs, an embedding or rows of the database, is sent the answer or is
thrown the error, and returns its result. `drive` fetches the answers and waits for them; `adrive` awaits them. Checks,
order, retries and errors are therefore the same in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Caller, Embedded, Embedder
from rag_assets.embedding.registry import embedder_for, loaded_embedder
from rag_assets.errors import InvalidArgument
from rag_assets.store.database import Database
from rag_assets.store.statements import Scope, Statement

_T = TypeVar("_T")
_EMBEDDING_THREADS = 64  # they wait for a server's answer; a local model gets a thread at a time from torch itself


@dataclass(frozen=True)
class Embed:
    """Embed a search text with the profile's model."""

    profile: EmbeddingProfile
    text: str
    caller: Caller


@dataclass(frozen=True)
class Ask:
    """Read the rows of statements under a scope."""

    scope: Scope
    statements: Sequence[Statement]


Steps = Generator[Embed | Ask, Any, _T]


def embed(profile: EmbeddingProfile, text: str, caller: Caller) -> Steps[Embedded]:
    """The vector (1, d) float32 of a search text; see `Embedder.embed_query` for what it raises."""
    embedded: Embedded = yield Embed(profile, text, caller)
    return embedded


def ask(scope: Scope, *statements: Statement) -> Steps[list[list[Any]]]:
    """The rows of each statement; see `Database.ask` for what it raises."""
    rows: list[list[Any]] = yield Ask(scope, statements)
    return rows


def drive(database: Database, steps: Steps[_T]) -> _T:
    """Do the steps in this thread."""
    step = _begin(database, steps)
    while not isinstance(step, _Done):
        try:
            answer = _do(database, step)
        except Exception as error:
            step = _go_on(steps, failure=error)
        else:
            step = _go_on(steps, answer)
    return step.result


async def adrive(database: Database, steps: Steps[_T]) -> _T:
    """Do the steps in this task; nothing in it holds up the event loop."""
    step = _begin(database, steps)
    while not isinstance(step, _Done):
        try:
            answer = await _ado(database, step)
        except Exception as error:
            step = _go_on(steps, failure=error)
        else:
            step = _go_on(steps, answer)
    return step.result


@dataclass(frozen=True)
class _Done(Generic[_T]):
    result: _T


def _begin(database: Database, steps: Steps[_T]) -> Embed | Ask | _Done[_T]:
    if not isinstance(database, Database):
        raise InvalidArgument(f"database must be a rag_assets.Database, got {type(database).__name__}", "database")
    return _go_on(steps)


def _go_on(steps: Steps[_T], answer: Any = None, failure: Exception | None = None) -> Embed | Ask | _Done[_T]:
    try:
        return steps.send(answer) if failure is None else steps.throw(failure)
    except StopIteration as done:
        return _Done(done.value)


def _do(database: Database, step: Embed | Ask) -> Any:
    if isinstance(step, Ask):
        return database.ask(step.scope, step.statements)
    return embedder_for(step.profile).embed_query(step.text, step.caller)


async def _ado(database: Database, step: Embed | Ask) -> Any:
    if isinstance(step, Ask):
        return await database.aask(step.scope, step.statements)
    embedder = loaded_embedder(step.profile)
    if embedder is not None and _is_instant(embedder):
        return embedder.embed_query(step.text, step.caller)
    # Weights are read, a model computes, or a provider is waited for, whose deadline is kept by a thread in any case.
    return await asyncio.get_running_loop().run_in_executor(_threads(), _do, database, step)


def _is_instant(embedder: Embedder) -> bool:
    return bool(getattr(embedder, "instant", False))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_EMBEDDING_THREADS, thread_name_prefix="rag-embed")
