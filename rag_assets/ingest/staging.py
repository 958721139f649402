"""A file becomes sources: what is read of it, what each of its records is called, and when it counts as changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from rag_assets.documents.building import failed
from rag_assets.documents.checksum import bytes_checksum, document_checksum
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Record
from rag_assets.documents.names import NOINDEX_META, ORIGIN, is_web, part_name, spoken_key
from rag_assets.documents.page_signature import signature_of
from rag_assets.documents.reasons import readable
from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.embedding.models import MEDIA_PAGES
from rag_assets.errors import SourceError
from rag_assets.sources.listing import NOINDEX, NOINDEX_READ, NOINDEX_TOLD
from rag_assets.sources.scan import Content, SourceFile, read_content
from rag_assets.store.sources import FileState, SourceState, StagedSource, StoredMedia, hash_uri, source_id

BATCH_RECORDS = 2000
BATCH_FILES = 200
BATCH_CHARACTERS = 8_000_000  # what is held at once stays the same whatever files are like


@dataclass(frozen=True)
class FileRead:
    """A file as it is now, of `size` bytes. Without a state it could not be read, for the reason in `error`, and is
    tried again at the next scan. One `is_touched` has the bytes of the time before, and its records are not made. One
    that is `left_out`, for that reason, has none: what was known of it goes."""

    file: SourceFile
    size: int
    state: FileState | None
    records: tuple[Record, ...] = ()
    error: str | None = None
    is_touched: bool = False
    left_out: str | None = None

    @cached_property
    def characters(self) -> int:
        """Of the texts of its records."""
        return sum(len(record.document.text) for record in self.records if record.document is not None)


def read_file(file: SourceFile, known: FileState | None) -> FileRead:
    """Read and parse one file; one that cannot be read is a failed record."""
    try:
        content = read_content(file)
    except (OSError, SourceError) as error:
        reason = readable(str(error))
        return FileRead(file, 0, None, (failed("", file.path_in_root, f"cannot be read: {reason}"),), reason)
    size, state = len(content.data), _state(file, content)
    if content.noindex and not file.options.noindex:
        return _not_indexed(file, size, state, NOINDEX_TOLD)
    same = known is not None and (known.checksum, known.parser_version) == (state.checksum, PARSER_VERSION)
    if same and file.given is None:  # else the same bytes may have come with another description
        return FileRead(file, size, state, is_touched=True)
    records = tuple(parse_file(content.data, file.path_in_root, content.content_type, encoding=file.options.encoding))
    if is_web(file.uri) and not file.options.noindex and any(_asks_for_noindex(record) for record in records):
        return _not_indexed(file, size, state, NOINDEX_READ)
    return FileRead(file, size, state, records)


def _not_indexed(file: SourceFile, size: int, state: FileState, mark: str) -> FileRead:
    return FileRead(file, size, replace(state, checksum=mark + state.checksum), left_out=NOINDEX)


def _asks_for_noindex(record: Record) -> bool:
    return record.document is not None and record.document.metadata.get(NOINDEX_META) is True


def is_batch(read: Sequence[FileRead]) -> bool:
    """Whether so many files of a root are enough to be written together."""
    return (
        len(read) >= BATCH_FILES
        or sum(len(one.records) for one in read) >= BATCH_RECORDS
        or sum(one.characters for one in read) >= BATCH_CHARACTERS
    )


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


def stays_forgotten(source: StagedSource, before: SourceState) -> bool:
    """Whether a source was forgotten, and is not known to be another one since: its file or its text is the same, or it
    cannot be read now."""
    if before.status != "forgotten":
        return False
    same_file = before.forgotten_file is not None and before.forgotten_file == source.file_checksum
    same_text = before.forgotten_text is not None and before.forgotten_text == source.text_mark
    return source.status == "failed" or same_file or same_text


def _state(file: SourceFile, content: Content) -> FileState:
    checksum = bytes_checksum(content.data)
    return FileState(
        file.size,
        file.mtime_ns,
        checksum,
        PARSER_VERSION,
        content.etag,
        content.last_modified,
        ctime_ns=file.ctime_ns,
        inode=file.inode,
    )


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
        return record.checksum or (state.checksum if state else "unread")
    checksum = document_checksum(record.document)
    return bytes_checksum(f"{checksum}|{media.checksum}".encode()) if media else checksum


def _stage(
    space_id: UUID, file: SourceFile, record: Record, state: FileState | None, embeds_media: bool
) -> StagedSource:
    external_id = part_name(file.uri, record.key)
    document = record.document
    media = stored_media(record, state.checksum) if state else None
    return StagedSource(
        id=source_id(space_id, external_id),
        file_hash=hash_uri(file.uri),
        source_type=record.source_type,
        external_id=external_id,
        name=_name(file, record),
        checksum=_checksum(record, state, media if embeds_media else None),
        status="processing" if record.status == "ready" else record.status,
        error=record.error,
        document=document if record.status == "ready" else None,
        metadata=_metadata(file, record),
        media=media,
        signature=signature_of(document) if document and record.status == "ready" else None,
        part=part_name(file.uri, record.part),
        hides_others=record.hides_others,
        file_checksum=state.checksum if state else "",
    )


def _name(file: SourceFile, record: Record) -> str:
    """What people know it by: a file and a file in a file by where it is, a record by its own name, if it has one."""
    if record.key == record.part:
        return part_name(file.path_in_root, record.key) if record.key else record.name
    if record.document:
        return record.name
    own = spoken_key(record.key.removeprefix(f"{record.part}#"), record.place)
    return f"{part_name(file.path_in_root, record.part)} {own}"


def _metadata(file: SourceFile, record: Record) -> dict[str, Any]:
    metadata = dict(record.document.metadata) if record.document else {}
    if file.given is not None:
        metadata |= file.given.metadata
        if record.key:
            metadata.pop("doc_id")  # which is the whole file's
    # What relevance labels call a document: the record's own id, or its place under the root.
    metadata.setdefault("doc_id", part_name(file.path_in_root, record.key))
    if record.key:
        place = ", ".join(part for part in (record.part, record.place) if part) or record.key
        metadata[ORIGIN] = {"file": file.path_in_root, "place": place}
    return metadata
