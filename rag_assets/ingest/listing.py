"""What lies under any root: in files and at addresses, and pushed into the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from rag_assets.errors import ParseError
from rag_assets.sources.listing import Given, KnownFile, RootListing, SourceFile
from rag_assets.sources.pushed import is_pushed, parts_of, pushed_uri
from rag_assets.sources.scan import scan_root
from rag_assets.store.database import Database
from rag_assets.store.pushed import PushedFile, content_by_key, pushed_content, pushed_files
from rag_assets.store.roots import Root

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def list_root(database: Database, root: Root, known: Mapping[str, KnownFile]) -> RootListing:
    """List the sources under a root, as `scan_root`.

    Raises:
        RootUnreadable: as `scan_root`.
    """
    if not is_pushed(root.uri):
        return scan_root(root.uri, known, root.options)
    with database.work(root.tenant) as connection:
        found = pushed_files(connection, root)
    files = (_file(database, root, one) for one in found)
    return RootListing(tuple(sorted(files, key=lambda file: file.uri)))


def read_pushed(database: Database, tenant: str, bot: str, uri: str) -> bytes:
    """The bytes of a pushed document, by its address.

    Raises:
        ParseError: they are not kept any more.
    """
    user, key = parts_of(uri)
    with database.work(tenant) as connection:
        content = content_by_key(connection, tenant, bot, user, key)
    return _kept(content, key)


def _file(database: Database, root: Root, pushed: PushedFile) -> SourceFile:
    given = Given(
        read=partial(_content, database, root.tenant, pushed),
        id=pushed.id,
        at=pushed.pushed_at,
        content_type=pushed.content_type,
        metadata={**pushed.metadata, "doc_id": pushed.key},
    )
    return SourceFile(
        pushed_uri(root.options.user, pushed.key),
        pushed.name,
        pushed.bytes,
        (pushed.pushed_at - _EPOCH) // _MICROSECOND * 1000,
        options=root.options,
        given=given,
    )


def _content(database: Database, tenant: str, pushed: PushedFile) -> bytes:
    with database.work(tenant) as connection:
        content = pushed_content(connection, pushed.id)
    return _kept(content, pushed.key)


def _kept(content: bytes | None, key: str) -> bytes:
    if content is None:
        raise ParseError(f"pushed document {key!r} is not kept any more; push it again")
    return content
