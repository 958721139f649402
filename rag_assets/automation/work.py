"""Work that is waiting, and when to ask for it: decisions on plain values.

A run key is used once for ever, and the same work can come back: a file that is edited, reverted and edited
again. So each appearance of a piece of work has its own key, made of what is to be done and of when it was
first seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ValidationError

MAX_TRIES = 8
FIRST_RETRY_S = 60
# What a successful run has left undone, such as a file that may not be read, is tried again this much later.
REMAINDER_RETRY_S = 3600

Outcome = Literal["open", "success", "failure"]


@dataclass(frozen=True)
class PendingWork:
    """Something to be done for a tenant's sources, or for one profile of it."""

    tenant: str
    profile: str | None
    digest: str
    reason: str = ""

    @property
    def name(self) -> str:
        return f"pair:{self.tenant}:{self.profile}" if self.profile else f"sources:{self.tenant}"


@dataclass(frozen=True)
class Attempt:
    """A run that was made for a piece of work; `ended` in seconds since the epoch, 0 while it is open."""

    outcome: Outcome
    ended: float = 0.0


class SensorMemory(BaseModel):
    """What the sensor keeps from one tick to the next.

    Attributes:
        seen: the work that was waiting at the last tick, by name: its digest, and when it was first seen,
            in milliseconds since the epoch.
        looked: when each remote root was listed, by id, in seconds since the epoch.
    """

    seen: dict[str, tuple[str, int]] = {}
    looked: dict[str, int] = {}

    @classmethod
    def load(cls, cursor: str | None) -> SensorMemory:
        """The memory that a cursor holds; an unreadable one is an empty one, which costs no more than a run."""
        try:
            return cls.model_validate_json(cursor or "{}")
        except ValidationError:
            return cls()


def note(
    memory: SensorMemory, works: Iterable[PendingWork], unknown: Iterable[str], now: float
) -> dict[str, tuple[str, int]]:
    """`SensorMemory.seen` after a tick: work that was there before keeps the time when it was first seen.

    Tenants in `unknown` could not be looked at, and what was known of them stays.
    """
    unknown = set(unknown)
    kept = {name: entry for name, entry in memory.seen.items() if name.split(":")[1] in unknown}
    for work in works:
        before = memory.seen.get(work.name)
        kept[work.name] = before if before and before[0] == work.digest else (work.digest, int(1000 * now))
    return kept


def work_key(work: PendingWork, seen: Mapping[str, tuple[str, int]]) -> str:
    """Names this appearance of the work: `sources:<tenant>:<digest>:<first seen>`."""
    return f"{work.name}:{work.digest[:16]}:{seen[work.name][1]}"


def digest(parts: Iterable[object]) -> str:
    """Hex digest of parts whose `repr` tells them apart, in any order."""
    lines = sorted(repr(part) for part in parts)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def next_attempt(attempts: Sequence[Attempt], now: float) -> int | None:
    """The number of the attempt that is due now (0 the first), or None to wait.

    Failures are followed by pauses of 1, 2, 4 ... minutes and end after eight tries in a row.
    """
    if any(attempt.outcome == "open" for attempt in attempts):
        return None
    if not attempts:
        return 0
    ordered = sorted(attempts, key=lambda attempt: attempt.ended)
    failures = 0
    for attempt in reversed(ordered):
        if attempt.outcome != "failure":
            break
        failures += 1
    if failures >= MAX_TRIES:
        return None
    pause = FIRST_RETRY_S * 2 ** (failures - 1) if failures else REMAINDER_RETRY_S
    return len(attempts) if now - ordered[-1].ended >= pause else None


def run_key(key: str, attempt: int) -> str:
    """The run key of one attempt at a piece of work."""
    return key if attempt == 0 else f"{key}:retry-{attempt}"


@dataclass(frozen=True)
class Busy:
    """Who has runs that are queued or in progress: tenants whose sources are read, and pairs being built.

    `handed_over` are tenants whose sources a command line has just read and whose pair it builds next.
    """

    tenants: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    handed_over: frozenset[str] = frozenset()

    def blocks(self, work: PendingWork) -> bool:
        """Whether the work has to wait: what is running may be doing it, or changes what is to be done."""
        if work.tenant in self.tenants:
            return True
        if work.profile is None:
            return False
        return work.tenant in self.handed_over or (work.tenant, work.profile) in self.pairs


@dataclass
class Look:
    """What a tick found out about one tenant or all of them."""

    works: list[PendingWork] = field(default_factory=list)
    roots: int = 0
    pairs: set[tuple[str, str]] = field(default_factory=set)  # enabled pairs of tenant and profile
    warnings: list[str] = field(default_factory=list)
    looked: dict[str, int] = field(default_factory=dict)
