"""Pages of a space that repeat each other, as one profile has to treat them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import numpy as np

from rag_assets.chunking import ChunkingSpec
from rag_assets.chunking.repeated_pages import (
    Page,
    candidates,
    chunk_parts,
    distinct_parts,
    duplicates,
    repeated_blocks,
)
from rag_assets.documents.model import Chunk
from rag_assets.documents.page_signature import PageSignature, is_page
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import StagedVersion
from rag_assets.store.sources import PendingSource, pending_sources
from rag_assets.store.sql import query


@dataclass(frozen=True)
class Pages:
    """The pages of a space: which add nothing to another one, and which blocks many of them repeat."""

    by_id: dict[UUID, Page] = field(default_factory=dict)
    duplicates: dict[UUID, Page] = field(default_factory=dict)
    repeated: dict[int, UUID] = field(default_factory=dict)

    def chunk(self, source: PendingSource, spec: ChunkingSpec) -> tuple[list[Chunk], int]:
        """The chunks of a source without the blocks that other pages have too, and the characters left out."""
        document, page = source.document, self.by_id.get(source.id)
        parts = [(0, len(document.text))]
        # A source may have changed since the signatures were read; then its blocks are others.
        if page is not None and page.checksum == source.checksum:
            parts = distinct_parts(document, page, self.repeated)
        dropped = len(document.text) - sum(end - start for start, end in parts)
        return chunk_parts(document, spec, parts), dropped


def pages_of(connection: Connection, built: BuiltProfile, pending: list[PendingSource]) -> Pages:
    """What is known of the space's pages; nothing where none is pending, or the profile keeps all of them."""
    if not built.profile.chunking.distinct_pages or not any(is_page(source.document) for source in pending):
        return Pages()
    rows = connection.execute(query("page_signatures"), {"profile": built.id, "space": built.space_id})
    pages = [
        Page(row[0], row[1], PageSignature(np.frombuffer(row[2], dtype="<u8").astype(np.uint64), tuple(row[3])))
        for row in rows
    ]
    alike = {page.id for pair in candidates(pages) for page in pair}
    texts: dict[UUID, str] = dict(connection.execute(query("page_texts"), {"sources": list(alike)}).fetchall())
    readable = [page for page in pages if page.id not in alike or page.id in texts]
    return Pages({page.id: page for page in pages}, duplicates(readable, texts), repeated_blocks(pages))


def duplicate_versions(database: Database, built: BuiltProfile) -> list[StagedVersion]:
    """Pending pages that add nothing to a page that the profile serves as it is now: versions without chunks."""
    with database.transaction("ingest", {"tenant": built.tenant}) as connection:
        pending = pending_sources(connection, built.id)
        found = pages_of(connection, built, pending).duplicates
        if not found:
            return []
        originals = list({page.id for page in found.values()})
        served = dict(
            connection.execute(query("served_versions"), {"profile": built.id, "sources": originals}).fetchall()
        )
    return [
        StagedVersion(source.id, source.checksum, (), page.id, page.checksum)
        for source in pending
        if (page := found.get(source.id)) is not None and served.get(page.id) == page.checksum
    ]
