"""Each limit of the table holds at its boundary, and the page of limits shows the table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rag_assets
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval import (
    CachedRetriever,
    HybridRetriever,
    LadderRetriever,
    LexicalRetriever,
    RerankedRetriever,
    TimedRetriever,
    format_retrieved_context,
)
from rag_assets.retrieval import limits as table
from rag_assets.retrieval.arguments import clean_query
from rag_assets.retrieval.filters import check_filters
from rag_assets.retrieval.limits import LIMITS, Limit
from rag_assets.retrieval.protocol import checked
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.database import Database

PAGE = Path(rag_assets.__file__).parents[1] / "docs" / "retrieval" / "limits.md"
AWAY = Database("postgresql://nobody@127.0.0.1:1/none")
INNER = LexicalRetriever(AWAY)


class _Reranker:
    name = "none"

    def score(self, *_: Any) -> Any:
        raise NotImplementedError


def _top_k(value: Any) -> object:
    scope = object.__new__(RetrievalScope)
    return checked("x", scope, value, None)


def _filters(length: Any) -> object:
    empty = len('{"source_ids": [""]}')
    return check_filters({"source_ids": ["x" * (length - empty)]} if length else {})


# What takes a value of each limit.
TAKERS: dict[str, Callable[[Any], object]] = {
    "`top_k` of a search": _top_k,
    "`query`": lambda length: clean_query("x" * length),
    "`filters`": _filters,
    "`where` of the filters": lambda count: check_filters({"where": {f"k{n}": {"exists": True} for n in range(count)}}),
    "`path_prefixes` of the filters": lambda count: check_filters({"path_prefixes": ["x/"] * count}),
    "`candidates` of hybrid search": lambda value: HybridRetriever(AWAY, candidates=value),
    "`k_in` and `k_out` of a reranked search": lambda value: RerankedRetriever(INNER, _Reranker(), k_in=value, k_out=1),
    "`limit_s` of anything": lambda value: TimedRetriever(INNER, value or 1e-9),
    "`retries` of a ladder": lambda value: LadderRetriever(INNER, retries=value),
    "`max_tokens` of a context": lambda value: format_retrieved_context([], value),
    "`per_source` of a context": lambda value: format_retrieved_context([], per_source=value),
    "`results` and `vectors` of a cache": lambda value: CachedRetriever(INNER, results=value, vectors=value),
    "`results_mb` and `vectors_mb` of a cache": lambda value: CachedRetriever(
        INNER, results_mb=value, vectors_mb=value
    ),
}


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.what)
def test_a_limit_holds_at_both_ends(limit: Limit) -> None:
    take = TAKERS[limit.what]
    for allowed in (limit.least, limit.most):
        take(allowed)
    if limit.beyond == "cut":
        assert take(limit.most) == take(limit.most + 1) == take(10 * limit.most)
        return
    beyond = [limit.most + 1] if "filters" in limit.what else [limit.most + 1, -1]
    for refused in beyond if limit.least == 0 else [*beyond, limit.least - 1]:
        with pytest.raises(InvalidArgument) as error:
            take(refused)
        assert error.value.argument in limit.what


def test_time_without_end_is_refused() -> None:
    for value in (0, float("nan"), float("inf"), True):
        with pytest.raises(InvalidArgument):
            TimedRetriever(INNER, value)


def test_every_limit_is_in_the_table_and_on_the_page() -> None:
    assert set(TAKERS) == {one.what for one in LIMITS}
    bounds = {value for name, value in vars(table).items() if name.startswith("MAX_")}
    assert bounds == {one.most for one in LIMITS}
    rows = [f"| {one.what} | {one.least:,} | {one.most:,} | {one.unit} | {one.beyond} |" for one in LIMITS]
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("RAG_UPDATE_LIMITS"):
        head = "|---|---|---|---|---|\n"
        page = re.sub(re.escape(head) + r"(?:\|.*\n)*", lambda _: head + "\n".join(rows) + "\n", page)
        PAGE.write_text(page, encoding="utf-8")
    assert [row for row in rows if row not in page] == [], "run with RAG_UPDATE_LIMITS=1"
