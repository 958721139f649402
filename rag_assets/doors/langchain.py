"""The retrievers of this package for LangChain: `from rag_assets.doors.langchain import RagRetriever`.

    retriever = RagRetriever(rag.HybridRetriever(database), {"tenant": "acme", "bot": "support"})
    documents = retriever.invoke("how long is the warranty")

It needs `pip install langchain-core`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Self

from rag_assets.doors.described import described
from rag_assets.doors.scopes import RequestScopes, ScopeGiven
from rag_assets.errors import InvalidArgument, UsageError, shown
from rag_assets.retrieval.arguments import MAX_TOP_K, check_whole
from rag_assets.retrieval.filters import check_filters
from rag_assets.retrieval.protocol import Retriever, database_of, require_retriever
from rag_assets.retrieval.results import Retrieval
from rag_assets.store.database import Database

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables.config import ensure_config
    from pydantic import Field
except ImportError as error:
    raise ImportError(
        f"rag_assets.doors.langchain needs langchain-core: pip install langchain-core ({error})",
        name=error.name,
    ) from error

_PER_CALL = ("top_k", "filters")


class RagRetriever(BaseRetriever):  # type: ignore[misc]  # read as unknown where it is installed too
    """A retriever of this package as LangChain's. Made once; safe to use from many threads and tasks.

    Each call opens its scope, embeds with the profile of that, and returns `Document`s, best first: the chunk as
    `page_content`, its id as `id`, and in `metadata` the source's own and what is known of the chunk.
    """

    retriever: Any = Field(repr=False, exclude=True)
    scope: Any = Field(repr=False, exclude=True)
    top_k: int = 8
    filters: Any = Field(default=None, repr=False, exclude=True)
    database: Any = Field(default=None, repr=False, exclude=True)

    def __init__(
        self,
        retriever: Retriever,
        scope: ScopeGiven,
        *,
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
        database: Database | None = None,
        name: str | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """`scope` is a scope, used as it is; or the arguments of `open_scope`, with which one is opened for each call;
        or a function that returns one of both for each call. Only a function is given what the call's config has as
        `configurable`; a question never says whose sources are searched. `filters` hold for every call. `database`
        opens the scopes; by default the retriever's own does.

        Raises:
            InvalidArgument: names the argument that is of the wrong kind or out of bounds; a `ScopeError` for the
                scope.
        """
        require_retriever(retriever, "retriever")
        check_whole(top_k, "top_k", MAX_TOP_K)
        check_filters(filters)
        given = {"retriever": retriever, "scope": scope, "top_k": top_k, "filters": filters, "database": database}
        super().__init__(**given, name=name, tags=tags, metadata=metadata)
        self._scopes()

    def invoke(self, input: str, config: Any = None, **narrower: Any) -> list[Document]:
        """The documents for a question. `top_k` may be another for this call, and `filters` narrow it further.

        Raises:
            InvalidArgument: no such argument, or one that is of the wrong kind, or a filter that this retriever sets.
            RagError: as `Retriever.search` and `open_scope`.
        """
        config = ensure_config(config)
        request = {"narrower": narrower, "configurable": config.get("configurable") or {}}
        found: list[Document] = super().invoke(input, config, **request)
        return found

    async def ainvoke(self, input: str, config: Any = None, **narrower: Any) -> list[Document]:
        """As `invoke`, for tasks of an event loop, which is not held up."""
        config = ensure_config(config)
        request = {"narrower": narrower, "configurable": config.get("configurable") or {}}
        found: list[Document] = await super().ainvoke(input, config, **request)
        return found

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, narrower: Mapping[str, Any], configurable: Mapping[str, Any]
    ) -> list[Document]:
        arguments = self._arguments(narrower)
        scope = self._scopes().open(dict(configurable))
        return _documents(self.retriever.search(query, scope, **arguments))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, narrower: Mapping[str, Any], configurable: Mapping[str, Any]
    ) -> list[Document]:
        arguments = self._arguments(narrower)
        scope = await self._scopes().aopen(dict(configurable))
        return _documents(await self.retriever.asearch(query, scope, **arguments))

    def _scopes(self) -> RequestScopes:
        database = database_of(self.retriever) if self.database is None else self.database
        return RequestScopes(self.scope, database)

    def _arguments(self, narrower: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [name for name in narrower if name not in _PER_CALL]
        if unknown:
            raise InvalidArgument(f"invoke takes {' and '.join(_PER_CALL)}, got {shown(unknown[0])}", unknown[0])
        always, more = dict(self.filters or {}), check_filters(narrower.get("filters"))
        for name in more:
            if name in always:
                raise InvalidArgument(f"filters: {name!r} is set by this retriever, and a call cannot change it", name)
        return {"top_k": narrower.get("top_k", self.top_k), "filters": {**always, **more}}

    def __deepcopy__(self, memo: Any = None) -> Self:
        copied: Self = self.__copy__()  # the retriever holds connections, which copies share
        return copied

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise UsageError("a retriever holds connections and cannot be pickled: make one in each process")


def _documents(found: Retrieval) -> list[Document]:
    return [Document(id=str(one.chunk_id), page_content=one.content, metadata=described(one, found)) for one in found]
