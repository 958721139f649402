"""Options that several commands share, and their choices."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from rag_assets.keys import check_key


def key(kind: str) -> Callable[[str | list[str] | None], str | list[str] | None]:
    """What a parameter that takes keys has as its `callback`; raises InvalidKey, which names the kind."""

    def checked(value: str | list[str] | None) -> str | list[str] | None:
        for word in [value] if isinstance(value, str) else value or []:
            check_key(word, kind)
        return value

    return checked


Tenant = Annotated[str, typer.Option("--tenant", help="Key of the tenant.", show_default=False, callback=key("tenant"))]
Bot = Annotated[str, typer.Option("--bot", help="Key of the tenant's bot.", show_default=False, callback=key("bot"))]
AnyBot = Annotated[
    str | None,
    typer.Option("--bot", help="Only this bot of the tenant. (default: all)", show_default=False, callback=key("bot")),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]


class SearchMode(StrEnum):
    """How to search."""

    dense = "dense"
    lexical = "lexical"
    hybrid = "hybrid"


class Metric(StrEnum):
    """Distance between vectors."""

    cosine = "cosine"
    ip = "ip"
    l2 = "l2"


class IndexKind(StrEnum):
    """How a profile's vectors are searched."""

    auto = "auto"
    exact = "exact"
    hnsw = "hnsw"
