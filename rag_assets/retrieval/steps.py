"""A retrieval as steps: what it does is written once, and done by threads or by tasks.

A retrieval is a generator. It yields what it needs (an embedding, rows of the database, what a model or a server says,
other retrievals side by side), is sent the answer or is thrown the error, and returns its result. `drive` fetches the
answers and waits for them; `adrive` awaits them. Checks, order, retries and errors are therefore the same in both, and
a retriever inside another is `yield from`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Caller, Embedded, Embedder
from rag_assets.embedding.registry import embedder_for, loaded_embedder
from rag_assets.errors import InvalidArgument, TimeLimitReached
from rag_assets.observing.searches import is_traced, stage
from rag_assets.store.database import Database, require_database
from rag_assets.store.statements import Scope, Statement

_T = TypeVar("_T")
_PROVIDERS = {"google": "gcp.gemini", "openai-compatible": "openai"}  # as OpenTelemetry names them
_WAITING_THREADS = 64  # they wait for a provider's answer; a local model gets a thread at a time from torch itself
# Whether somebody still waits for what this thread does: an event for each branch that it is in, set when that is late.
_LEFT_ALONE: contextvars.ContextVar[tuple[threading.Event, ...]] = contextvars.ContextVar("left_alone", default=())


@dataclass(frozen=True)
class Embed:
    """Embed a search text with the profile's model."""

    profile: EmbeddingProfile
    text: str
    caller: Caller
    stage = "embed"

    @property
    def attributes(self) -> dict[str, str | int]:
        """What its span says."""
        provider = _PROVIDERS.get(self.profile.provider, self.profile.provider)
        return {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": self.profile.model,
            "gen_ai.embeddings.dimension.count": self.profile.dimensions,
        }


@dataclass(frozen=True)
class Ask:
    """Read the rows of statements under a scope."""

    scope: Scope
    statements: Sequence[Statement]
    stage: str = "search"

    @property
    def attributes(self) -> dict[str, str | int]:
        """What its span says."""
        return {"db.system.name": "postgresql", "db.operation.name": "SELECT", "db.query.summary": f"rag {self.stage}"}


@dataclass(frozen=True)
class Call:
    """Do something that takes its time: a model computes, a server is asked. `awaited` does the same in a task; where
    there is none, a thread does `work` for it. `stage` and `model` say what it is to whoever traces it."""

    work: Callable[[], Any]
    awaited: Callable[[], Awaitable[Any]] | None = None
    stage: str = "call"
    model: str | None = None

    @property
    def attributes(self) -> dict[str, str | int]:
        """What its span says."""
        if self.model is None:
            return {}
        operation = {"gen_ai.operation.name": "chat"} if self.stage == "chat" else {}
        return {**operation, "gen_ai.request.model": self.model}


@dataclass(frozen=True)
class Branch:
    """Steps that go on beside others, for at most `limit_s` seconds; None: as long as they take."""

    steps: Steps[Any]
    limit_s: float | None = None


@dataclass(frozen=True)
class Outcome(Generic[_T]):
    """How a branch ended: with a value or with an error, which is `TimeLimitReached` where it was not waited for."""

    value: _T | None = None
    error: Exception | None = None

    def get(self) -> _T:
        """The value.

        Raises:
            Exception: the error of the branch.
        """
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


# Given the branches that have ended, by their place: until how many seconds after the start the others are waited for;
# None: as long as they take.
Patience = Callable[[Mapping[int, Outcome[Any]]], float | None]


@dataclass(frozen=True)
class Together:
    """Do branches side by side. What comes back is an `Outcome` for each, in their order."""

    branches: Sequence[Branch]
    patience: Patience | None = None


Step = Embed | Ask | Call | Together
Steps = Generator[Step, Any, _T]


def embed(profile: EmbeddingProfile, text: str, caller: Caller) -> Steps[Embedded]:
    """The vector (1, d) float32 of a search text; see `Embedder.embed_query` for what it raises."""
    embedded: Embedded = yield Embed(profile, text, caller)
    return embedded


def ask(scope: Scope, *statements: Statement, stage: str = "search") -> Steps[list[list[Any]]]:
    """The rows of each statement; see `Database.ask` for what it raises. `stage` is for whoever traces it."""
    rows: list[list[Any]] = yield Ask(scope, statements, stage)
    return rows


