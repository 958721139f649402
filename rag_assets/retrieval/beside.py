"""Several queries to one retriever, and what they found together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_assets.errors import RagError
from rag_assets.retrieval.protocol import Retriever, steps_of
from rag_assets.retrieval.results import Retrieval, joined
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.retrieval.steps import Branch, Outcome, Steps, together
from rag_assets.retrieval.taken import Taken, in_turn
from rag_assets.retrieval.taken import beside as side_by_side


@dataclass(frozen=True)
class Search:
    """A retriever, and all that a search of it has beside the query: no query changes any of that."""

    retriever: Retriever
    scope: RetrievalScope
    depth: int
    filters: Mapping[str, Any]

    def steps(self, query: str) -> Steps[Retrieval]:
        """What the retriever does for one query."""
        return steps_of(self.retriever, query, self.scope, self.depth, self.filters)

    def beside(self, queries: Sequence[str], limit_s: float | None = None) -> Steps[list[Searched]]:
        """What each query found, side by side, within so many seconds."""
        outcomes = yield from together(*(Branch(self.steps(query), limit_s) for query in queries))
        return [Searched(query, outcome) for query, outcome in zip(queries, outcomes, strict=True)]


@dataclass(frozen=True)
class Searched:
    """How the search for one query ended."""

    query: str
    outcome: Outcome[Retrieval]

    @property
    def found(self) -> Retrieval | None:
        return self.outcome.value if self.outcome.error is None else None

    @property
    def told(self) -> dict[str, Any]:
        """The query and how much it found, or why nothing, for a trace."""
        if (found := self.found) is not None:
            return {"query": self.query, "found": len(found)}
        return {"query": self.query, "error": self._reason}

    @property
    def _reason(self) -> str:
        error = self.outcome.error
        return str(error) if isinstance(error, RagError) else type(error).__name__

    @property
    def degraded(self) -> str | None:
        if (found := self.found) is not None:
            return found.degraded
        return f"a query made of the question was not searched for ({self._reason})"


def taken(groups: Sequence[Sequence[Searched]]) -> Taken:
    """What all searches took: those of a group ran side by side, and the groups one after another."""
    return in_turn(side_by_side(one.found for one in group) for group in groups)


def degraded(searches: Sequence[Searched], *more: str | None) -> str | None:
    """What is said of all searches, each thing once, and `more`."""
    return joined(*dict.fromkeys([*more, *(one.degraded for one in searches)]))


def traces(searches: Sequence[Searched]) -> list[Mapping[str, Any]]:
    """What the stages of all searches did, each with its query."""
    return [{**step, "for": one.query} for one in searches if one.found for step in one.found.trace]
