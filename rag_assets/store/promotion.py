"""The pointer to the profile that serves a bot: promoted on a verdict, rolled back, shared with a canary."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from rag_assets.errors import ProfileNotReady, PromotionRefused, UsageError
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import BuiltProfile, built_profile, built_profiles, record_event
from rag_assets.store.sql import first_row, query, rows, scalar
from rag_assets.store.tenants import Space, spaces_of


@dataclass(frozen=True)
class Pointers:
    """Which profiles a bot's knowledge space points to, by id."""

    active: int | None
    previous: int | None
    canary: int | None
    canary_percent: int


@dataclass(frozen=True)
class Moved:
    """The profile that serves now, and the one that served before, by name."""

    active: str
    previous: str


def pointers_of(connection: Connection, space: Space) -> Pointers:
    """Where the space points now."""
    pointers = first_row(connection, class_row(Pointers), query("pointers"), {"space": space.id})
    assert pointers is not None
    return pointers


@dataclass(frozen=True)
class ProfileEvent:
    """What happened to a profile, or to all of a bot, when, by whose login and on which evidence."""

    at: datetime
    event: str
    profile: str | None
    actor: str
    evidence: dict[str, Any]


def list_events(connection: Connection, tenant: str, bot: str, limit: int) -> list[ProfileEvent]:
    """What happened to a bot's profiles, newest first."""
    values = {"tenant": tenant, "bot": bot, "limit": limit}
    return rows(connection, class_row(ProfileEvent), query("list_events"), values)


def promote(
    database: Database, tenant: str, bot: str, candidate: str, *, force: bool = False, reason: str = ""
) -> Moved:
    """Make `candidate` the active profile, in one transaction whose statement requires a passed verdict itself.

    `force` moves the pointer without one; it needs a reason, and is recorded as forced.

    Raises:
        PromotionRefused: no verdict, one that did not pass, or one on another baseline or corpus; or another
            promotion was faster. Says which, and what to do.
        UsageError: forced without a reason, or the candidate is active already.
    """
    if force and not reason.strip():
        raise UsageError("a forced promotion is recorded with its reason: --force --reason TEXT")
    with database.work(tenant, bot) as connection:
        space, by_id = _profiles(connection, tenant, bot)
        wanted = built_profile(connection, tenant, bot, candidate)
        active = by_id.get(pointers_of(connection, space).active or -1)
        if active is None:
            raise ProfileNotReady(f"bot {bot!r} of tenant {tenant!r} has no active profile to be replaced")
        if active.id == wanted.id:
            raise UsageError(f"profile {candidate!r} is active already")
        values = {"space": space.id, "candidate": wanted.id, "expected": active.id}
        moved = connection.execute(query("force_promote" if force else "promote"), values).fetchone()
        if moved is None:
            raise PromotionRefused(_why_not(connection, wanted, active))
        _set_statuses(connection, wanted, active)
        verdict = _latest_verdict(connection, wanted)
        evidence: dict[str, Any] = {"from": active.profile.name, "verdict": verdict.id if verdict else None}
        if force:
            evidence |= {"reason": reason, "outcome": verdict.outcome if verdict else None}
        record_event(connection, wanted, "forced" if force else "promoted", evidence)
    return Moved(candidate, active.profile.name)


def roll_back(database: Database, tenant: str, bot: str, reason: str = "") -> Moved:
    """Go back to the profile that served before the last promotion: one pointer, nothing to build.

    Raises:
        PromotionRefused: there is none, or it has been retired.
    """
    with database.work(tenant, bot) as connection:
        space, by_id = _profiles(connection, tenant, bot)
        pointers = pointers_of(connection, space)
        back = scalar(connection, query("roll_back"), {"space": space.id, "expected": pointers.active})
        if back is None or pointers.active is None:
            raise PromotionRefused(f"bot {bot!r} of tenant {tenant!r} has no profile to go back to that is still built")
        before, now = by_id[pointers.active], by_id[back]
        _set_statuses(connection, now, before)
        record_event(connection, now, "rolled_back", {"from": before.profile.name, "reason": reason})
    return Moved(now.profile.name, before.profile.name)


