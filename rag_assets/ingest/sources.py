"""Stage 1: what lies under a tenant's roots becomes sources and documents in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rag_assets.documents.checksum import bytes_checksum, document_checksum
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Record
from rag_assets.documents.page_signature import signature_of
from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.embedding.models import MEDIA_PAGES
from rag_assets.errors import RootUnreadable, SourceError
from rag_assets.progress import stage
from rag_assets.sources.scan import Content, RootListing, SourceFile, read_content, scan_root
from rag_assets.store import sources as store
from rag_assets.store.database import Connection, Database, set_scope
from rag_assets.store.sources import FileState, SourceState, StagedSource, StoredMedia, hash_uri, source_id
from rag_assets.store.tenants import Root, list_roots, record_scan, spaces_of

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


@dataclass(frozen=True)
class RootChanges:
    """The decision about a root: which files to read, and which have gone."""

    to_read: tuple[SourceFile, ...]
    kept: tuple[str, ...]  # uris that are as they were
    gone: tuple[str, ...]


def decide(listing: RootListing, known: dict[str, FileState], elsewhere: Container[str] = frozenset()) -> RootChanges:
    """Compare what lies under a root with what was read before.

    A file whose size, time and parser are the same is not read again, nor is one that another root of the
    space has covered in this scan: `elsewhere`. What lies under a folder that could not be listed counts as
    there, because not seeing it is no proof that it has gone.
    """
    to_read: list[SourceFile] = []
    kept: list[SourceFile] = []
    for file in listing.files:
        if file.uri in elsewhere:
            continue
        state = known.get(file.uri)
        same = (
            state is not None
            and (state.size, state.mtime_ns) == (file.size, file.mtime_ns)
            and state.parser_version == PARSER_VERSION
        )
        (kept if same else to_read).append(file)
    listed = {file.uri for file in listing.files}
    hidden = tuple(error.uri for error in listing.errors)
    gone = tuple(uri for uri in known if uri not in listed and not _under(uri, hidden))
    return RootChanges(tuple(to_read), tuple(file.uri for file in kept), gone)


def _under(uri: str, hidden: Sequence[str]) -> bool:
    return any(uri == part or uri.startswith(part.rstrip("/") + "/") for part in hidden)


def sync_sources(database: Database, tenant: str, bot: str | None = None) -> SyncReport:
    """Scan all roots of the tenant (or one bot), read what is new or changed, and write it down.

    One file that cannot be read fails alone; one root that cannot be listed keeps its sources and does not
    stop the others. A killed scan resumes: each batch of files is one transaction with what is known of them.

    Raises:
        UnknownTenant, UnknownBot: nothing was scanned.
    """
    report = SyncReport()
    with database.connect("ingest") as connection:
        with connection.transaction():
            set_scope(connection, {"tenant": tenant})
            spaces_of(connection, tenant, bot)
            roots = list_roots(connection, tenant, bot)
        covered: dict[UUID, set[str]] = {root.space_id: set() for root in roots}
        for root in roots:
            report.roots += 1
            error = _sync_root(connection, root, report, covered[root.space_id])
            with connection.transaction():
                set_scope(connection, {"tenant": tenant})
                record_scan(connection, root, error)
    return report


def _sync_root(connection: Connection, root: Root, report: SyncReport, covered: set[str]) -> str | None:
    with connection.transaction():
        set_scope(connection, {"tenant": root.tenant})
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
        reader = _Reader(connection, root, report, media)
        for file in changes.to_read:
            reader.read(file, known.get(file.uri))
            bar.advance(1)
        reader.flush()
    _count_kept(connection, root, changes.kept, report)
    _delete_gone(connection, root, changes.gone, report)
    return "; ".join(error.message for error in listing.errors) or None


def _count_kept(connection: Connection, root: Root, uris: Iterable[str], report: SyncReport) -> None:
    with connection.transaction():
        set_scope(connection, {"tenant": root.tenant})
        states = store.sources_of_files(connection, root, [hash_uri(uri) for uri in uris])
    statuses = Counter(state.status for state in states)
    report.failed += statuses["failed"]
    report.no_text += statuses["no_text"]
    report.unchanged += sum(statuses.values()) - statuses["failed"] - statuses["no_text"]


def _delete_gone(connection: Connection, root: Root, uris: Sequence[str], report: SyncReport) -> None:
    if not uris:
        return
    with connection.transaction():
        set_scope(connection, {"tenant": root.tenant})
        states = store.sources_of_files(connection, root, [hash_uri(uri) for uri in uris])
        report.deleted += store.delete_sources(connection, root, [state.id for state in states])
        store.forget_files(connection, root, uris)


class _Reader:
    """Reads files, and writes their sources in batches of whole files. `media`: files are embedded as such."""

    def __init__(self, connection: Connection, root: Root, report: SyncReport, media: bool) -> None:
        self._connection, self._root, self._report, self._media = connection, root, report, media
        self._read: list[tuple[SourceFile, FileState | None, list[Record]]] = []
        self._touched: list[tuple[SourceFile, FileState]] = []

    def read(self, file: SourceFile, known: FileState | None) -> None:
        """Read and parse one file; one that cannot be read becomes a failed record."""
        try:
            content = read_content(file)
        except (OSError, SourceError) as error:
            failed = Record("", file.path_in_root, "failed", error=f"cannot be read: {error}")
            # Without a remembered state the file is tried again at the next scan.
            self._read.append((file, None, [failed]))
            return
        self._report.bytes_read += len(content.data)
        state = _state(file, content)
        if known is not None and (known.checksum, known.parser_version) == (state.checksum, PARSER_VERSION):
            self._touched.append((file, state))
        else:
            self._read.append((file, state, _parse(content, file)))
        if sum(len(records) for _, _, records in self._read) >= BATCH_RECORDS or len(self._read) >= BATCH_FILES:
            self.flush()

    def flush(self) -> None:
        """Write what has been read so far, in one transaction."""
        if not self._read and not self._touched:
            return
        with self._connection.transaction():
            set_scope(self._connection, {"tenant": self._root.tenant})
            known = store.sources_of_files(
                self._connection, self._root, [hash_uri(file.uri) for file, _, _ in self._read]
            )
            staged: list[StagedSource] = []
            gone: list[UUID] = []
            for file, state, records in self._read:
                file_hash = hash_uri(file.uri)
                old = {source.id: source for source in known if source.file_hash == file_hash}
                staged += self._changed(file, records, old, state)
                gone += _vanished(records, old, self._root, file)
                if state is not None:
                    store.remember_file(self._connection, self._root, file.uri, state)
            store.write_sources(self._connection, self._root, staged)
            self._report.deleted += store.delete_sources(self._connection, self._root, gone)
            for file, state in self._touched:
                store.remember_file(self._connection, self._root, file.uri, state)
        touched = [file.uri for file, _ in self._touched]
        self._read, self._touched = [], []
        _count_kept(self._connection, self._root, touched, self._report)

    def _changed(
        self, file: SourceFile, records: list[Record], old: dict[UUID, SourceState], state: FileState | None
    ) -> list[StagedSource]:
        staged = []
        for record in records:
            source = _stage(self._root, file, record, state, self._media)
            before = old.get(source.id)
            if (
                before is not None
                and before.checksum == source.checksum
                and source.status == "processing"
                and before.status in ("queued", "processing", "ready")
            ):
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


def _parse(content: Content, file: SourceFile) -> list[Record]:
    return parse_file(content.data, file.path_in_root, content.content_type)


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


def _stage(root: Root, file: SourceFile, record: Record, state: FileState | None, embeds_media: bool) -> StagedSource:
    external_id = _external_id(file, record)
    document = record.document
    media = stored_media(record, state.checksum) if state else None
    metadata = dict(document.metadata) if document else {}
    # What relevance labels call a document: the record's own id, or the file's place under its root.
    metadata.setdefault("doc_id", file.path_in_root)
    return StagedSource(
        id=source_id(root.space_id, external_id),
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


def _vanished(records: list[Record], old: dict[UUID, SourceState], root: Root, file: SourceFile) -> list[UUID]:
    """Sources of the file that are in it no more. Where a part of the file could not be read, none is taken
    for gone: it may be the part that holds it."""
    if any(record.status == "failed" for record in records):
        return []
    there = {source_id(root.space_id, _external_id(file, record)) for record in records}
    return [known for known in old if known not in there]
