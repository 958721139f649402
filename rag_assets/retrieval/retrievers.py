"""Dense, lexical and hybrid retrieval under a scope."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar
from uuid import UUID

import psycopg
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import Caller, Embedded
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import DatabaseUnavailable, EmbeddingError, ProfileNotReady, ScopeError, UnknownBot
from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.database import Connection, Database, set_scope
from rag_assets.store.lexical import lexical_text
from rag_assets.store.profiles import to_profile
from rag_assets.store.search import Fusion, Mode, SearchRequest, SearchRow, run_search
from rag_assets.store.sql import query

_T = TypeVar("_T")

MAX_TOP_K = 1000
MAX_QUERY_CHARS = 8_000  # more is a document, not a question
_LIST_FILTERS = ("source_ids", "source_types", "locales", "content_types")


class Retriever(Protocol):
    """Anything that answers a query inside a scope."""

    def search(
        self,
        query: str,
        scope: RetrievalScope,
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> Retrieval:
        """The best chunks of the scope, best first, at most `top_k`.

        `filters` narrow the sources: lists of allowed `source_ids`, `source_types`, `locales` and
        `content_types`, and `metadata`, an object that the source's metadata must contain.

        Raises:
            ScopeError: without a scope.
            ValueError: `top_k` is out of bounds, or a filter is unknown or of the wrong kind.
            DatabaseUnavailable: after retries; nothing was widened.
        """
        ...


@retry(
    retry=retry_if_exception_type(DatabaseUnavailable),
    stop=stop_after_attempt(4),
    wait=wait_exponential_jitter(initial=0.1, max=2),
    reraise=True,
)
def _as_app(database: Database, work: Callable[[Connection], _T]) -> _T:
    """Do `work` over a connection of the app's pool; over another where the server broke it off."""
    try:
        with database.app_pool().connection() as connection:
            return work(connection)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise DatabaseUnavailable(f"the search did not reach the database: {error}") from error


def open_scope(
    database: Database,
    tenant: str,
    bot: str,
    profile: str | None = None,
    user_id: str | None = None,
    request_key: str | None = None,
) -> tuple[RetrievalScope, EmbeddingProfile]:
    """Look up a bot's active profile (or the one named) and return the scope and the profile to search with.

    Where the bot has a canary, its share of the values of `request_key` gets that profile, the same value always
    the same one: pass a conversation or a user. Without a key, or with a profile named, no canary answers.

    Raises:
        UnknownBot: no such tenant or bot. The app may not list tenants, so neither is told apart.
        ProfileNotReady: the bot has no active profile, or the named one is not built.
        DatabaseUnavailable: after retries.
    """

    def look_up(connection: Connection) -> list[tuple[Any, ...]]:
        set_scope(connection, {"tenant": tenant, "bot": bot})
        names = {"tenant": tenant, "bot": bot, "name": profile, "canary": request_key is not None}
        return connection.execute(query("profile_for_search"), names).fetchall()

    rows = _as_app(database, look_up)
    if not rows:
        raise UnknownBot(
            f"no bot {bot!r} of tenant {tenant!r}. Create it with: rag ingest PATH --tenant {tenant} --bot {bot}"
        )
    space, profile_id, *columns, status = _chosen(rows, request_key)
    if profile_id is None or status not in ("ready", "active"):
        wanted = f"profile {profile!r}" if profile else "active profile"
        raise ProfileNotReady(
            f"bot {bot!r} of tenant {tenant!r} has no {wanted} that is ready. Build one with: "
            f"rag ingest --tenant {tenant} --bot {bot} --profile {profile or 'static-256'}"
        )
    return RetrievalScope(tenant, bot, space, profile_id, user_id), to_profile(columns)


def _chosen(rows: list[tuple[Any, ...]], request_key: str | None) -> tuple[Any, ...]:
    """Of the active profile and its canary, each `(space, percent, is canary, profile, …)`, the one that answers."""
    space, percent, *_ = rows[0]
    if len(rows) > 1:
        takes = request_key is not None and in_canary(space, request_key, percent)
        rows = [row for row in rows if row[2] is takes]
    space, _, _, *profile = rows[0]
    return (space, *profile)


