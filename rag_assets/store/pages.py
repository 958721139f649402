"""Web pages of a space beside each other: their signatures, their texts, and what a profile serves of them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from psycopg.rows import kwargs_row

from rag_assets.chunking.repeated_pages import Page
from rag_assets.documents.page_signature import PageSignature
from rag_assets.store.database import Connection
from rag_assets.store.sql import query


def stored_pages(connection: Connection, profile_id: int, space_id: UUID) -> list[Page]:
    """The pages that a profile serves or will serve, oldest first; profile 0 is one that the space does not have."""
    cursor = connection.cursor(row_factory=kwargs_row(_page))
    return cursor.execute(query("page_signatures"), {"profile": profile_id, "space": space_id}).fetchall()


def _page(id: UUID, checksum: str, minhash: bytes, blocks: list[int]) -> Page:
    return Page(id, checksum, PageSignature(np.frombuffer(minhash, dtype="<u8").astype(np.uint64), tuple(blocks)))


def page_texts(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """The texts of sources as they are now, without those that have none."""
    return dict(connection.execute(query("page_texts"), {"sources": list(ids)}).fetchall())


def served_versions(connection: Connection, profile_id: int, ids: Sequence[UUID]) -> dict[UUID, str]:
    """Id of each source of which the profile serves chunks -> the version that it serves."""
    return dict(connection.execute(query("served_versions"), {"profile": profile_id, "sources": list(ids)}).fetchall())
