"""Pages of a space that repeat each other, as one profile has to treat them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.chunking.repeated_pages import (
    Page,
    candidates,
    chunk_parts,
    distinct_parts,
    duplicates,
    repeated_blocks,
)
from rag_assets.documents.model import Chunk
from rag_assets.documents.page_signature import is_page
from rag_assets.store.database import Connection, Database
from rag_assets.store.pages import page_texts, served_versions, stored_pages
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import StagedVersion
from rag_assets.store.sources import PendingSource, pending_versions


@dataclass(frozen=True)
class Pages:
    """The pages of a space: which add nothing to another one, and which blocks many of them repeat."""

    by_id: dict[UUID, Page] = field(default_factory=dict)
    duplicates: dict[UUID, Page] = field(default_factory=dict)
    repeated: dict[int, UUID] = field(default_factory=dict)

    def chunk(self, source: PendingSource, spec: ChunkingSpec) -> tuple[list[Chunk], int]:
        """The chunks of a source without the blocks that other pages have too, and the characters left out."""
        document, page = source.document, self.by_id.get(source.id)
        # A source may have changed since the signatures were read; then its blocks are others.
        if page is None or page.checksum != source.checksum:
            return chunk_document(document, spec), 0
        parts = distinct_parts(document, page, self.repeated)
        dropped = len(document.text) - sum(end - start for start, end in parts)
        return chunk_parts(document, spec, parts), dropped


def concerns_pages(spec: ChunkingSpec, content_types: Iterable[str | None]) -> bool:
    """Whether pages have to be compared: not where none is pending, or the profile keeps all of them."""
    return spec.distinct_pages and any(is_page(content_type) for content_type in content_types)


def pages_of(connection: Connection, built: BuiltProfile, content_types: Iterable[str | None]) -> Pages:
    """What is known of the space's pages, as far as it concerns sources of these types."""
    if not concerns_pages(built.profile.chunking, content_types):
        return Pages()
    return compared(stored_pages(connection, built.id, built.space_id), partial(page_texts, connection))


def compared(pages: Sequence[Page], texts_of: Callable[[Sequence[UUID]], Mapping[UUID, str]]) -> Pages:
    """What pages, the oldest first, repeat of each other; `texts_of` returns the texts that there are of some."""
    alike = {page.id for pair in candidates(pages) for page in pair}
    texts = texts_of(list(alike))
    readable = [page for page in pages if page.id not in alike or page.id in texts]
    return Pages({page.id: page for page in pages}, duplicates(readable, texts), repeated_blocks(pages))


def duplicate_versions(database: Database, built: BuiltProfile) -> list[StagedVersion]:
    """Pending pages that add nothing to a page that the profile serves as it is now: versions without chunks."""
    with database.work(built.tenant) as connection:
        pending = pending_versions(connection, built.id)
        found = pages_of(connection, built, (version.content_type for version in pending)).duplicates
        if not found:
            return []
        served = served_versions(connection, built.id, list({page.id for page in found.values()}))
    return [
        StagedVersion(version.id, version.checksum, (), page.id, page.checksum)
        for version in pending
        if (page := found.get(version.id)) is not None and served.get(page.id) == page.checksum
    ]
