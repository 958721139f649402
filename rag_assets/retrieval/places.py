"""Names that tell documents apart: a path under its root, or more of its address where that is not enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import unquote


def tails(uri: str) -> Iterator[str]:
    """Ever longer ends of a source's address, from its last part to the whole: `b.md`, `a/b.md`, …"""
    path = unquote(uri) if uri.startswith("file:") else uri
    parts = path.split("/")
    for start in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[start:])
    yield uri


def telling_names(places: Sequence[tuple[str, str]]) -> list[str]:
    """For each (document, address) the document's name, or where another place has the same, the shortest end of the
    address that no other place ends with."""
    documents = Counter(document for document, _ in places)
    return [
        document if documents[document] == 1 else _telling(uri, [other for _, other in places if other != uri])
        for document, uri in places
    ]


def _telling(uri: str, others: Sequence[str]) -> str:
    taken = {tail for other in others for tail in tails(other)}
    return next((tail for tail in tails(uri) if tail not in taken), uri)
