"""What retrieval sends: which profile answers, and a call of rag.search_space under a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from rag_assets.store.sql import query
from rag_assets.store.statements import Connection, Scope, Statement, ask

Mode = Literal["dense", "lexical", "hybrid"]
Fusion = Literal["minmax", "rrf"]
Space = Literal["bot", "tenant", "user"]


@dataclass(frozen=True)
class SearchRequest:
    """What rag.search_space is asked.

    Attributes:
        vector: (d,) float32 of the profile's model; None in lexical mode.
        text: the query as `terms.prepare_query` prepared it; "" in dense mode.
        candidates: how many of each list hybrid fuses, at most 1000.
        exact: read every vector instead of the index.
        copies: return a text as often as it is there, instead of once with its other places.
    """

    mode: Mode
    vector: NDArray[np.float32] | None
    text: str
    top_k: int = 8
    candidates: int = 100
    dense_weight: float = 0.5
    fusion: Fusion = "minmax"
    filters: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False
    copies: bool = False


@dataclass(frozen=True)
class SearchRow:
    """One chunk as rag.search_space returns it; scores are similarities, higher is closer.

    `also_at` holds the other places of its text: `source_id`, `source_name`, `uri`, `metadata` of the source,
    `url`, `citation`.
    """

    chunk_id: UUID
    source_id: UUID
    source_name: str
    source_uri: str
    source_metadata: dict[str, Any]
    canonical_url: str | None
    content: str
    token_count: int
    citation: dict[str, Any]
    metadata: dict[str, Any]
    score: float
    dense_score: float | None
    lexical_score: float | None
    also_at: list[dict[str, Any]]
    space: Space


@dataclass(frozen=True)
class SpaceProfile:
    """A profile that may answer in a bot's space; `profile_id` and `status` are None where the space has none, and
    `dense_weight` where none was tuned or found for it. `floors` are objects of `mode`, `floor` and `dense_weight`."""

    space_id: UUID
    canary_percent: int
    is_canary: bool
    profile_id: int | None
    status: str | None
    dense_weight: float | None
    spec: Mapping[str, Any]
    floors: Sequence[Mapping[str, Any]]


def search_statement(request: SearchRequest) -> Statement:
    """The call of rag.search_space; its rows are `SearchRow`s, best first."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    return Statement(query("search"), values | {"filters": Jsonb(dict(request.filters))}, class_row(SearchRow))


def words_read_as() -> Statement:
    """After a search of the same transaction: one row, whose `read_as` has by each word of the query that no text has
    the lexemes that were looked for as well; None where there were none."""
    return Statement(query("words_read_as"))


def searched_spec(profile_id: int) -> Statement:
    """What the profile is; its row, with the columns of the profile as `spec`, is missing where the scope may not see
    it."""
    return Statement(query("searched_spec"), {"profile": profile_id})


def profiles_for_search(tenant: str, bot: str, name: str | None, canary: bool) -> Statement:
    """The bot's active profile and, if asked for, its canary; or the one of that name. Rows are `SpaceProfile`s."""
    values = {"tenant": tenant, "bot": bot, "name": name, "canary": canary}
    return Statement(query("profile_for_search"), values, class_row(SpaceProfile))


def shared_profiles_for_search(tenant: str, bot: str, name: str | None, canary: bool) -> Statement:
    """The same of what all bots of the tenant share, and only what is built: of the profile's own name before the
    active one. No row where the tenant shares nothing, or where that is the bot itself."""
    values = {"tenant": tenant, "bot": bot, "name": name, "canary": canary}
    return Statement(query("shared_profile_for_search"), values, class_row(SpaceProfile))


def scope_tenant() -> Statement:
    """One row with the `tenant` of the scope, for which nothing is read: it is refused where its signature is not what
    the database wants."""
    return Statement(query("scope_tenant"))


def corpus_version(tenant: str) -> Statement:
    """One row with the `version` of what the tenant's searches may find: another one after each change of it, and None
    where nothing was ever published."""
    return Statement(query("corpus_version"), {"tenant": tenant})


def search_chunks(connection: Connection, scope: Scope, request: SearchRequest) -> list[SearchRow]:
    """Search under `scope` in one transaction and one round trip; best first.

    A scope that names no profile of its own tenant and space finds nothing.
    """
    rows: list[SearchRow] = ask(connection, scope, [search_statement(request)])[0]
    return rows
