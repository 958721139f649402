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
from psycopg.rows import class_row, dict_row, scalar_row
from psycopg.types.json import Jsonb

from rag_assets.documents.normalize import clean_json
from rag_assets.store.database import Connection, as_array
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.sql import first_row, query
from rag_assets.store.term_weights import Terms, read_sparsevecs, weigh
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
    """What a chunk says, and where that stands."""

    source_id: UUID
    content: str
    citation: Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """Some chunks as both searches know them: their unit vectors (n, d), and the BM25 weights of their terms."""

    passages: Sequence[Passage]
    vectors: NDArray[np.float32]
    terms: Terms


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


def sample_passages(connection: Connection, built: BuiltProfile, limit: int) -> Sample:
    """Up to `limit` shared chunks with different texts; the same ones each time."""
    statement = sql.SQL(query("sample_passages")).format(profile=sql.Literal(built.id))
    cursor = connection.cursor(binary=True, row_factory=dict_row).execute(statement, {"limit": limit})
    by_text: dict[str, dict[str, Any]] = {}
    for row in cursor:
        by_text.setdefault(row["content"], row)
    found = by_text.values()
    vectors = np.array([as_array(row["embedding"]) for row in found], np.float32)
    passages = [Passage(row["source_id"], row["content"], row["citation"]) for row in found]
    return Sample(passages, vectors, read_sparsevecs([row["lexical"] for row in found]))


def terms_of_queries(connection: Connection, built: BuiltProfile, texts: Sequence[str]) -> Terms:
    """What each term of each query counts in a search of this profile."""
    words = [prepare_query(text, built.profile.terms) for text in texts]
    return read_sparsevecs(_of_words(connection, built, words, "terms_of_queries"))


def terms_of_texts(connection: Connection, built: BuiltProfile, texts: Sequence[str], of: Statistics) -> Terms:
    """The BM25 weights that each text would have as a chunk of this profile."""
    words = [prepare(text, built.profile.terms) for text in texts]
    return weigh(_of_words(connection, built, words, "analysed_texts"), of.average_length)


def _of_words(connection: Connection, built: BuiltProfile, words: Sequence[str], name: str) -> list[Any]:
    """What a named query makes of each of some words, in binary."""
    values = {"profile": built.id, "language": built.profile.lexical.language, "texts": list(words)}
    return connection.cursor(binary=True, row_factory=scalar_row).execute(query(name), values).fetchall()
