"""How far the replica that searches are sent to is behind its primary."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from psycopg.rows import class_row

from rag_assets.errors import DatabaseFailed, DatabaseRefused, DatabaseUnavailable
from rag_assets.store.database import Database
from rag_assets.store.sql import query
from rag_assets.store.statements import Statement

_PRIMARY_S = 1.0  # a primary that is away keeps nobody who asks about the replica
_PAUSE_S = 0.1  # what was written a moment ago is on its way


@dataclass(frozen=True)
class Replication:
    """How the server of searches stands to the primary.

    Attributes:
        is_replica: False where it is a primary itself, as after a failover.
        primary_answers: whether the primary did, within a second, were it to say no to the app's login.
        behind_bytes: of the primary's log that are not replayed yet; None where the primary did not tell.
        lag_s: seconds; 0 where it has all that the primary had. Otherwise the age of the last change that it has, which
            is more than the lag where nothing was written for a while; None where it has none yet.
    """

    is_replica: bool
    primary_answers: bool
    behind_bytes: int | None
    lag_s: float | None


@dataclass(frozen=True)
class _Standing:
    is_replica: bool
    position: int
    since_s: float | None


async def replication(database: Database) -> Replication | None:
    """How the replica of `search_url` stands to the primary; None where there is none.

    Raises:
        DatabaseUnavailable, DatabaseRefused, DatabaseFailed: the replica does not answer as it should.
    """
    if database.search_url is None:
        return None
    primary = asyncio.create_task(_position(database))
    try:
        found = await _standing(database, on_primary=False)
        answers, written = await primary
        if written is not None and found.is_replica and found.position < written:
            await asyncio.sleep(_PAUSE_S)
            found = await _standing(database, on_primary=False)
    finally:
        primary.cancel()
    behind = None if written is None else max(0, written - found.position) if found.is_replica else 0
    up_to_date = behind == 0 or not found.is_replica
    return Replication(found.is_replica, answers, behind, 0.0 if up_to_date else found.since_s)


async def _position(database: Database) -> tuple[bool, int | None]:
    """Whether the primary answers, and how far it is, if it tells."""
    try:
        async with asyncio.timeout(_PRIMARY_S):
            return True, (await _standing(database, on_primary=True)).position
    except (DatabaseRefused, DatabaseFailed):
        return True, None
    except (TimeoutError, DatabaseUnavailable):
        return False, None


async def _standing(database: Database, *, on_primary: bool) -> _Standing:
    statement = Statement(query("server_standing"), {}, class_row(_Standing), on_primary=on_primary)
    ((standing,),) = await database.aask({}, [statement])
    found: _Standing = standing
    return found
