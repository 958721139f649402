"""Sources that must go at once: what of the embedding cache goes along, and the withdrawal itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from rag_assets.documents.model import embedding_text
from rag_assets.embedding.cached import content_hash, media_hash
from rag_assets.ingest.chunks import cut_source
from rag_assets.ingest.repeated_pages import pages_of
from rag_assets.store.database import Connection, Database
from rag_assets.store.forgetting import Forgotten, forget_sources, shared_contents, shared_media, stored_versions
from rag_assets.store.profiles import BuiltProfile, profiles_so_far
from rag_assets.store.pushed import drop_forgotten
from rag_assets.store.sources import PendingSource
from rag_assets.store.tenants import Space, spaces_of


def forget(database: Database, tenant: str, bot: str, sources: Sequence[UUID]) -> Forgotten:
    """Withdraw sources from all profiles of the bot, in one transaction, and delete their texts and vectors.

    Vectors of texts that other sources of the tenant have in the same words stay, and so do those of versions that were
    replaced long ago: of these nobody knows the text any more.

    Raises:
        UnknownTenant, UnknownBot: nothing was done.
    """
    with database.work(tenant) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        hashes = _own_hashes(connection, space, sources)
        forgotten = forget_sources(connection, space, sources, hashes)
        drop_forgotten(connection, space, sources)
        return forgotten


def _own_hashes(connection: Connection, space: Space, sources: Sequence[UUID]) -> list[bytes]:
    """What stands in the cache for texts and files that are these sources' alone, as any profile has ever cut them."""
    tenant = space.tenant
    versions = stored_versions(connection, sources)
    texts = {
        content_hash(text): content
        for built in profiles_so_far(connection, space)
        for text, content in _texts(connection, built, versions)
    }
    shared = shared_contents(connection, tenant, sources, set(texts.values()))
    files = {one.media.checksum: one.media.type for one in versions if one.media is not None}
    others = shared_media(connection, tenant, sources) if files else set()
    return [
        *(digest for digest, content in texts.items() if content not in shared),
        *(media_hash(kind, checksum) for checksum, kind in files.items() if checksum not in others),
    ]


def _texts(connection: Connection, built: BuiltProfile, versions: Sequence[PendingSource]) -> Iterator[tuple[str, str]]:
    """What the profile's model has read of these versions, each with the content that is shown of it."""
    pages = pages_of(connection, built, (version.document.content_type for version in versions))
    for version in versions:
        for chunk in cut_source(version, pages, built.profile.chunking).chunks:
            yield embedding_text(chunk.context, chunk.content), chunk.content
