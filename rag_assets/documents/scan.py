"""What lies under a source root (a folder, a bucket, or one web page), and the bytes of each file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from rag_assets.documents.fetch import fetch, probe
from rag_assets.documents.listing import RootListing, ScanError, SourceFile
from rag_assets.documents.local_files import scan_local, to_path
from rag_assets.documents.names import is_web
from rag_assets.documents.remote_files import open_remote, scan_remote
from rag_assets.errors import ParseError, SourceError

__all__ = ["Content", "RootListing", "ScanError", "SourceFile", "read_content", "read_file", "scan_root"]

MAX_FILE_BYTES = 200 * 1024 * 1024


@dataclass(frozen=True)
class Content:
    """The bytes of a source, and the Content-Type header that came with them, if any."""

    data: bytes
    content_type: str | None = None


def scan_root(root: str) -> RootListing:
    """List the sources under a root, sorted by URI.

    `root` is an absolute path or `file://` URI of a folder or file, an fsspec URI (`s3://`, `gs://`,
    `memory://`), or an http(s) address, which is one page.

    Raises:
        RootUnreadable: the root is missing or cannot be listed. Never an empty listing instead.
    """
    if is_web(root):
        return _scan_page(root)
    if "://" not in root or root.lower().startswith("file:"):
        return scan_local(root)
    return scan_remote(root)


def read_file(file: SourceFile) -> bytes:
    """Return the bytes of a file.

    Raises:
        ParseError: the file is gone, may not be read, or is larger than 200 MB.
        RootUnreadable: a web page that could not be fetched.
    """
    return read_content(file).data


def read_content(file: SourceFile) -> Content:
    """Return the bytes of a file with the content type that its server declares; raises like `read_file`."""
    if is_web(file.uri):
        page = fetch(file.uri)
        return Content(page.content, page.content_type)
    if file.size > MAX_FILE_BYTES:
        raise ParseError(_too_large(file))
    # Object stores raise errors of their own kinds; to the caller each is one unreadable file.
    try:
        data = _read(file.uri, MAX_FILE_BYTES + 1)
    except SourceError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise ParseError(f"{file.uri} could not be read: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ParseError(_too_large(file))
    return Content(data)


def _read(uri: str, limit: int) -> bytes:
    if not uri.startswith("file:"):
        return open_remote(uri, limit)
    with to_path(uri).open("rb") as file:
        return file.read(limit)


def _too_large(file: SourceFile) -> str:
    return f"{file.uri} is larger than {MAX_FILE_BYTES // 2**20} MB"


def _scan_page(url: str) -> RootListing:
    headers = probe(url)
    try:
        mtime_ns = int(parsedate_to_datetime(headers["last-modified"]).timestamp() * 1e9)
    except (KeyError, ValueError):
        mtime_ns = time.time_ns()
    length = headers.get("content-length", "")
    size = int(length) if length.isdecimal() else -1
    return RootListing(files=(SourceFile(url, url, size, mtime_ns),))
