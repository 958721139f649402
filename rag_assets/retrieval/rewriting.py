"""A retriever that asks better queries than it was given, beside the one that it was given."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rag_assets.chat.protocol import ChatModel, check_chat, check_limit_s, check_max_tokens
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.arguments import MAX_TOP_K, check_flag, check_whole
from rag_assets.retrieval.beside import Search, Searched, degraded, taken, traces
from rag_assets.retrieval.fusion import fused
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever, checked, database_of, require_retriever, steps_of
from rag_assets.retrieval.queries import Rewritten, Wanted, check_sub_queries, rewritten
from rag_assets.retrieval.results import Retrieval, best_rung
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Branch, Steps, together

# Of a query that needs the turns before it, beside the one that stands for itself: what both find gains, and what only
# it finds comes last.
AS_IT_WAS = 0.5


class RewritingRetriever(SteppedRetriever):
    """Has a chat model make queries of the one that is asked, searches for all of them, and fuses what they find by
    reciprocal ranks. The query as it was is always among them, and all that is searched for where the model fails.

    The model decides on texts of queries and nothing else: scope, filters and `top_k` are the caller's.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel,
        *,
        compress: bool = True,
        clarify: bool = False,
        sub_queries: int = 0,
        limit_s: float = 5.0,
        max_tokens: int = 1024,
        candidates: int = 30,
    ) -> None:
        """`compress`: make a query of the last turn of a conversation that stands for itself (see `with_history`);
        without a history no model is asked. `clarify`: search for other readings of an ambiguous query too.
        `sub_queries`: split it into at most so many parts (0 to 8).

        The model has `limit_s` seconds and `max_tokens` tokens; each query finds `candidates` chunks, or `top_k`.

        Raises:
            InvalidArgument: names the argument that is out of bounds or of the wrong kind.
        """
        super().__init__(database_of(require_retriever(retriever, "retriever")))
        self._retriever, self._chat = retriever, check_chat(chat)
        self._wanted = Wanted(
            check_flag(compress, "compress"), check_flag(clarify, "clarify"), check_sub_queries(sub_queries)
        )
        if not self._wanted:
            raise InvalidArgument("nothing is to be rewritten: one of compress, clarify and sub_queries", "compress")
        self._limit_s = check_limit_s(limit_s)
        self._max_tokens = check_max_tokens(max_tokens)
        self._candidates = check_whole(candidates, "candidates", MAX_TOP_K)

    def steps(
        self, query: str, scope: RetrievalScope, top_k: int = 8, filters: Mapping[str, Any] | None = None
    ) -> Steps[Retrieval]:
        """See `Retriever.steps`."""
        query, top_k, filters = checked(query, scope, top_k, filters)
        wanted = Wanted(self._wanted.compress and bool(self.history), self._wanted.clarify, self._wanted.sub_queries)
        if not query.strip() or not wanted:
            return (yield from steps_of(self._retriever, query, scope, top_k, filters))
        started = time.perf_counter()
        search = Search(self._retriever, scope, max(self._candidates, top_k), filters)
        # Side by side: what the model takes its time for is searched beside the query in any case.
        asking = rewritten(self._chat, query, self.history, wanted, self._max_tokens, self._limit_s)
        first, made = yield from together(Branch(search.steps(query)), Branch(asking))
        first.get()
        made = made.get()
        others = yield from search.beside(made.queries)
        took = 1000 * (time.perf_counter() - started)
        return _joined([Searched(query, first), *others], made, wanted, top_k, took)


def _joined(searches: list[Searched], made: Rewritten, wanted: Wanted, top_k: int, took: float) -> Retrieval:
    lists = [one.found.results if one.found else () for one in searches]
    weights = [AS_IT_WAS if made.standalone else 1.0, *(1.0 for _ in searches[1:])]
    # Without its conversation a query finds less; one that only was not split is what it always was.
    poorer = f"the query was searched for without its conversation ({made.error})" if wanted.compress else None
    spent = taken([searches[:1], searches[1:]])  # the query itself while the model was asked, the others then
    return Retrieval(
        fused(lists, weights)[:top_k],
        {**spent.timings_ms, "rewrite": made.ms, "total": took},
        degraded(searches, poorer if made.error else None),
        spent.usage,
        (
            {"stage": "rewrite", **made.told, "searches": [one.told for one in searches]},
            *traces(searches),
        ),
        best_rung(*(one.found.rung for one in searches if one.found)),
    )
