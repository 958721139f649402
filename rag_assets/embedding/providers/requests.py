"""What every provider that is asked over a network needs: batches, retries, deadlines, and keys that stay secret.

A provider's module gives `call_with_retries` a function that sends one request. That function raises `Transient` for
what may pass, and one of our own errors for what will not. Neither may hold a key, a text, a request or a response,
not even as its context: raise it after the `except` block, not inside.
"""

from __future__ import annotations

import json
import logging
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Thread
from typing import Generic, NoReturn, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Gate
from rag_assets.errors import ProviderRefused, ProviderUnavailable, TextRefused
from rag_assets.printing import counted
from rag_assets.settings import read_variable

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


def json_bytes(text: str) -> int:
    """Bytes of a text as a JSON string in a request: most clients escape a character beyond ASCII to 6 or 12."""
    return len(json.dumps(text))


def plan_batches(
    sizes: Sequence[int],
    max_items: int,
    max_bytes: int,
    tokens: Sequence[int] | None = None,
    max_tokens: int | None = None,
) -> list[range]:
    """Cut positions 0..n-1 into consecutive requests of at most so many items and bytes, and of so many `tokens` where
    there is such a limit.

    An item that is larger than a whole request stands alone: whether it can be sent is the provider's to say.
    """
    batches: list[range] = []
    counts = tokens if tokens is not None and max_tokens is not None else [0] * len(sizes)
    most = sys.maxsize if max_tokens is None else max_tokens
    start, total, counted = 0, 0, 0
    for position, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        is_full = position - start >= max_items or total + size > max_bytes or counted + count > most
        if position > start and is_full:
            batches.append(range(start, position))
            start, total, counted = position, 0, 0
        total += size
        counted += count
    if sizes:
        batches.append(range(start, len(sizes)))
    return batches


class Transient(Exception):
    """An attempt that failed for a reason that may pass. `retry_after`: the pause that the provider asked for, in
    seconds, where it named one. `is_limit`: too much was asked for, whatever it was."""

    def __init__(self, reason: str, retry_after: float | None = None, is_limit: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.is_limit = is_limit


@dataclass(frozen=True)
class RetryPolicy:
    """How long to go on. All in seconds, but for `attempts`, which includes the first.

    `deadline_seconds` is for all attempts and the pauses between them; time spent waiting at the gate is not counted,
    which is nobody's failure. `attempt_seconds` is for one. Pauses double from `first_wait` up to `longest_wait`.
    """

    deadline_seconds: float = 600
    attempts: int = 8
    attempt_seconds: float = 60
    first_wait: float = 1
    longest_wait: float = 60

    def within(self, seconds: float | None, tries: int | None = None) -> RetryPolicy:
        """The same, but over in so many seconds and attempts; None: the same."""
        return replace(
            self,
            deadline_seconds=self.deadline_seconds if seconds is None else min(self.deadline_seconds, seconds),
            attempts=self.attempts if tries is None else min(self.attempts, tries),
        )


FOR_DOCUMENTS = RetryPolicy()
FOR_QUERIES = RetryPolicy(deadline_seconds=5, attempts=2, attempt_seconds=3, first_wait=0.2)  # somebody waits


def call_with_retries(
    send: Callable[[float], _Answer],
    *,
    what: str,
    gate: Gate,
    items: int,
    tokens: int,
    policy: RetryPolicy = FOR_DOCUMENTS,
    sleep: Callable[[float], None] = time.sleep,
) -> _Answer:
    """Send one request, and again while it fails with `Transient` and time is left.

    `send` is given the seconds that it may take; `what` names provider and model in messages. The gate is asked
    before every attempt, and told of every pause that the provider asks for.

    Raises:
        ProviderUnavailable: no attempt succeeded, or the pause asked for is longer than the deadline allows.
        EmbeddingError: whatever of this family `send` or the gate raised.
    """
    attempts = _Attempts(send, what, gate, items, tokens, policy)
    retrying = Retrying(
        retry=retry_if_exception_type(Transient),
        wait=attempts.pause,
        stop=attempts.is_over,
        sleep=sleep,
        before_sleep=attempts.note_failure,
        retry_error_callback=attempts.give_up,
    )
    return retrying(attempts.attempt)


class _Attempts(Generic[_Answer]):
    """One request's attempts: what tenacity asks of them, and the time that they have taken."""

    def __init__(
        self, send: Callable[[float], _Answer], what: str, gate: Gate, items: int, tokens: int, policy: RetryPolicy
    ) -> None:
        self._send, self._what, self._gate, self._policy = send, what, gate, policy
        self._items, self._tokens = items, tokens
        self._started = time.monotonic()
        self._queued = 0.0

    def attempt(self) -> _Answer:
        arrived = time.monotonic()
        self._gate.acquire(self._items, self._tokens)
        self._queued += time.monotonic() - arrived
        try:
            return self._send(max(0.001, min(self._policy.attempt_seconds, self._remaining())))
        except Transient as error:
            if error.retry_after is not None:
                self._gate.throttled(error.retry_after)
            raise

    def pause(self, state: RetryCallState) -> float:
        # Not the longer of the two: a provider that names a pause knows better than a doubling.
        told = _failure(state).retry_after
        base = told or min(self._policy.longest_wait, self._policy.first_wait * 2 ** (state.attempt_number - 1))
        # So that workers do not come back all at once.
        return base + random.uniform(0, self._policy.first_wait)  # nosec B311: nothing secret

    def is_over(self, state: RetryCallState) -> bool:
        return state.attempt_number >= self._policy.attempts or state.upcoming_sleep >= self._remaining()

    def note_failure(self, state: RetryCallState) -> None:
        reason = _failure(state).reason
        _log.warning("%s: %s; next try in %.1f s", self._what, reason, state.upcoming_sleep)

    def give_up(self, state: RetryCallState) -> NoReturn:
        failure = _failure(state)
        tries = counted(state.attempt_number, "try")
        asked = f", and asks for a pause of {round(failure.retry_after, 2):g} s" if failure.retry_after else ""
        said = f"{self._what} gave no answer in {tries}: {failure.reason}"
        # Who asks for a long pause means all that would be sent.
        is_limit = failure.is_limit or (failure.retry_after or 0) > self._policy.longest_wait
        raise ProviderUnavailable(
            f"{said}{asked}; what was embedded so far is kept, so run it again later",
            unanswered="" if is_limit else said,
        )

    def _remaining(self) -> float:
        return self._policy.deadline_seconds - (time.monotonic() - self._started - self._queued)


def _failure(state: RetryCallState) -> Transient:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, Transient) else Transient("no outcome")


