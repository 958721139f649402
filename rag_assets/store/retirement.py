"""Profiles that are given up: retired first, and dropped with their chunks after a soak time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from psycopg import sql

from rag_assets.errors import PromotionRefused, UsageError
from rag_assets.printing import counted
from rag_assets.store.database import Connection, Database
from rag_assets.store.partitions import drop_partition, partition_exists
from rag_assets.store.profiles import BuiltProfile, built_profile, record_event, retired_profiles
from rag_assets.store.promotion import Pointers, pointers_of
from rag_assets.store.sql import query, scalar
from rag_assets.store.tenants import spaces_of

SOAK_DAYS = 7.0
_RECORDS = (
    "forget_source_profiles", "forget_triples", "forget_lexeme_stats", "forget_found_weight", "forget_index_state",
    "drop_leftover_documents",
)  # fmt: skip


@dataclass(frozen=True)
class Dropped:
    """A retired profile: the chunks that its publications say it has, and those that were counted and went.

    `refused` says why it was left alone; it is empty where the profile is gone, or may go.
    """

    profile: str
    chunks_expected: int
    chunks_dropped: int
    refused: str = ""


def retire(database: Database, tenant: str, bot: str, profile: str, *, force: bool = False) -> None:
    """Take a profile out of use. It cannot be searched or promoted any more; its rows stay until they are dropped.

    `force` also gives up the profile that a rollback would go back to.

    Raises:
        UnknownTenant, UnknownBot, UnknownProfile: there is no such profile, or it is retired already.
        PromotionRefused: it is active, a canary, or what a rollback goes back to. Says which.
    """
    with database.work(tenant, bot) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        connection.execute(query("lock_space"), {"space": space.id})
        built = built_profile(connection, tenant, bot, profile)
        values = {"space": space.id, "profile": built.id, "force": force}
        pointers = pointers_of(connection, space)
        if connection.execute(query("retire_profile"), values).fetchone() is None:
            raise PromotionRefused(_why_kept(built, pointers))
        record_event(connection, built, "retired", {"status": built.status, "forced": force})


def droppable(database: Database, tenant: str, bot: str, soak_days: float = SOAK_DAYS) -> list[Dropped]:
    """What `drop_retired` would drop or refuse now; nothing is changed."""
    return [found for _, found in _soaked(database, tenant, bot, soak_days)]


def drop_retired(database: Database, tenant: str, bot: str, soak_days: float = SOAK_DAYS) -> list[Dropped]:
    """Drop the profiles that were retired at least `soak_days` ago: partition, publications and statistics.

    The chunks are counted first; a profile that holds another number than was published into it is refused and
    left as it is, and the others are dropped. Its name, runs, verdicts and events stay. Safe to repeat, also after
    a process that was killed half-way.

    Raises:
        UnknownTenant, UnknownBot: there is no such bot.
        UsageError: `soak_days` is not a number of 0 or more.
    """
    done = []
    for built, found in _soaked(database, tenant, bot, soak_days):
        if not found.refused:
            drop_partition(database, built.id)
            _forget(database, built, found)
        done.append(found)
    return done


def _why_kept(built: BuiltProfile, pointers: Pointers) -> str:
    name = built.profile.name
    if pointers.active == built.id:
        return f"profile {name!r} is active: promote another one first"
    if pointers.canary == built.id:
        return f"profile {name!r} is a canary: end that first: rag canary --percent 0"
    return f"profile {name!r} is what a rollback goes back to; --force gives that up"


def _soaked(database: Database, tenant: str, bot: str, soak_days: float) -> list[tuple[BuiltProfile, Dropped]]:
    if not (soak_days >= 0 and math.isfinite(soak_days)):
        raise UsageError(f"the soak time is a number of days of 0 or more, not {soak_days}")
    with database.work(tenant, bot) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        found = retired_profiles(connection, space, soak_days)
        return [(built, _counted(connection, built)) for built in found]


def _counted(connection: Connection, built: BuiltProfile) -> Dropped:
    # A publisher that is still at work on it has finished its transaction, or starts after the count.
    connection.execute(query("lock_profile"), {"profile": built.id})
    expected = _number(connection, sql.SQL(query("published_chunks")), built)
    name = built.profile.name
    if not partition_exists(connection, built.id):
        return Dropped(name, expected, 0)  # cut off between the partition and its records; those are left to go
    held = _number(connection, sql.SQL(query("chunk_count")).format(profile=sql.Literal(built.id)), built)
    found = Dropped(name, expected, held)
    if held == expected:
        return found
    holds = f"profile {name!r} holds {counted(held, 'chunk')}"
    refused = f"{holds}, and {expected:,} were published: nothing of it was dropped"
    return replace(found, chunks_dropped=0, refused=refused)


def _number(connection: Connection, statement: sql.SQL | sql.Composed, built: BuiltProfile) -> int:
    return int(scalar(connection, statement, {"profile": built.id}))


def _forget(database: Database, built: BuiltProfile, found: Dropped) -> None:
    keys = {"profile": built.id, "space": built.space_id}
    with database.work(built.tenant, built.bot) as connection:
        connection.execute(query("lock_profile"), keys)
        for name in _RECORDS:
            connection.execute(query(name), keys)
        evidence = {"chunks_expected": found.chunks_expected, "chunks_dropped": found.chunks_dropped}
        record_event(connection, built, "dropped", evidence)