def set_canary(database: Database, tenant: str, bot: str, candidate: str | None, percent: int) -> None:
    """Let a share of requests, by a sticky hash of their key, be answered from `candidate`; 0 ends it.

    Raises:
        UsageError: the share is not 0 to 100, or the candidate is the active profile.
        PromotionRefused: the candidate is not built.
    """
    if not 0 <= percent <= 100 or (percent > 0 and candidate is None):
        raise UsageError("a canary needs a profile and a share of 1 to 100 percent; 0 ends it")
    with database.work(tenant, bot) as connection:
        space, by_id = _profiles(connection, tenant, bot)
        pointers = pointers_of(connection, space)
        if candidate is not None:
            wanted = built_profile(connection, tenant, bot, candidate)
        elif pointers.canary is not None:
            wanted = by_id[pointers.canary]
        else:
            return
        values = {"space": space.id, "candidate": wanted.id, "percent": percent}
        if connection.execute(query("set_canary"), values).fetchone() is None:
            if wanted.id == pointers.active:
                raise UsageError(f"profile {wanted.profile.name!r} is active: it answers everything already")
            raise PromotionRefused(f"profile {wanted.profile.name!r} is not built: its status is {wanted.status!r}")
        record_event(connection, wanted, "canary", {"percent": percent})


def _profiles(connection: Connection, tenant: str, bot: str) -> tuple[Space, dict[int, BuiltProfile]]:
    space = spaces_of(connection, tenant, bot)[0]
    # Concurrent promotions queue up here, and the second sees what the first did.
    connection.execute(query("lock_space"), {"space": space.id})
    return space, {built.id: built for built in built_profiles(connection, tenant, bot)}


def _set_statuses(connection: Connection, now: BuiltProfile, before: BuiltProfile) -> None:
    connection.execute(query("set_status"), {"profile": before.id, "status": "ready"})
    connection.execute(query("set_status"), {"profile": now.id, "status": "active"})


@dataclass(frozen=True)
class _Verdict:
    """A verdict on a candidate, and whether the two profiles still serve what was compared."""

    id: int
    outcome: str
    criteria: list[dict[str, Any]]
    same_candidate: bool
    same_baseline: bool
    baseline: int
    created_at: datetime


def _latest_verdict(connection: Connection, candidate: BuiltProfile) -> _Verdict | None:
    return first_row(connection, class_row(_Verdict), query("latest_verdict"), {"candidate": candidate.id})


def _why_not(connection: Connection, wanted: BuiltProfile, active: BuiltProfile) -> str:
    name = wanted.profile.name
    if wanted.status != "ready":
        build = f"rag ingest --tenant {wanted.tenant} --bot {wanted.bot} --profile {name}"
        return f"profile {name!r} is not complete: its status is {wanted.status!r}. Build it: {build}"
    gate = f"rag eval gate --tenant {wanted.tenant} --bot {wanted.bot} --candidate {name}"
    verdict = _latest_verdict(connection, wanted)
    if verdict is None:
        return f"profile {name!r} has no verdict. Ask for one: {gate}"
    when = verdict.created_at.strftime("%Y-%m-%d %H:%M")
    if verdict.outcome != "passed":
        failed = "; ".join(criterion["reason"] for criterion in verdict.criteria if criterion["passed"] is not True)
        return f"the verdict on {name!r} of {when} is {verdict.outcome}: {failed}"
    if verdict.baseline != active.id:
        return (
            f"the verdict on {name!r} of {when} compares it with another profile than {active.profile.name!r}: {gate}"
        )
    if not (verdict.same_candidate and verdict.same_baseline):
        return f"the sources have changed since the verdict on {name!r} of {when}. Ask for a new one: {gate}"
    return f"another promotion of bot {wanted.bot!r} was faster"
