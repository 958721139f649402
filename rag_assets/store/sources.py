"""Sources, their documents, and what is known of the files they came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, dict_row, kwargs_row, scalar_row
from psycopg.types.json import Jsonb

from rag_assets.documents.model import Block, Document
from rag_assets.documents.page_signature import PageSignature
from rag_assets.embedding.profiles import ProviderOptions
from rag_assets.store.database import Connection
from rag_assets.store.roots import Root
from rag_assets.store.source_life import list_sources
from rag_assets.store.sql import query, rows, scalars
from rag_assets.store.tenants import SHARED_BOT

_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class FileState:
    """A file as it was when it was last read; `etag` and `last_modified` are headers of a web page. One that is `held`
    was gone at the last scan, and its sources are kept. `ctime_ns`, `inode` and `read_at` are None where not known."""

    size: int
    mtime_ns: int
    checksum: str
    parser_version: str
    etag: str | None = None
    last_modified: str | None = None
    held: bool = False
    ctime_ns: int | None = None
    inode: int | None = None
    read_at: datetime | None = None


@dataclass(frozen=True)
class StoredMedia:
    """The file of a source, where some models can embed it as such; `checksum` is that of its bytes."""

    type: str
    pages: int
    checksum: str


@dataclass(frozen=True)
class SourceState:
    """A source as the database knows it."""

    id: UUID
    file_hash: bytes
    external_id: str
    checksum: str
    status: str
    media: StoredMedia | None
    has_version: bool = True  # some version of it could be read once
    is_missing: bool = False  # not seen in its file, a part of which could not be read
    forgotten_file: str | None = None  # of one that was forgotten, what it was: the checksum of its file
    forgotten_text: str | None = None  # and `text_mark`, if it had a text
    name: str = ""
    error: str | None = None


@dataclass(frozen=True)
class StagedSource:
    """A new, changed or failed source on its way into the database. `part` is the external id of the file, or file
    inside a file, that it stands in; one that failed and `hides_others` may be any other source of that part. One that
    `revives` was forgotten and is another version now. `file_checksum` is that of the whole file, `""` where it could
    not be read."""

    id: UUID
    file_hash: bytes
    source_type: str
    external_id: str
    name: str
    checksum: str
    status: str  # processing, no_text, failed
    error: str | None = None
    document: Document | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    media: StoredMedia | None = None
    signature: PageSignature | None = None
    part: str = ""
    hides_others: bool = False
    file_checksum: str = ""
    revives: bool = False

    @property
    def text_mark(self) -> str | None:
        """What stands for title and text, whichever version of a parser has read them."""
        document = self.document
        return hashlib.sha256(f"{document.title}\n{document.text}".encode()).hexdigest() if document else None


@dataclass(frozen=True)
class PendingSource:
    """A source version that a profile has yet to publish. The document of a source without text is empty; such a
    source has `media`, which is None unless the profile embeds files."""

    id: UUID
    checksum: str
    document: Document
    name: str
    external_id: str
    media: StoredMedia | None = None


@dataclass(frozen=True)
class PendingVersion:
    """A source version that a profile has yet to publish, without its document, whose text has so many `text_bytes`."""

    id: UUID
    checksum: str
    content_type: str | None
    text_bytes: int


@dataclass(frozen=True)
class ProfileLag:
    """How many sources a profile has to publish or to take away; `digest` names them, and is None if there are none."""

    sources: int
    digest: str | None


def hash_uri(uri: str) -> bytes:
    """What stands for a uri of any length in keys."""
    return hashlib.sha256(uri.encode()).digest()


def source_id(space_id: UUID, external_id: str) -> UUID:
    """The same source of the same space has the same id on every machine and after every re-ingest."""
    return UUID(bytes=hashlib.sha256(space_id.bytes + external_id.encode()).digest()[:16])


def file_states(connection: Connection, root: Root) -> dict[str, FileState]:
    """Uri -> state of all files of the root that have been read."""
    states = connection.cursor(row_factory=dict_row).execute(query("file_states"), {"root": root.id})
    return {row.pop("uri"): FileState(**row) for row in states}


def sources_of_files(connection: Connection, root: Root, files: Iterable[bytes]) -> list[SourceState]:
    """The sources, other than deleted ones, that came from the given files."""
    cursor = connection.cursor(row_factory=kwargs_row(_source_state))
    return cursor.execute(query("source_states_of_files"), {"space": root.space_id, "files": list(files)}).fetchall()


def _source_state(media: dict[str, Any] | None, **columns: Any) -> SourceState:
    return SourceState(**columns, media=_to_media(media))


def embeds_media(connection: Connection, space_id: UUID) -> bool:
    """Whether some profile of the space embeds files as such."""
    cursor = connection.cursor(row_factory=scalar_row)
    return bool(cursor.execute(query("embeds_media"), {"space": space_id}).fetchone())


def write_sources(connection: Connection, root: Root, staged: Sequence[StagedSource]) -> None:
    """Insert or update sources and their documents."""
    if not staged:
        return
    connection.execute(query("staged_sources_table"))
    with connection.cursor().copy(query("copy_staged_sources")) as copy:
        for source in staged:
            copy.write_row(_staged_row(source))
    owner = {"space": root.space_id, "tenant": root.tenant, "bot": root.bot, "root": root.id}
    connection.execute(query("upsert_sources"), owner)
    if any(source.status == "failed" for source in staged):
        connection.execute("ANALYZE pg_temp.staged_sources")  # unknown, it is joined row by row
        connection.execute(query("fail_sources"))
    connection.execute(query("upsert_documents"), owner)
    connection.execute("TRUNCATE pg_temp.staged_sources")
    _write_signatures(connection, staged)


def relabel_sources(connection: Connection, sources: Sequence[StagedSource]) -> None:
    """Note that these versions, which are stored, were seen, and what they are called and where they stand now."""
    values = {
        "sources": [source.id for source in sources],
        "names": [source.name for source in sources],
        "metadata": [_json(source.metadata) for source in sources],
    }
    if sources:
        connection.execute(query("relabel_sources"), values)


def hide_sources(connection: Connection, ids: Sequence[UUID]) -> None:
    """Note that these were not seen in their file, a part of which could not be read."""
    if ids:
        connection.execute(query("hide_sources"), {"sources": list(ids)})


def _staged_row(source: StagedSource) -> tuple[Any, ...]:
    document = source.document
    return (
        source.id,
        source.file_hash,
        source.source_type,
        source.external_id,
        source.name,
        document.canonical_url if document else None,
        source.checksum,
        source.status,
        source.error,
        document.language if document else None,
        _content_type(source),
        _json(source.metadata),
        json.dumps(asdict(source.media)) if source.media else None,
        document.title if document else None,
        document.text if document else None,
        json.dumps([asdict(block) for block in document.blocks]) if document else None,
        source.revives,
    )


def _content_type(source: StagedSource) -> str | None:
    if source.document:
        return source.document.content_type
    return source.media.type if source.media else None


def _write_signatures(connection: Connection, staged: Sequence[StagedSource]) -> None:
    rows = []
    for source in staged:
        signature = source.signature
        if signature is not None:
            values = {"minhash": signature.minhash.astype("<u8").tobytes(), "blocks": list(signature.blocks)}
            rows.append({"source": source.id, "checksum": source.checksum, **values})
    if rows:
        connection.cursor().executemany(query("put_page_signature"), rows)


def remember_file(connection: Connection, root: Root, uri: str, state: FileState) -> None:
    """Note what the file was when it was read, in the transaction that writes its sources."""
    connection.execute(
        query("remember_file"),
        {
            **asdict(state),
            "space": root.space_id,
            "tenant": root.tenant,
            "bot": root.bot,
            "root": root.id,
            "file_hash": hash_uri(uri),
            "uri": uri,
        },
    )


def delete_sources(connection: Connection, root: Root, ids: Sequence[UUID]) -> None:
    """Mark sources as deleted; the next publication of each profile takes their chunks away."""
    if ids:
        connection.execute(query("delete_sources"), {"space": root.space_id, "sources": list(ids)})


def let_files_be_reread(connection: Connection, tenant: str, bot: str) -> int:
    """Have the next scan read all files of a bot again, whether they look changed or not. Returns how many."""
    return connection.execute(query("let_files_be_reread"), {"tenant": tenant, "bot": bot}).rowcount


def forget_unread_files(connection: Connection, tenant: str, bot: str) -> int:
    """Forget the files of sources that failed or hold no text: the next scan reads them again. Returns how many."""
    return connection.execute(query("forget_unread_files"), {"tenant": tenant, "bot": bot}).rowcount


def pending_versions(connection: Connection, profile_id: int) -> list[PendingVersion]:
    """The sources that the profile has not published in their current version, by external id, without their texts."""
    cursor = connection.cursor(row_factory=class_row(PendingVersion))
    return cursor.execute(query("pending_versions"), {"profile": profile_id}).fetchall()


def pending_sources(connection: Connection, profile_id: int, ids: Sequence[UUID] | None = None) -> list[PendingSource]:
    """The sources that the profile has not published in their current version, by external id; of `ids`, if given."""
    cursor = connection.cursor(row_factory=kwargs_row(pending_source))
    name = "pending_sources" if ids is None else "pending_sources_of"
    return cursor.execute(query(name), {"profile": profile_id, "ids": list(ids or ())}).fetchall()


def publishable_sources(connection: Connection, space_id: UUID, options: ProviderOptions) -> list[PendingSource]:
    """The sources that would be pending for a profile with these options, if the space had it, by external id."""
    cursor = connection.cursor(row_factory=kwargs_row(pending_source))
    values = {"space": space_id, "options": Jsonb(options.model_dump(mode="json"))}
    return cursor.execute(query("publishable_sources"), values).fetchall()


def repeats_of(connection: Connection, profile_id: int, ids: Sequence[UUID]) -> list[PendingSource]:
    """The pages that the profile has published as repeats of these, by external id: pending once these are others."""
    cursor = connection.cursor(row_factory=kwargs_row(pending_source))
    return cursor.execute(query("repeats_of"), {"profile": profile_id, "sources": list(ids)}).fetchall()


def pending_source(
    title: str,
    text: str,
    blocks: list[dict[str, Any]],
    content_type: str | None,
    locale: str | None,
    media: dict[str, Any] | None,
    **columns: Any,
) -> PendingSource:
    """One from a row."""
    document = Document(
        title=title,
        text=text,
        blocks=tuple(_to_block(block) for block in blocks),
        content_type=content_type or "text/plain",
        language=locale,
    )
    return PendingSource(**columns, document=document, media=_to_media(media))


def profile_lag(connection: Connection, profile_id: int) -> ProfileLag:
    """How far the profile is behind its sources, but for what failed before or waits for a batch job."""
    cursor = connection.cursor(row_factory=class_row(ProfileLag))
    lag = cursor.execute(query("profile_lag"), {"profile": profile_id}).fetchone()
    assert lag is not None  # an aggregate
    return lag


def _to_media(value: dict[str, Any] | None) -> StoredMedia | None:
    return StoredMedia(**value) if value else None


def _to_block(value: dict[str, Any]) -> Block:
    return Block(**{**value, "heading_path": tuple(value["heading_path"])})


def sources_overview(connection: Connection, tenant: str, bot: str) -> Sequence[dict[str, Any]]:
    """One dict a source, by external id, with its state in each profile under `profiles`."""
    return list_sources(connection, tenant, bot).sources


def source_counts(connection: Connection, tenant: str, bot: str | None = None) -> dict[str, int]:
    """Number of sources by status."""
    return dict(connection.execute(query("source_counts"), {"tenant": tenant, "bot": bot}).fetchall())


def filter_values(connection: Connection, tenant: str, bot: str) -> dict[str, list[str]]:
    """What the sources that a bot's users may see have as name (`source`), `type`, `locale`, `content_type` and `tag`;
    of names the newest 10,000."""
    found: dict[str, list[str]] = {}
    for row in rows(connection, dict_row, query("filter_values"), {"tenant": tenant, "bot": bot, "shared": SHARED_BOT}):
        found.setdefault(row["key"], []).append(row["value"])
    return found


def metadata_keys(connection: Connection, tenant: str, bot: str) -> list[str]:
    """The keys that sources of the bot, and of what all bots of the tenant share, have in their metadata, sorted."""
    return scalars(connection, query("metadata_keys"), {"tenant": tenant, "bot": bot, "shared": SHARED_BOT})


def show_progress(connection: Connection, ids: Sequence[UUID], percent: int) -> None:
    """Raise the progress of sources that are on their way; it never falls."""
    connection.execute(query("progress"), {"sources": list(ids), "percent": percent})
