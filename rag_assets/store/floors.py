"""The scores below which nothing that a profile finds is an answer, where they were measured for a bot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from rag_assets.documents.normalize import clean_json
from rag_assets.store.database import Connection
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.search import Mode
from rag_assets.store.sql import query, rows


@dataclass(frozen=True)
class Floor:
    """The lowest best score, in [-1, 1], of an answer in a mode; in hybrid mode with this weight of meaning, None for
    the default. With the evidence it rests on, by whom and when it was stored."""

    mode: Mode
    floor: float
    dense_weight: float | None
    evidence: Mapping[str, Any]
    actor: str
    created_at: datetime


def floors_of(connection: Connection, built: BuiltProfile) -> list[Floor]:
    """The floors that were stored for a profile, at most one for each mode."""
    return rows(connection, class_row(Floor), query("floors"), {"profile": built.id})


def set_floor(
    connection: Connection,
    built: BuiltProfile,
    mode: Mode,
    floor: float,
    dense_weight: float | None,
    evidence: Mapping[str, Any],
) -> None:
    """Let scopes of this profile carry the floor from now on; it replaces the one before."""
    values = {"profile": built.id, "tenant": built.tenant, "bot": built.bot, "mode": mode, "floor": floor}
    connection.execute(
        query("set_floor"), {**values, "dense_weight": dense_weight, "evidence": Jsonb(clean_json(evidence))}
    )


def reset_floors(connection: Connection, built: BuiltProfile) -> int:
    """Forget all floors of a profile; returns how many there were."""
    return connection.execute(query("reset_floors"), {"profile": built.id}).rowcount
