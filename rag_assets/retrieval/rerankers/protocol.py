"""What every reranker offers, whatever judges: a model here, a server, a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rag_assets.embedding.protocol import Caller, Usage


@dataclass(frozen=True)
class Scores:
    """What a reranker says of texts: pairs of an index, from 0, and a score in [0, 1], in any order. They are what
    came back, and may be anything: who uses them looks at each. `usage` is what they cost, None where nothing."""

    pairs: Sequence[tuple[object, object]]
    usage: Usage | None = None


class Reranker(Protocol):
    """Judges texts. Safe to use from many threads at once.

    One that can be awaited has `async def ascore` with the same parameters too; a task uses a thread for the others.
    """

    @property
    def name(self) -> str:
        """What it is called in a trace: its kind and model."""
        ...

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        """How well each text answers the query. `caller.wait_s` seconds after it was asked nobody waits any longer,
        and it stops by itself; None: as long as it takes.

        Raises:
            RagError: nothing could be judged, with the reason.
        """
        ...
