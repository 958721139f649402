"""Options that several commands share, and their choices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

Tenant = Annotated[str, typer.Option("--tenant", help="Key of the tenant.", show_default=False)]
Bot = Annotated[str, typer.Option("--bot", help="Key of the tenant's bot.", show_default=False)]
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
