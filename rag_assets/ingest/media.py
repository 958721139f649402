"""Files embedded as such, beside their text: one more chunk for a picture or a small PDF of a multimodal profile.

Left out are files inside archives and mails, which have no address to be read again from. Files go one by one and at
once, also where texts go through the provider's batch API.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.documents.model import Chunk
from rag_assets.embedding.cached import CachedEmbedding, MediaFile, embed_media_cached, media_hash
from rag_assets.embedding.protocol import Caller, MediaEmbedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import SourceError
from rag_assets.ingest.listing import read_pushed
from rag_assets.ingest.sources import Failure
from rag_assets.sources.addresses import is_local
from rag_assets.sources.local import locate
from rag_assets.sources.pushed import is_pushed
from rag_assets.sources.scan import SourceFile, read_content
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import Publisher
from rag_assets.store.refused import PgRefusedTexts
from rag_assets.store.roots import roots_of_sources
from rag_assets.store.sources import PendingSource, StoredMedia


def media_chunk(source: PendingSource, media: StoredMedia, chunks: Sequence[Chunk]) -> Chunk:
    """What is shown where a file itself is found: its first passage, or its title or name where it has no text.

    In the latter case `start` and `end` are 0, and the content is not in the document.
    """
    pages = (1, media.pages) if media.type == "application/pdf" else (None, None)
    if chunks:
        first = chunks[0]
        return Chunk(len(chunks), first.content, first.start, first.end, *pages)
    return Chunk(0, source.document.title or source.name, 0, 0, *pages)


def media_chunk_id(spec_hash: str, source: UUID, media: StoredMedia) -> UUID:
    """The same file of the same source has the same id in the same profile."""
    digest = hashlib.sha256(f"{spec_hash}|{source}|media|{media.type}|{media.checksum}".encode())
    return UUID(bytes=digest.digest()[:16])


def media_fields(source: PendingSource, media: StoredMedia, chunk: Chunk) -> dict[str, Any]:
    """The columns in which a file's chunk differs from that of a text."""
    file = {"uri": source.external_id, "type": media.type, "checksum": media.checksum}
    return {
        "metadata": json.dumps({"media": media.type}),
        "media": json.dumps(file),
        # The first passage is found by its words as a chunk of its own.
        "words": "" if chunk.end else None,
    }


@dataclass
class MediaResult:
    """What became of files: the `chunks` of those that have a vector, and these vectors (n, d).

    `refused` are left out, and so are those `changed` since they were read, which come with their next version; the
    text of both is published. `failures` are of sources without text, or of files that cannot be read now: then the
    whole source is in `left_out`, and another run tries it again.
    """

    chunks: pa.Table
    vectors: NDArray[np.float32]
    embedding: CachedEmbedding
    changed: int = 0
    refused: list[Failure] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


@dataclass
class _Reader:
    """Reads files again, those of this machine beneath the root of their source alone, and remembers by row of which
    this was not possible, and which are not what they were."""

    database: Database
    tenant: str
    bot: str
    roots: Mapping[UUID, str] = field(default_factory=dict)  # by source
    unread: dict[int, str] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    def read(self, row: int, source: UUID, uri: str, checksum: str) -> bytes | None:
        try:
            root = self.roots.get(source)
            if is_pushed(uri):
                return self._checked(row, read_pushed(self.database, self.tenant, self.bot, uri), checksum)
            is_beneath = root is not None and is_local(root) and is_local(uri)
            file = locate(root, uri) if root and is_beneath else SourceFile(uri, uri, size=-1, mtime_ns=0)
            data = read_content(file).data
        except (OSError, SourceError) as error:
            self.unread[row] = str(error)
            return None
        return self._checked(row, data, checksum)

    def _checked(self, row: int, data: bytes, checksum: str) -> bytes | None:
        if bytes_checksum(data) != checksum:
            self.changed.add(row)
            return None
        return data


def embed_media(
    database: Database,
    built: BuiltProfile,
    files: pa.Table,
    with_text: Container[str],
    caller: Caller,
    cache: PgVectorCache,
    memory: PgRefusedTexts,
    on_file: Callable[[int], None],
) -> MediaResult:
    """Embed the files of a table of chunks; `with_text` are the ids of the sources that have other chunks too.
    `on_file` is called with 1 after each.

    Raises:
        ProviderUnavailable, ProviderRefused, CostCeilingReached: what was embedded until then is kept.
    """
    rows = files.to_pylist()
    with database.work(built.tenant) as connection:
        roots = roots_of_sources(connection, [UUID(values["source_id"]) for values in rows])
    reader = _Reader(database, built.tenant, built.bot, roots)
    # A profile that is multimodal has a model that embeds files.
    embedder = cast(MediaEmbedder, embedder_for(built.profile))
    wanted = [_file(reader, row, values) for row, values in enumerate(rows)]
    embedding = embed_media_cached(embedder, wanted, cache, caller, on_file=on_file, memory=memory)
    found = np.isfinite(embedding.vectors[:, 0])
    result = MediaResult(files.filter(pa.array(found)), embedding.vectors[found], embedding)
    missing = {row: values for row, values in enumerate(rows) if not found[row]}
    _explain(Publisher(database, built), memory, missing, reader, with_text, result)
    return result


def _explain(
    publisher: Publisher,
    memory: PgRefusedTexts,
    missing: Mapping[int, dict[str, Any]],
    reader: _Reader,
    with_text: Container[str],
    result: MediaResult,
) -> None:
    """Add to the result why the `missing` rows have no vector, and record it against the sources."""
    refused = result.embedding.refused
    result.changed = len(missing.keys() & reader.changed)
    for row, values in missing.items():
        reason = refused.get(row) or reader.unread.get(row)
        if reason is None:
            continue
        failure = Failure(publisher.bot, _name(values), f"its file cannot be embedded: {reason}")
        media = json.loads(values["media"])
        again = memory.next_try([media_hash(media["type"], media["checksum"])]) if row in refused else None
        is_published = row in refused and values["source_id"] in with_text
        if is_published:
            result.refused.append(failure)
        else:
            result.failures.append(failure)
            result.left_out.add(values["source_id"])
        if again is not None or not is_published:
            # What is published without it takes the failure away, and keeps the next try.
            publisher.fail(UUID(values["source_id"]), values["checksum"], failure.error, again)


def _name(values: dict[str, Any]) -> str:
    return str(json.loads(values["citation"]).get("title") or json.loads(values["media"])["uri"])


def _file(reader: _Reader, row: int, values: dict[str, Any]) -> MediaFile:
    media: dict[str, str] = json.loads(values["media"])
    read = partial(reader.read, row, UUID(values["source_id"]), media["uri"], media["checksum"])
    return MediaFile(media["type"], media["checksum"], read)
