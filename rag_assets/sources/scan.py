"""What lies under a source root (a folder, a bucket, a web page or a sitemap), and the bytes of each file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rag_assets.documents.names import is_web
from rag_assets.errors import ParseError, RootUnreadable, SourceError
from rag_assets.sources.addresses import is_local, root_problem
from rag_assets.sources.beneath import read_place
from rag_assets.sources.listing import KnownFile, RootListing, ScanError, SourceFile
from rag_assets.sources.local import locate, scan_local
from rag_assets.sources.options import DEFAULT_OPTIONS, RootOptions
from rag_assets.sources.remote import open_remote, said, scan_remote
from rag_assets.sources.web.fetch import fetch
from rag_assets.sources.web.pages import refuse_type, scan_web

__all__ = ["Content", "RootListing", "ScanError", "SourceFile", "read_content", "read_file", "scan_root"]

MAX_FILE_BYTES = 200 * 1024 * 1024


@dataclass(frozen=True)
class Content:
    """The bytes of a source, and what a web server said of them: the headers Content-Type, ETag, Last-Modified, and
    whether it asks robots not to index them."""

    data: bytes
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    noindex: bool = False


def scan_root(
    root: str, known: Mapping[str, KnownFile] = MappingProxyType({}), options: RootOptions = DEFAULT_OPTIONS
) -> RootListing:
    """List the sources under a root, sorted by URI.

    `root` is an absolute path or `file://` URI of a folder or file, the address of an object store (`s3://`, `gs://`,
    `az://`), or an http(s) address: one page, or the pages of a `sitemap.xml`. `known` says by URI what was
    read before, so that web pages are asked for under the condition that they have changed.

    Raises:
        RootUnreadable: the root is missing, cannot be listed, or is of no kind that is read. Never an empty listing
            instead.
    """
    if is_local(root):
        return scan_local(root, options)
    problem = root_problem(root)
    if problem:
        raise RootUnreadable(problem)
    return scan_web(root, known, options) if is_web(root) else scan_remote(root, options)


def read_file(file: SourceFile) -> bytes:
    """Return the bytes of a file.

    Raises:
        ParseError: the file is gone, may not be read, or is larger than 200 MB.
        RootUnreadable: a web page that could not be fetched.
        UnsupportedFormat: a web page of a type that no parser takes; it is not downloaded.
    """
    return read_content(file).data


def read_content(file: SourceFile) -> Content:
    """Return the bytes of a file with the content type that its server declares; raises like `read_file`."""
    if file.given is not None:
        return Content(file.given.read(), file.given.content_type)
    if is_web(file.uri):
        page = fetch(file.uri, lambda content_type: refuse_type(file.uri, content_type))
        told = page.validators
        return Content(page.content, page.content_type, told.etag, told.last_modified, page.noindex)
    if file.size > MAX_FILE_BYTES:
        raise ParseError(_too_large(file))
    # Object stores raise errors of their own kinds; to the caller each is one unreadable file.
    try:
        data = _read(file, MAX_FILE_BYTES + 1)
    except SourceError:
        raise
    except Exception as error:
        raise ParseError(f"{file.uri} could not be read: {said(error)}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ParseError(_too_large(file))
    return Content(data)


def _read(file: SourceFile, limit: int) -> bytes:
    if not file.uri.startswith("file:"):
        return open_remote(file.uri, limit)
    place = file.place or locate(file.uri, file.uri).place
    assert place is not None  # `locate` gives one
    return read_place(place, limit)


def _too_large(file: SourceFile) -> str:
    return f"{file.uri} is larger than {MAX_FILE_BYTES // 2**20} MB"