def call(
    work: Callable[[], _T],
    awaited: Callable[[], Awaitable[_T]] | None = None,
    stage: str = "call",
    model: str | None = None,
) -> Steps[_T]:
    """What `work` returns; it raises what that raises. `stage` and `model` are for whoever traces it."""
    value: _T = yield Call(work, awaited, stage, model)
    return value


def together(*branches: Branch, patience: Patience | None = None) -> Steps[list[Outcome[Any]]]:
    """How each branch ended. One that is late is left alone: what it does at that moment ends by itself, unheard,
    and it begins no further step. With `patience`, how long one is waited for depends on those that have ended."""
    outcomes: list[Outcome[Any]] = yield Together(branches, patience)
    return outcomes


def within(steps: Steps[_T], limit_s: float | None) -> Steps[_T]:
    """The result of the steps.

    Raises:
        TimeLimitReached: they took longer.
    """
    if limit_s is None:
        return (yield from steps)
    (outcome,) = yield from together(Branch(steps, limit_s))
    value: _T = outcome.get()
    return value


def drive(database: Database | None, steps: Steps[_T]) -> _T:
    """Do the steps in this thread. Without a database, steps that ask one fail."""
    step = _begin(database, steps)
    while not isinstance(step, _Done):
        if any(event.is_set() for event in _LEFT_ALONE.get()):
            steps.close()
            raise TimeLimitReached("nobody waits for the answer any more")
        try:
            answer = _do(database, step)
        except Exception as error:
            step = _go_on(steps, failure=error)
        else:
            step = _go_on(steps, answer)
    return step.result


async def adrive(database: Database | None, steps: Steps[_T]) -> _T:
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


def _begin(database: Database | None, steps: Steps[_T]) -> Step | _Done[_T]:
    if database is not None:
        require_database(database)
    return _go_on(steps)


def _go_on(steps: Steps[_T], answer: Any = None, failure: Exception | None = None) -> Step | _Done[_T]:
    try:
        return steps.send(answer) if failure is None else steps.throw(failure)
    except StopIteration as done:
        return _Done(done.value)


def _require(database: Database | None) -> Database:
    if database is None:
        raise InvalidArgument("this retriever has no database to ask", "database")
    return database


def _do(database: Database | None, step: Step) -> Any:
    if isinstance(step, Together) or not is_traced():
        return _work(database, step)
    with stage(step.stage, step.attributes):
        return _work(database, step)


def _work(database: Database | None, step: Step) -> Any:
    if isinstance(step, Ask):
        return _require(database).ask(step.scope, step.statements)
    if isinstance(step, Call):
        return step.work()
    if isinstance(step, Together):
        return _side_by_side(database, step.branches) if step.patience is None else _race(database, step)
    return embedder_for(step.profile).embed_query(step.text, step.caller)


async def _ado(database: Database | None, step: Step) -> Any:
    if isinstance(step, Together) or not is_traced():
        return await _awork(database, step)
    with stage(step.stage, step.attributes):
        return await _awork(database, step)


async def _awork(database: Database | None, step: Step) -> Any:
    if isinstance(step, Ask):
        return await _require(database).aask(step.scope, step.statements)
    if isinstance(step, Together):
        if step.patience is not None:
            return await _arace(database, step)
        return await asyncio.gather(*(_abranch(database, branch) for branch in step.branches))
    if isinstance(step, Call):
        # Without an `awaited` in a thread of its own: work of somebody else's may forget its limit, and is left behind
        # then. Were it one of a few, as many such calls would hold up everybody.
        return await (step.awaited() if step.awaited is not None else asyncio.wrap_future(_in_thread(step.work)))
    if isinstance(step, Embed):
        embedder = loaded_embedder(step.profile)
        if embedder is not None and _is_instant(embedder):
            return embedder.embed_query(step.text, step.caller)
    # Weights are read, a model computes, or a provider is waited for, whose deadline is kept in any case.
    context = contextvars.copy_context()  # a library's spans belong into this one's
    return await asyncio.get_running_loop().run_in_executor(_threads(), context.run, _work, database, step)


def _is_instant(embedder: Embedder) -> bool:
    return bool(getattr(embedder, "instant", False))


