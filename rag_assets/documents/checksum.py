"""Checksums that change when, and only when, what would be stored changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rag_assets.documents.model import Document
from rag_assets.documents.quality import lasting
from rag_assets.documents.version import PARSER_VERSION


def bytes_checksum(data: bytes) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def document_checksum(document: Document) -> str:
    """Return the SHA-256 in hexadecimal of everything in a document but its file's size, and of the parser version.

    Every part is preceded by its length, so no two documents share one by moving text between parts.
    """
    blocks = [[b.kind, b.start, b.end, b.heading_path, b.page] for b in document.blocks]
    parts: tuple[str | None, ...] = (
        PARSER_VERSION,
        document.title,
        document.text,
        document.content_type,
        document.language,
        document.canonical_url,
        _canonical(lasting(document.metadata)),
        _canonical(blocks),
    )
    return bytes_checksum(b"".join(map(_with_length, parts)))


def _with_length(part: str | None) -> bytes:
    if part is None:
        return b"-:"  # which is another value than "": that has a length
    data = part.encode("utf-8", "surrogatepass")
    return b"%d:%s" % (len(data), data)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"metadata must be plain JSON, and holds a {type(value).__name__}")


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode
