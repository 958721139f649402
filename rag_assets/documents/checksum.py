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
    parts = (
        PARSER_VERSION,
        document.title,
        document.text,
        document.content_type,
        document.language,
        document.canonical_url,
        _canonical(lasting(document.metadata)),
        _canonical(blocks),
    )
    digest = hashlib.sha256()
    for part in parts:
        # None and "" are different values: only one of them has a length.
        data = b"" if part is None else part.encode("utf-8", "surrogatepass")
        digest.update(b"-:" if part is None else b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"metadata must be plain JSON, and holds a {type(value).__name__}")
