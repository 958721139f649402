"""Triples: what texts say, as subject, predicate and object, each at its place in one version of one source.

A triple goes with the text that it stands in: a profile finds it while it serves that version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from rag_assets.embedding.protocol import Usage
from rag_assets.sources.secrets import without_secrets
from rag_assets.store.cache import TRIPLES, count_usage
from rag_assets.store.database import Connection, Database
from rag_assets.store.search import SearchRow
from rag_assets.store.sql import first_row, query, rows, scalar, scalars
from rag_assets.store.statements import Statement
from rag_assets.store.tenants import Space
from rag_assets.terms import TermsVersion, prepare_name, versions

_LOOKUP = 2000  # hashes in one query
MAX_NAME_CHARS = 500  # of a subject, a predicate or an object


@dataclass(frozen=True)
class Triple:
    """What a text says, with how certain it is, in (0, 1]."""

    subject: str
    predicate: str
    object: str
    confidence: float = 1.0


@dataclass(frozen=True)
class Place:
    """Where in the text of a source's version, from `start` up to before `end`, in code points."""

    source_id: UUID
    checksum: str
    start: int
    end: int


@dataclass(frozen=True)
class Analysis:
    """How names become words: the text search configuration, and the version of terms."""

    language: str
    terms: TermsVersion


@dataclass(frozen=True)
class SourceText:
    """The text of a source as it is now."""

    id: UUID
    checksum: str
    text: str


@dataclass(frozen=True)
class StoredTriple:
    """A triple as it is kept. `quote` is the text at its place; `profile` the one whose model found it, None of one
    that was imported; one that is not `up_to_date` belongs to a version that is served still and will be replaced."""

    id: int
    subject: str
    predicate: str
    object: str
    confidence: float
    source_id: UUID
    source: str
    external_id: str
    start_at: int
    end_at: int
    quote: str
    profile: str | None
    up_to_date: bool
    actor: str
    created_at: datetime
    matching: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for ids and times; without what is secret in an address."""
        told = {
            "subject": self.subject,
            "predicate": self.predicate,
            "object": self.object,
            "confidence": round(self.confidence, 4),
            "source_id": self.source_id,
            "source": self.source,
            "start": self.start_at,
            "end": self.end_at,
            "quote": self.quote,
            "profile": self.profile,
            "up_to_date": self.up_to_date,
            "actor": self.actor,
            "created_at": self.created_at,
        }
        return without_secrets(told, self.external_id)


@dataclass(frozen=True)
class FoundTriples:
    """What a model found in a text. `tokens` is what that took; `cost_usd` is not known of one that was read back."""

    triples: tuple[Triple, ...]
    tokens: int
    cost_usd: float = 0.0


class TripleAnswers:
    """What one model has answered about a tenant's texts, by their hashes; each answer carries the bot whose text was
    read first. Tenants share nothing. What answers cost is counted for the profile that asked."""

    def __init__(self, database: Database, tenant: str, bot: str, profile: str, model_key: str) -> None:
        self._database, self._tenant, self._bot = database, tenant, bot
        self.model_key = model_key
        self._entry = {"tenant": tenant, "bot": bot, "model_key": model_key}
        self._usage = {**self._entry, "profile": profile, "role": TRIPLES}

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, FoundTriples]:
        """The answers that are known."""
        found: dict[bytes, FoundTriples] = {}
        for start in range(0, len(hashes), _LOOKUP):
            values = {**self._entry, "hashes": list(hashes[start : start + _LOOKUP])}
            with self._database.work(self._tenant, self._bot) as connection:
                for row in rows(connection, dict_row, query("triple_answers"), values):
                    triples = tuple(Triple(**one) for one in row["triples"])
                    found[bytes(row["content_hash"])] = FoundTriples(triples, row["tokens"])
        return found

    def put(self, content_hash: bytes, found: FoundTriples) -> None:
        """Keep an answer and count what it cost; committed when it returns."""
        triples = Jsonb([asdict(one) for one in found.triples])
        values = {**self._entry, "hash": content_hash, "triples": triples, "tokens": found.tokens}
        with self._database.work(self._tenant, self._bot) as connection:
            connection.execute(query("put_triple_answer"), values)
            self._count(connection, 1, 0, found.tokens, found.cost_usd)

    def known(self, hashes: Sequence[bytes]) -> set[bytes]:
        """About which of these the model has answered."""
        with self._database.work(self._tenant) as connection:
            found = scalars(connection, query("triples_known"), {**self._entry, "hashes": list(hashes)})
        return {bytes(digest) for digest in found}

    def count(self, known: int = 0, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """Count texts whose answers were known, and what was paid for no answer."""
        if known or tokens:
            with self._database.work(self._tenant, self._bot) as connection:
                self._count(connection, 0, known, tokens, cost_usd)

    def _count(self, connection: Connection, items: int, known: int, tokens: int, cost_usd: float) -> None:
        usage = Usage(self._tenant, self._bot, items=items, tokens=tokens, cost_usd=cost_usd)
        count_usage(connection, self._usage, self.model_key, usage, known)


@dataclass(frozen=True)
class GraphRequest:
    """What rag.graph_search is asked: `text` as `prepare_names_in` prepared it, at most `max_hops` (1 to 5) triples
    from an entity that the query names, and of each length the best `beam` (1 to 100) paths."""

    text: str
    max_hops: int
    beam: int
    top_k: int
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphRow(SearchRow):
    """One chunk that triples led to; `score` is that of the best path, in [0, 1]."""

    path: list[dict[str, Any]]


def graph_statement(request: GraphRequest) -> Statement:
    """The call of rag.graph_search; its rows are `GraphRow`s, best first."""
    values = {"text": request.text, "max_hops": request.max_hops, "beam": request.beam, "top_k": request.top_k}
    return Statement(query("graph_search"), {**values, "filters": Jsonb(dict(request.filters))}, class_row(GraphRow))


def texts_of_sources(connection: Connection, sources: Sequence[UUID]) -> list[SourceText]:
    """The texts of these sources as they are now; those that could not be read are left out."""
    return rows(connection, class_row(SourceText), query("texts_of_sources"), {"sources": list(sources)})


def place_of_chunk(connection: Connection, space: Space, chunk: UUID) -> Place | None:
    """Where a chunk of the bot lies; None where there is no such chunk, or its source has changed since."""
    values = {"chunk": chunk, "tenant": space.tenant, "bot": space.bot}
    return first_row(connection, class_row(Place), query("place_of_chunk"), values)


def analysis_of_space(connection: Connection, space: Space) -> Analysis | None:
    """How the bot's profile makes words of names; None where it has no profile yet."""
    return first_row(connection, class_row(Analysis), query("analysis_of_space"), {"space": space.id})


def write_triples(
    connection: Connection,
    space: Space,
    analysis: Analysis,
    triples: Sequence[tuple[Triple, Place]],
    profile: int | None = None,
) -> int:
    """Keep triples, in the transaction that is open; returns how many are new or have another confidence now.

    `profile` is the one whose model found them, None of those that are imported.
    """
    connection.execute(query("staged_triples_table"))
    connection.execute("TRUNCATE pg_temp.staged_triples")
    with connection.cursor().copy(query("copy_staged_triples")) as copy:
        for one, place in triples:
            names = (one.subject, one.predicate, one.object)
            where = (place.source_id, place.checksum, place.start, place.end)
            words = (prepare_name(name, analysis.terms) for name in names)
            copy.write_row((*where, *names, *words, one.confidence))
    values = {"space": space.id, "tenant": space.tenant, "bot": space.bot, "profile": profile}
    values["language"] = analysis.language
    return connection.execute(query("insert_staged_triples"), values).rowcount


def analyze_triples(database: Database, changed: int) -> None:
    """Let the planner know what the table holds, where so many rows are a tenth of it: guessing, it reads a graph ten
    times as slowly."""
    with database.session("owner") as connection:
        if "triples" in scalars(connection, query("tables_to_analyze"), {"changed": changed}):
            connection.execute("ANALYZE rag.triples")


def list_triples(
    connection: Connection,
    space: Space,
    *,
    sources: Sequence[UUID] | None = None,
    like: str | None = None,
    entity: str | None = None,
    limit: int | None = None,
) -> list[StoredTriple]:
    """A bot's triples, by source and place: all, those of some sources, those with some words, or those whose subject
    or object an entity is."""
    values = {
        **_of(space, sources),
        "like": like,
        "entity": entity,
        "entity_texts": [] if entity is None else [prepare_name(entity, version) for version in versions()],
        "limit": limit,
    }
    return rows(connection, class_row(StoredTriple), query("list_triples"), values)


def entity_names(connection: Connection, space: Space) -> list[str]:
    """What the subjects and objects of a bot's triples are called."""
    return scalars(connection, query("entity_names"), _of(space))


def count_triples(connection: Connection, space: Space, sources: Sequence[UUID] | None = None) -> int:
    """How many triples a bot has, or has of some sources."""
    return int(scalar(connection, query("count_triples"), _of(space, sources)))


def clear_triples(connection: Connection, space: Space, sources: Sequence[UUID] | None = None) -> int:
    """Delete the triples of a bot, or of some of its sources; returns how many there were."""
    return connection.execute(query("clear_triples"), _of(space, sources)).rowcount


def _of(space: Space, sources: Sequence[UUID] | None = None) -> dict[str, Any]:
    return {"tenant": space.tenant, "bot": space.bot, "sources": None if sources is None else list(sources)}
