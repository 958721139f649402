"""The weight of meaning in a profile's hybrid search, where it was tuned on a bot's labelled queries."""

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
from rag_assets.store.sql import first_row, query


@dataclass(frozen=True)
class TunedWeight:
    """What was found, on which evidence, by whom and when; `dense_weight` is from 0 (words alone) to 1."""

    dense_weight: float
    evidence: Mapping[str, Any]
    actor: str
    created_at: datetime


def tuned_weight(connection: Connection, built: BuiltProfile) -> TunedWeight | None:
    """The weight that searches of this profile use; None where the default holds."""
    return first_row(connection, class_row(TunedWeight), query("tuned_weight"), {"profile": built.id})


def set_tuned_weight(connection: Connection, built: BuiltProfile, weight: float, evidence: Mapping[str, Any]) -> None:
    """Let searches of this profile use the weight from the next scope on; it replaces the one before."""
    values = {"profile": built.id, "tenant": built.tenant, "bot": built.bot, "dense_weight": weight}
    connection.execute(query("set_tuned_weight"), {**values, "evidence": Jsonb(clean_json(evidence))})


def reset_tuned_weight(connection: Connection, built: BuiltProfile) -> bool:
    """Go back to the default; False where it held already."""
    return connection.execute(query("reset_tuned_weight"), {"profile": built.id}).rowcount > 0
