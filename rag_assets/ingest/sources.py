"""Stage 1: what lies under a tenant's roots becomes sources and documents in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rag_assets.documents.checksum import bytes_checksum, document_checksum
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Record
from rag_assets.documents.page_signature import signature_of
from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.embedding.models import MEDIA_PAGES
from rag_assets.errors import RootUnreadable, SourceError
from rag_assets.ingest.root_changes import decide
from rag_assets.progress import stage
from rag_assets.sources.scan import Content, SourceFile, read_content, scan_root
from rag_assets.store import sources as store
from rag_assets.store.database import Database
from rag_assets.store.roots import Root, list_roots, record_scan
from rag_assets.store.sources import FileState, SourceState, StagedSource, StoredMedia, hash_uri, source_id
from rag_assets.store.tenants import spaces_of

BATCH_RECORDS = 2000
BATCH_FILES = 200


@dataclass(frozen=True)
class Failure:
    """Something that could not be read, and why."""

    bot: str
    name: str
    error: str


@dataclass
class SyncReport:
    """What a scan found and changed, for one tenant."""

    changed: int = 0  # new or changed sources that can be read
    unchanged: int = 0
    no_text: int = 0
    failed: int = 0
    deleted: int = 0
    bytes_read: int = 0
    files: int = 0
    roots: int = 0
    failures: list[Failure] = field(default_factory=list)
    unreadable_roots: list[Failure] = field(default_factory=list)

    @property
    def changes(self) -> int:
        return self.changed + self.no_text + self.failed + self.deleted


def sync_sources(database: Database, tenant: str, bot: str | None = None) -> SyncReport:
    """Scan all roots of the tenant (or one bot), read what is new or changed, and write it down.

    One file that cannot be read fails alone; one root that cannot be listed keeps its sources and does not
    stop the others. A killed scan resumes: each batch of files is one transaction with what is known of them.

    Raises:
        UnknownTenant, UnknownBot: nothing was scanned.
    """
    report = SyncReport()
    with database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        roots = list_roots(connection, tenant, bot)
    covered: dict[UUID, set[str]] = {root.space_id: set() for root in roots}
    for root in roots:
        report.roots += 1
        error = _sync_root(database, root, report, covered[root.space_id])
        with database.work(tenant) as connection:
            record_scan(connection, root, error)
    return report


def _sync_root(database: Database, root: Root, report: SyncReport, covered: set[str]) -> str | None:
    with database.work(root.tenant) as connection:
        known = store.file_states(connection, root)
        media = store.embeds_media(connection, root.space_id)
    try:
        listing = scan_root(root.uri, known)
    except RootUnreadable as error:
        report.unreadable_roots.append(Failure(root.bot, root.uri, str(error)))
        return str(error)
    changes = decide(listing, known, covered)
    covered.update(file.uri for file in listing.files)
    report.files += len(changes.to_read) + len(changes.kept)
    report.failures += [Failure(root.bot, error.path, error.message) for error in listing.errors]
    with stage(f"read {root.bot}", len(changes.to_read)) as bar:
        reader = _Reader(database, root, report, media)
        for file in changes.to_read:
            reader.read(file, known.get(file.uri))
            bar.advance(1)
        reader.flush()
    _count_kept(database, root, changes.kept, report)
    _delete_gone(database, root, changes.gone, report)
    return "; ".join(error.message for error in listing.errors) or None


def _count_kept(database: Database, root: Root, uris: Iterable[str], report: SyncReport) -> None:
    with database.work(root.tenant) as connection:
        states = store.sources_of_files(connection, root, [hash_uri(uri) for uri in uris])
    statuses = Counter(state.status for state in states)
    report.failed += statuses["failed"]
    report.no_text += statuses["no_text"]
    report.unchanged += sum(statuses.values()) - statuses["failed"] - statuses["no_text"]


def _delete_gone(database: Database, root: Root, uris: Sequence[str], report: SyncReport) -> None:
    if not uris:
        return
    with database.work(root.tenant) as connection:
        states = store.sources_of_files(connection, root, [hash_uri(uri) for uri in uris])
        report.deleted += store.delete_sources(connection, root, [state.id for state in states])
        store.forget_files(connection, root, uris)


@dataclass(frozen=True)
class FileRead:
    """A file as it is now, of `size` bytes. Without a state it could not be read, for the reason in `error`, and is
    tried again at the next scan. One `is_touched` has the bytes of the time before, and its records are not made."""

    file: SourceFile
    size: int
    state: FileState | None
    records: tuple[Record, ...] = ()
    error: str | None = None
    is_touched: bool = False


def read_file(file: SourceFile, known: FileState | None) -> FileRead:
    """Read and parse one file; one that cannot be read is a failed record."""
    try:
        content = read_content(file)
    except (OSError, SourceError) as error:
        failed = Record("", file.path_in_root, "failed", error=f"cannot be read: {error}")
        return FileRead(file, 0, None, (failed,), str(error))
    size, state = len(content.data), _state(file, content)
    if known is not None and (known.checksum, known.parser_version) == (state.checksum, PARSER_VERSION):
        return FileRead(file, size, state, is_touched=True)
    return FileRead(file, size, state, tuple(parse_file(content.data, file.path_in_root, content.content_type)))


def is_batch(read: Sequence[FileRead]) -> bool:
    """Whether so many files of a root are enough to be written together."""
    return len(read) >= BATCH_FILES or sum(len(one.records) for one in read) >= BATCH_RECORDS


def staged_sources(space_id: UUID, read: FileRead, embeds_media: bool) -> list[StagedSource]:
    """The sources of a file as they are to be written; `embeds_media`: some profile embeds files as such."""
    return [_stage(space_id, read.file, record, read.state, embeds_media) for record in read.records]


def is_same(source: StagedSource, before: SourceState) -> bool:
    """Whether a source can be read, and its version is the one that is stored."""
    return (
        before.checksum == source.checksum
        and source.status == "processing"
        and before.status in ("queued", "processing", "ready")
    )


def vanished(staged: Sequence[StagedSource], old: Iterable[UUID]) -> list[UUID]:
    """Sources of the file that are in it no more. Where a part of the file could not be read, none is taken
    for gone: it may be the part that holds it."""
    if any(source.status == "failed" for source in staged):
        return []
    there = {source.id for source in staged}
    return [known for known in old if known not in there]


class _Reader:
    """Reads files, and writes their sources in batches of whole files. `media`: files are embedded as such."""

    def __init__(self, database: Database, root: Root, report: SyncReport, media: bool) -> None:
        self._database, self._root, self._report, self._media = database, root, report, media
        self._batch: list[FileRead] = []

    def read(self, file: SourceFile, known: FileState | None) -> None:
        """Read one file, and write what has been read if that is enough for a batch."""
        read = read_file(file, known)
        self._report.bytes_read += read.size
        self._batch.append(read)
        if is_batch(self._batch):
            self.flush()

    def flush(self) -> None:
        """Write what has been read so far, in one transaction."""
        if not self._batch:
            return
        changed = [read for read in self._batch if not read.is_touched]
        touched = [read.file.uri for read in self._batch if read.is_touched]
        with self._database.work(self._root.tenant) as connection:
            hashes = [hash_uri(read.file.uri) for read in changed]
            known = store.sources_of_files(connection, self._root, hashes)
            staged: list[StagedSource] = []
            gone: list[UUID] = []
            for read, file_hash in zip(changed, hashes, strict=True):
                old = {source.id: source for source in known if source.file_hash == file_hash}
                found = staged_sources(self._root.space_id, read, self._media)
                staged += self._changed(found, old)
                gone += vanished(found, old)
            store.write_sources(connection, self._root, staged)
            self._report.deleted += store.delete_sources(connection, self._root, gone)
            for read in self._batch:
                if read.state is not None:
                    store.remember_file(connection, self._root, read.file.uri, read.state)
        self._batch = []
        _count_kept(self._database, self._root, touched, self._report)

    def _changed(self, found: Iterable[StagedSource], old: Mapping[UUID, SourceState]) -> list[StagedSource]:
        staged = []
        for source in found:
            before = old.get(source.id)
            if before is not None and is_same(source, before):
                self._report.unchanged += 1
                if before.media != source.media:
                    staged.append(source)  # the same text in another file
                continue
            self._count(source)
            staged.append(source)
        return staged

    def _count(self, source: StagedSource) -> None:
        if source.status == "failed":
            self._report.failed += 1
            self._report.failures.append(Failure(self._root.bot, source.name, source.error or "unknown error"))
        elif source.status == "no_text":
            self._report.no_text += 1
        else:
            self._report.changed += 1


def _state(file: SourceFile, content: Content) -> FileState:
    checksum = bytes_checksum(content.data)
    return FileState(file.size, file.mtime_ns, checksum, PARSER_VERSION, content.etag, content.last_modified)


def _external_id(file: SourceFile, record: Record) -> str:
    return f"{file.uri}#{record.key}" if record.key else file.uri


def stored_media(record: Record, checksum: str) -> StoredMedia | None:
    """The file that a record came from, with the checksum of its bytes, as a model may embed it; None for one inside
    another file, and for a PDF of many pages."""
    media = record.media
    if media is None or record.key or not 1 <= media.pages <= MEDIA_PAGES:
        return None
    return StoredMedia(media.content_type, media.pages, checksum)


def _checksum(record: Record, state: FileState | None, media: StoredMedia | None) -> str:
    """Of the text, or else of the file; and of both where `media` is embedded beside the text."""
    if record.document is None:
        return state.checksum if state else "unread"
    checksum = document_checksum(record.document)
    return bytes_checksum(f"{checksum}|{media.checksum}".encode()) if media else checksum


def _stage(
    space_id: UUID, file: SourceFile, record: Record, state: FileState | None, embeds_media: bool
) -> StagedSource:
    external_id = _external_id(file, record)
    document = record.document
    media = stored_media(record, state.checksum) if state else None
    metadata = dict(document.metadata) if document else {}
    # What relevance labels call a document: the record's own id, or the file's place under its root.
    metadata.setdefault("doc_id", file.path_in_root)
    return StagedSource(
        id=source_id(space_id, external_id),
        file_hash=hash_uri(file.uri),
        source_type=record.source_type,
        external_id=external_id,
        name=record.name if document or not record.key else f"{file.path_in_root} {record.key}",
        checksum=_checksum(record, state, media if embeds_media else None),
        status="processing" if record.status == "ready" else record.status,
        error=record.error,
        document=document if record.status == "ready" else None,
        metadata=metadata,
        media=media,
        signature=signature_of(document) if document and record.status == "ready" else None,
    )