def _side_by_side(database: Database | None, branches: Sequence[Branch]) -> list[Outcome[Any]]:
    """Each branch in a thread of its own but the first that may take as long as it likes, which this one does.

    A thread is made for each, and none is kept: branches of branches could wait for each other's place in a pool.
    """
    started = time.monotonic()
    own = next((number for number, branch in enumerate(branches) if branch.limit_s is None), None)
    begun = {n: _begun(database, branch) for n, branch in enumerate(branches) if n != own}
    outcomes = {own: _ended(database, branches[own].steps)} if own is not None else {}
    for number, branch in begun.items():
        limit = branches[number].limit_s
        left = None if limit is None else max(0.0, started + limit - time.monotonic())
        try:
            outcomes[number] = branch.future.result(left)
        except TimeoutError:
            branch.left_alone.set()
            outcomes[number] = Outcome(error=_late(limit))
    return [outcomes[number] for number in range(len(branches))]


def _race(database: Database | None, step: Together) -> list[Outcome[Any]]:
    """Branches whose patience is asked for whenever one of them has ended."""
    started = time.monotonic()
    begun = [_begun(database, Branch(within(branch.steps, branch.limit_s))) for branch in step.branches]
    futures = [branch.future for branch in begun]
    pending, left = set(futures), _left(step, {}, started)
    while pending and (left is None or left > 0):
        _, pending = wait(pending, left, FIRST_COMPLETED)
        left = _left(step, {n: future.result() for n, future in enumerate(futures) if future.done()}, started)
    for branch in begun:
        branch.left_alone.set()
    return [_outcome(future, started) for future in futures]


async def _arace(database: Database | None, step: Together) -> list[Outcome[Any]]:
    started = time.monotonic()
    tasks = [asyncio.ensure_future(_abranch(database, branch)) for branch in step.branches]
    pending, left = set(tasks), _left(step, {}, started)
    try:
        while pending and (left is None or left > 0):
            _, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            left = _left(step, {n: task.result() for n, task in enumerate(tasks) if task.done()}, started)
        return [_outcome(task, started) for task in tasks]
    finally:
        for task in pending:
            task.cancel()


def _left(step: Together, ended: Mapping[int, Outcome[Any]], started: float) -> float | None:
    limit = step.patience(ended) if step.patience is not None else None
    return None if limit is None else started + limit - time.monotonic()


def _outcome(branch: Future[Outcome[Any]] | asyncio.Future[Outcome[Any]], started: float) -> Outcome[Any]:
    return branch.result() if branch.done() else Outcome(error=_late(time.monotonic() - started))


@dataclass(frozen=True)
class _Begun:
    """A branch in its thread, and what tells it that nobody waits any more."""

    future: Future[Outcome[Any]]
    left_alone: threading.Event


def _begun(database: Database | None, branch: Branch) -> _Begun:
    left_alone = threading.Event()

    def work() -> Outcome[Any]:
        _LEFT_ALONE.set((*_LEFT_ALONE.get(), left_alone))
        return _ended(database, branch.steps)

    return _Begun(_in_thread(work), left_alone)


def _in_thread(work: Callable[[], _T]) -> Future[_T]:
    """Begin work in a thread of its own, which keeps no process from ending."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody can cancel it
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:  # the thread was told to exit: whoever waits must hear of it
            future.set_exception(error)

    threading.Thread(target=run, name="rag-branch", daemon=True).start()
    return future


def _ended(database: Database | None, steps: Steps[_T]) -> Outcome[_T]:
    try:
        return Outcome(drive(database, steps))
    except Exception as error:  # whatever it is, it belongs to this branch
        return Outcome(error=error)


async def _abranch(database: Database | None, branch: Branch) -> Outcome[Any]:
    try:
        async with asyncio.timeout(branch.limit_s) as limit:
            return Outcome(await adrive(database, branch.steps))
    except Exception as error:
        late = isinstance(error, TimeoutError) and limit.expired()
        return Outcome(error=_late(branch.limit_s) if late else error)


def _late(limit_s: float | None) -> TimeLimitReached:
    return TimeLimitReached(f"no answer within {limit_s:.3g} s")


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WAITING_THREADS, thread_name_prefix="rag-wait")
