"""The retrievers of this package for LlamaIndex: `from rag_assets.doors.llamaindex import RagRetriever`.

    retriever = RagRetriever(rag.HybridRetriever(database), {"tenant": "acme", "bot": "support"})
    nodes = retriever.retrieve("how long is the warranty")

It needs `pip install llama-index-core`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Self

from rag_assets.doors.described import described, hidden_from_models
from rag_assets.doors.scopes import RequestScopes, ScopeGiven
from rag_assets.errors import UsageError
from rag_assets.retrieval.arguments import MAX_TOP_K, check_whole
from rag_assets.retrieval.filters import check_filters
from rag_assets.retrieval.protocol import Retriever, database_of, require_retriever
from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.store.database import Database

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise ImportError(
        f"rag_assets.doors.llamaindex needs llama-index-core: pip install llama-index-core ({error})",
        name=error.name,
    ) from error


class RagRetriever(BaseRetriever):  # type: ignore[misc]  # read as unknown where it is installed too
    """A retriever of this package as LlamaIndex's. Made once; safe to use from many threads and tasks.

    Each call opens its scope, embeds the text of the query with the profile of that, whatever other embedding the
    bundle carries, and returns `TextNode`s with scores, best first. The id of a node is that of the chunk, and its
    source is `ref_doc_id`. The score is the one that ordered the results: a reranker's, where each of them has one.
    """

    def __init__(
        self,
        retriever: Retriever,
        scope: ScopeGiven,
        *,
        top_k: int = 8,
        filters: Mapping[str, Any] | None = None,
        database: Database | None = None,
        callback_manager: Any = None,
        verbose: bool = False,
    ) -> None:
        """`scope` is a scope, used as it is; or the arguments of `open_scope`, with which one is opened for each call;
        or a function without arguments that returns one of both for each call. `filters` hold for every call.
        `database` opens the scopes; by default the retriever's own does.

        Raises:
            InvalidArgument: names the argument that is of the wrong kind or out of bounds; a `ScopeError` for the
                scope.
        """
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._retriever = require_retriever(retriever, "retriever")
        self._scopes = RequestScopes(scope, database_of(retriever) if database is None else database)
        self._top_k = check_whole(top_k, "top_k", MAX_TOP_K)
        self._filters = check_filters(filters)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scope = self._scopes.open()
        return _nodes(self._retriever.search(query_bundle.query_str, scope, self._top_k, self._filters))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scope = await self._scopes.aopen()
        return _nodes(await self._retriever.asearch(query_bundle.query_str, scope, self._top_k, self._filters))

    def __deepcopy__(self, memo: Any = None) -> Self:
        # The retriever holds connections, which copies share. No protocol of pickle: that is refused.
        copied: Self = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    __copy__ = __deepcopy__

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise UsageError("a retriever holds connections and cannot be pickled: make one in each process")


def _nodes(found: Retrieval) -> list[NodeWithScore]:
    is_reranked = all(one.rerank_score is not None for one in found)
    return [
        NodeWithScore(node=_node(one, found), score=one.rerank_score if is_reranked else one.score) for one in found
    ]


def _node(result: RetrievalResult, found: Retrieval) -> TextNode:
    metadata = described(result, found)
    return TextNode(
        id_=str(result.chunk_id),
        text=result.content,
        metadata=metadata,
        start_char_idx=result.citation.get("start"),
        end_char_idx=result.citation.get("end"),
        excluded_embed_metadata_keys=list(metadata),  # the chunk was embedded without it
        excluded_llm_metadata_keys=hidden_from_models(metadata),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(result.source_id))},
    )
