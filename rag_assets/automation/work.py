"""Work that is waiting, and when to ask for it: decisions on plain values.

A run key is used once for ever, and the same work can come back: a file that is edited, reverted and edited
again. So each appearance of a piece of work has its own key, made of what is to be done and of when it was
first seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import BaseModel, ValidationError

from rag_assets.runs.lanes import Lane
from rag_assets.store.attempts import FIRST_PAUSE_S, FailedWork

# What a successful run has left undone, such as a file that may not be read, is tried again this much later.
REMAINDER_RETRY_S = 3600
# A run that takes longer is in nobody's way the next time.
SLOW_RUN_S = 60.0

Outcome = Literal["open", "success", "failure"]
# What serves comes first, then what serves a part or may serve next; what is broken comes last.
Rank = Literal["serving", "canary", "candidate"]
_RANKS: tuple[Rank, ...] = ("serving", "canary", "candidate")


@dataclass(frozen=True)
class PendingWork:
    """Something to be done for a tenant's sources, or for one profile of it."""

    tenant: str
    profile: str | None
    digest: str
    reason: str = ""
    lane: Lane = "quick"
    rank: Rank = "serving"
    failed: FailedWork | None = None  # how the attempts before this one ended

    @property
    def name(self) -> str:
        return f"pair:{self.tenant}:{self.profile}" if self.profile else f"sources:{self.tenant}"

    @property
    def order(self) -> tuple[bool, bool, int, str]:
        """Sources first: a tenant whose files are about to be read again has its pairs built after that."""
        return (self.failed is not None, self.profile is not None, _RANKS.index(self.rank), self.name)

    @property
    def after(self) -> str:
        """Runs of one value wait for each other: what serves never waits for what does not, or is broken."""
        aside = self.failed is not None or self.rank != "serving"
        return f"{self.tenant}/aside" if aside else self.tenant

    @property
    def priority(self) -> int:
        """Of its run in the queue, as `dagster/priority` takes it."""
        return 0 if self.failed else 2 if self.rank == "serving" else 1


def in_lane(work: PendingWork, slow: Mapping[str, float]) -> PendingWork:
    """The work in the lane that its past tells: what was slow has much to do, what has failed takes one place."""
    lane = "bulk" if work.lane == "quick" and slow.get(work.name, 0.0) > SLOW_RUN_S else work.lane
    return replace(work, lane="retry" if work.failed and lane != "bulk" else lane)


@dataclass(frozen=True)
class Attempt:
    """A run that was made for a piece of work; `ended` in seconds since the epoch, 0 while it is open."""

    outcome: Outcome
    ended: float = 0.0


class SensorMemory(BaseModel):
    """What the sensor keeps from one tick to the next.

    Attributes:
        seen: the work that was waiting when its tenant was last looked at, by name: its digest, and when it was first
            seen, in milliseconds since the epoch.
        resume: the tenant with which the next tick begins.
        noted: until when the ends of runs have been noted, in seconds since the epoch; `noted_runs` are those that
            ended shortly before, with the time.
        slow: how long the last run of a piece of work took, by name, in seconds; only of those that were slow.
    """

    seen: dict[str, tuple[str, int]] = {}
    resume: str = ""
    noted: float = 0.0
    noted_runs: dict[str, float] = {}
    slow: dict[str, float] = {}

    @classmethod
    def load(cls, cursor: str | None) -> SensorMemory:
        """The memory that a cursor holds; an unreadable one is an empty one, which costs no more than a run."""
        try:
            return cls.model_validate_json(cursor or "{}")
        except ValidationError:
            return cls()


def rotated(names: Sequence[str], first: str) -> list[str]:
    """The sorted names, beginning with `first` or the next one after it."""
    ordered = sorted(names)
    return [name for name in ordered if name >= first] + [name for name in ordered if name < first]


def note(
    memory: SensorMemory, works: Iterable[PendingWork], unknown: Iterable[str], now: float
) -> dict[str, tuple[str, int]]:
    """`SensorMemory.seen` after a tick: work that was there before keeps the time when it was first seen.

    Tenants in `unknown` were not looked at, and what was known of them stays.
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


def next_try(failed: FailedWork, key: str) -> float:
    """When work that has failed is tried again, in seconds since the epoch.

    Other work than what was tried, such as a file that has been mended, does not wait for the pauses of that: only for
    the first one, so that nothing is asked for more often than once a minute.
    """
    until = failed.next_try_at.timestamp()
    return until if failed.work == key else min(until, failed.last_at.timestamp() + FIRST_PAUSE_S)


def next_attempt(attempts: Sequence[Attempt], now: float) -> int | None:
    """The number of the attempt (0 the first) that is due now at work that has not failed, or None to wait."""
    if any(attempt.outcome == "open" for attempt in attempts):
        return None
    if not attempts:
        return 0
    return len(attempts) if now - max(attempt.ended for attempt in attempts) >= REMAINDER_RETRY_S else None


def run_key(key: str, attempt: int) -> str:
    """The run key of one attempt at a piece of work."""
    return key if attempt == 0 else f"{key}:retry-{attempt}"


def retry_key(key: str, failed: FailedWork) -> str:
    """The run key of the attempt after one that failed."""
    return f"{key}:after-{failed.run_id}"


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
    """What was found out about one tenant or all of them; `began` in seconds since the epoch."""

    works: list[PendingWork] = field(default_factory=list)
    roots: int = 0
    pairs: set[tuple[str, str]] = field(default_factory=set)  # enabled pairs of tenant and profile
    warnings: list[str] = field(default_factory=list)
    failed: list[FailedWork] = field(default_factory=list)
    began: float = 0.0