def in_canary(space: UUID, request_key: str, percent: int) -> bool:
    """Whether the canary answers this key: its hash decides, so that a conversation does not change its mind."""
    digest = hashlib.blake2b(space.bytes + request_key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100 < percent


class _PostgresRetriever:
    """What the three modes share: checks, one round trip, timings, retries."""

    mode: Mode

    def __init__(
        self,
        database: Database,
        profile: EmbeddingProfile,
        *,
        dense_weight: float = 0.5,
        fusion: Fusion = "minmax",
        candidates: int = 100,
    ) -> None:
        """`profile` must be the one that the scopes name: it embeds the queries."""
        self._database = database
        self._profile = profile
        self._dense_weight = dense_weight
        self._fusion: Fusion = fusion
        self._candidates = candidates

    def search(
        self,
        query: str,
        scope: RetrievalScope,
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
    ) -> Retrieval:
        """See `Retriever.search`. Where the query cannot be embedded, hybrid mode searches by words alone."""
        if not isinstance(scope, RetrievalScope):
            raise ScopeError("a search needs a RetrievalScope; without one nothing is searched")
        if not 1 <= top_k <= MAX_TOP_K:
            raise ValueError(f"top_k must be between 1 and {MAX_TOP_K}, got {top_k}")
        filters = _checked_filters(filters or {})
        query = query.replace("\x00", " ").encode("utf-8", "replace").decode()[:MAX_QUERY_CHARS]
        if not query.strip():
            return Retrieval((), {"embed": 0.0, "search": 0.0, "total": 0.0}, degraded="the query is empty")
        started = time.perf_counter()
        embedding, mode, degraded = self._embed(query, scope)
        embedded = time.perf_counter()
        request = SearchRequest(
            mode=mode,
            vector=embedding.vectors[0] if embedding else None,
            text=lexical_text(query) if mode != "dense" else "",
            top_k=top_k,
            candidates=max(self._candidates, top_k),
            dense_weight=self._dense_weight,
            fusion=self._fusion,
            filters=filters,
        )
        rows = self._run(scope, request)
        ended = time.perf_counter()
        timings = {
            "embed": 1000 * (embedded - started),
            "search": 1000 * (ended - embedded),
            "total": 1000 * (ended - started),
        }
        results = tuple(_to_result(row) for row in rows)
        return Retrieval(results, timings, degraded, embedding.usage if embedding else None)

    def _embed(self, query: str, scope: RetrievalScope) -> tuple[Embedded | None, Mode, str | None]:
        if self.mode == "lexical":
            return None, "lexical", None
        try:
            caller = Caller(scope.tenant_id, scope.bot_id)
            return embedder_for(self._profile).embed_query(query, caller), self.mode, None
        except EmbeddingError as error:
            if self.mode == "dense":
                raise
            return None, "lexical", f"the query could not be embedded ({error}); searched by words alone"

    def _run(self, scope: RetrievalScope, request: SearchRequest) -> list[SearchRow]:
        return _as_app(self._database, lambda connection: run_search(connection, scope.settings, request))


class DenseRetriever(_PostgresRetriever):
    """By the similarity of vectors alone."""

    mode: Mode = "dense"


class LexicalRetriever(_PostgresRetriever):
    """By BM25 over any of the query's words."""

    mode: Mode = "lexical"


class HybridRetriever(_PostgresRetriever):
    """Both, fused: min-max scores by `dense_weight`, or reciprocal ranks."""

    mode: Mode = "hybrid"


RETRIEVERS: Mapping[Mode, type[_PostgresRetriever]] = {
    "dense": DenseRetriever,
    "lexical": LexicalRetriever,
    "hybrid": HybridRetriever,
}


def _checked_filters(filters: Mapping[str, Any]) -> Mapping[str, Any]:
    """A filter that is misspelt must not be left out: the search would be wider than what was asked for."""
    for name, value in filters.items():
        if name == "metadata":
            if not isinstance(value, Mapping):
                raise ValueError(f"the filter 'metadata' must be an object, got {value!r}")
        elif name not in _LIST_FILTERS:
            raise ValueError(f"unknown filter {name!r}; known are: {', '.join(_LIST_FILTERS)}, metadata")
        elif isinstance(value, str) or not isinstance(value, Collection):
            raise ValueError(f"the filter {name!r} must be a list, got {value!r}")
    lists = {name: [str(item) for item in value] for name, value in filters.items() if name != "metadata"}
    return {**filters, **lists}


def _to_result(row: SearchRow) -> RetrievalResult:
    citation = dict(row.citation)
    if row.canonical_url:
        citation["url"] = row.canonical_url
    if "doc_id" in row.source_metadata:
        citation["document"] = row.source_metadata["doc_id"]
    return RetrievalResult(
        chunk_id=row.chunk_id,
        source_id=row.source_id,
        source_name=row.source_name,
        score=row.score,
        content=row.content,
        token_count=row.token_count,
        citation=citation,
        metadata={**row.source_metadata, **row.metadata},
        dense_score=row.dense_score,
        lexical_score=row.lexical_score,
    )
