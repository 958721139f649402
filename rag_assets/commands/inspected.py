"""What `rag inspect` finds out about files: their records, and the chunks of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Chunk, Record
from rag_assets.documents.names import is_web
from rag_assets.errors import RagError, SourceError, UnknownPath, unknown_path
from rag_assets.progress import stage
from rag_assets.sources.listing import SourceFile
from rag_assets.sources.scan import read_content, scan_root


@dataclass(frozen=True)
class Inspected:
    """One record of one file: `path`, and for a record of a collection `path#key`."""

    path: str
    record: Record
    content_type: str | None
    chunks: tuple[Chunk, ...] = ()


def inspect_files(names: Iterable[str], spec: ChunkingSpec, encoding: str | None = None) -> list[Inspected]:
    """Read and cut files, folders and addresses; what cannot be read is among the results, with the reason.

    `encoding` is that of text which does not say its own.
    """
    found: list[Inspected] = []
    listed = list(_listed(names))
    with stage("read", len(listed)) as bar:
        for file in listed:
            found += _inspect(file, spec, encoding) if not isinstance(file, Inspected) else [file]
            bar.advance(1)
    return found


def _listed(names: Iterable[str]) -> Iterator[SourceFile | Inspected]:
    """The files to read; a name that leads to none becomes a failed record."""
    for name in names:
        if is_web(name):
            yield SourceFile(name, name, -1, 0)
            continue
        path = Path(name).expanduser().absolute()
        try:
            if "://" not in name and not path.exists():
                raise unknown_path(name)
            if path.is_file():
                yield SourceFile(path.as_uri(), name, path.stat().st_size, 0)
                continue
            listing = scan_root(str(path) if "://" not in name else name)
        except (SourceError, UnknownPath, OSError) as error:
            yield _unread(name, str(error))
            continue
        yield from listing.files
        yield from (_unread(error.path, error.message) for error in listing.errors)
        yield from (_unread(one.path, one.reason) for one in listing.skipped)


def _unread(name: str, reason: str) -> Inspected:
    return Inspected(name, Record("", name, "failed", error=reason), None)


def _inspect(file: SourceFile, spec: ChunkingSpec, encoding: str | None) -> list[Inspected]:
    name = file.path_in_root
    try:
        content = read_content(file)
    except (RagError, OSError) as error:
        return [_unread(name, str(error))]
    records = parse_file(content.data, name, content.content_type, encoding=encoding)
    return [
        _cut(f"{name}#{record.key}" if record.key else name, record, content.content_type, spec) for record in records
    ]


def _cut(path: str, record: Record, declared: str | None, spec: ChunkingSpec) -> Inspected:
    document = record.document
    if document is None or record.status != "ready":
        return Inspected(path, record, declared)
    return Inspected(path, record, document.content_type, tuple(chunk_document(document, spec)))