def within(seconds: float, call: Callable[[], _Answer]) -> _Answer:
    """Run a blocking call for at most so many seconds, whatever it is waiting for.

    The timeouts of HTTP clients are for one read at a time, so a server that sends a byte now and then holds a call
    for hours; looking up a host name has no timeout at all. The call runs in a thread of its own, which is left
    behind when its time is up. It is a daemon: it does not keep a process from ending.

    Raises:
        Transient: the time is up.
    """
    outcome: Future[_Answer] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=work, name="embedding-request", daemon=True).start()
    try:
        return outcome.result(timeout=seconds)
    except TimeoutError:
        raise Transient(f"no complete answer within {seconds:.3g} s") from None


def seconds_of(value: str | None) -> float | None:
    """The pause that `Retry-After` (seconds or an HTTP date) or Google's `RetryInfo` ("2.5s") names; None for what
    is neither."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*s?\s*", value, re.ASCII):
        return float(value.strip().removesuffix("s"))
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def status_failure(what: str, status: int, retry_after: float | None = None, detail: str = "") -> Exception:
    """The error that an HTTP status means, to be raised by the caller. `detail` is added to the text in brackets: it
    must be a name from the protocol and never words of the server, which may repeat the request."""
    told = f"HTTP {status}{f' ({detail})' if detail else ''}"
    if status in (400, 413, 422):
        return TextRefused(f"{what} refuses the text: {told}", by_provider=True)
    if status in (401, 403):
        return ProviderRefused(f"{what} does not accept the key: {told}; check that it is valid for this model")
    if 300 <= status < 500 and status not in (408, 425, 429):
        return ProviderRefused(f"{what} refuses the request: {told}; check the model's name and the server's address")
    return Transient(told, retry_after, is_limit=status == 429)


class Secret:
    """A key that shows itself in no repr, and cannot be pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself. Give it to the client that sends it, and keep it nowhere else."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled: another process reads it from its own environment")


def find_key(what: str, names: Sequence[str]) -> Secret | None:
    """The key in the environment, in the first of these variables that is set; None if they are missing or blank.
    `what` names provider and model in messages.

    Raises:
        ProviderRefused: it holds characters that no HTTP header may.
    """
    for name in names:
        value = read_variable(name)
        if value and not re.fullmatch(r"[\x21-\x7e]+", value):
            raise ProviderRefused(f"{what}: the value of {name} is no key: it holds spaces, line ends or letters "
                                  "beyond ASCII")  # fmt: skip
        if value:
            return Secret(value)
    return None


def api_key(what: str, names: Sequence[str]) -> Secret:
    """Like `find_key`, for a provider that does not answer without one.

    Raises:
        ProviderRefused: there is none, or it is no key; the text names the variables.
    """
    key = find_key(what, names)
    if key is None:
        raise ProviderRefused(f"{what} needs a key: set {' or '.join(names)} in the environment")
    return key


def key_names(profile: EmbeddingProfile, default_names: Sequence[str]) -> Sequence[str]:
    """The variables that may hold the key. A profile that names its own never falls back to another's: that would
    put one tenant's work on the bill of another."""
    return [profile.options.key_env] if profile.options.key_env else list(default_names)


def provider_and_model(profile: EmbeddingProfile) -> str:
    """`google/gemini-embedding-2`: how messages name a provider and its model."""
    return f"{profile.provider}/{profile.model}"
