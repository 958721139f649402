"""The named queries of `sql/queries.sql`; Python code holds no SQL of its own but what must be composed."""

from __future__ import annotations

import re
from functools import cache

from rag_assets.settings import bundled

_HEADER = re.compile(r"^-- (\w+) --$", re.MULTILINE)


@cache
def _queries() -> dict[str, str]:
    pieces = _HEADER.split((bundled("sql") / "queries.sql").read_text())
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def query(name: str) -> str:
    """The text of one named query. A name that does not exist is a KeyError: a fault of ours, not the caller's."""
    return _queries()[name]
