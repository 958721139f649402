"""The weight of meaning in a profile's hybrid search: tuned on a bot's labelled queries, or found without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from rag_assets.documents.normalize import clean_json
from rag_assets.store.database import Connection, as_array
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.sql import first_row, query, rows, scalars
from rag_assets.terms import prepare, prepare_query

DEFAULT_WEIGHT = 0.5  # of meaning, where none was tuned or found


@dataclass(frozen=True)
class TunedWeight:
    """What was found, on which evidence, by whom and when; `dense_weight` is from 0 (words alone) to 1."""

    dense_weight: float
    evidence: Mapping[str, Any]
    actor: str
    created_at: datetime


@dataclass(frozen=True)
class FoundWeight:
    """What was found without labels, on which evidence, and when; `dense_weight` is None where there was none."""

    dense_weight: float | None
    evidence: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True)
class Statistics:
    """Of a profile: when they were made, the mean length of its chunks, and what fusion takes for unrelated."""

    statistics_at: datetime
    average_length: float
    dense_floor: float


@dataclass(frozen=True)
class Passage:
    """A chunk as both searches know it: its unit vector (d,), and the BM25 weight of each of its terms."""

    source_id: UUID
    content: str
    citation: Mapping[str, Any]
    vector: NDArray[np.float32]
    terms: Mapping[int, float]


def tuned_weight(connection: Connection, built: BuiltProfile) -> TunedWeight | None:
    """The weight that was tuned for searches of this profile; None where the found one holds, or the default."""
    return first_row(connection, class_row(TunedWeight), query("tuned_weight"), {"profile": built.id})


def set_tuned_weight(connection: Connection, built: BuiltProfile, weight: float, evidence: Mapping[str, Any]) -> None:
    """Let searches of this profile use the weight from the next scope on; it replaces the one before."""
    values = {"profile": built.id, "tenant": built.tenant, "bot": built.bot, "dense_weight": weight}
    connection.execute(query("set_tuned_weight"), {**values, "evidence": Jsonb(clean_json(evidence))})


def reset_tuned_weight(connection: Connection, built: BuiltProfile) -> bool:
    """Go back to the found weight, or the default; False where it held already."""
    return connection.execute(query("reset_tuned_weight"), {"profile": built.id}).rowcount > 0


def found_weight(connection: Connection, built: BuiltProfile) -> FoundWeight | None:
    """The weight that was found for this profile; None where none was looked for."""
    return first_row(connection, class_row(FoundWeight), query("found_weight"), {"profile": built.id})


def untuned_weight(connection: Connection, built: BuiltProfile) -> float:
    """The weight that searches of this profile use where none is tuned."""
    found = found_weight(connection, built)
    return DEFAULT_WEIGHT if found is None or found.dense_weight is None else found.dense_weight


def statistics_without_weight(connection: Connection, built: BuiltProfile) -> Statistics | None:
    """The profile's statistics, if no weight was looked for since they were made."""
    return first_row(connection, class_row(Statistics), query("statistics_without_weight"), {"profile": built.id})


def set_found_weight(
    connection: Connection, built: BuiltProfile, weight: float | None, evidence: Mapping[str, Any], of: Statistics
) -> None:
    """Let searches of this profile use the weight where none is tuned; it replaces the one before."""
    values = {"profile": built.id, "tenant": built.tenant, "bot": built.bot, "dense_weight": weight}
    values |= {"evidence": Jsonb(clean_json(evidence)), "statistics_at": of.statistics_at}
    connection.execute(query("set_found_weight"), values)


def sample_passages(connection: Connection, built: BuiltProfile, limit: int) -> list[Passage]:
    """Up to `limit` shared chunks with different texts; the same ones each time."""
    statement = sql.SQL(query("sample_passages")).format(profile=sql.Literal(built.id))
    by_text: dict[str, Passage] = {}
    for row in rows(connection, dict_row, statement, {"limit": limit}):
        values = {**row, "vector": as_array(row["embedding"]), "terms": _weights(row["terms"])}
        del values["embedding"]
        by_text.setdefault(row["content"], Passage(**values))
    return list(by_text.values())


def terms_of_queries(connection: Connection, built: BuiltProfile, texts: Sequence[str]) -> list[dict[int, float]]:
    """What each term of each query counts in a search of this profile; terms are numbered as in `Passage`."""
    words = [prepare_query(text, built.profile.terms) for text in texts]
    return _terms(connection, built, words, "terms_of_queries", {"profile": built.id})


def terms_of_texts(
    connection: Connection, built: BuiltProfile, texts: Sequence[str], of: Statistics
) -> list[dict[int, float]]:
    """The BM25 weights that each text would have as a chunk of this profile."""
    words = [prepare(text, built.profile.terms) for text in texts]
    return _terms(connection, built, words, "terms_of_texts", {"length": of.average_length})


def _terms(
    connection: Connection, built: BuiltProfile, words: Sequence[str], name: str, values: Mapping[str, Any]
) -> list[dict[int, float]]:
    asked = {**values, "language": built.profile.lexical.language, "texts": list(words)}
    return [_weights(text) for text in scalars(connection, query(name), asked)]


def _weights(sparse: str | None) -> dict[int, float]:
    """A sparsevec, `{term:weight,...}/dimensions`."""
    numbers = (sparse or "{}")[1:].partition("}")[0].replace(":", ",").split(",")
    return dict(zip(map(int, numbers[::2]), map(float, numbers[1::2]), strict=True)) if len(numbers) > 1 else {}
