"""The source roots that each bot remembers: what they were told, what was found there, and how they go and move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row, kwargs_row
from psycopg.types.json import Jsonb
from pydantic import BaseModel, ConfigDict

from rag_assets.sources.options import DEFAULT_OPTIONS, RootOptions
from rag_assets.sources.secrets import shown
from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import query, rows, scalar, scalars
from rag_assets.store.tenants import spaces_of


class Skipped(BaseModel):
    """Files of a root that are not read for one reason: how many, and the first of them."""

    model_config = ConfigDict(frozen=True)

    count: int
    examples: tuple[str, ...] = ()


class Loss(BaseModel):
    """Sources that a scan found gone and took away."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    sources: int


class Held(BaseModel):
    """Sources of a root that are gone and kept, of how many, and since when."""

    model_config = ConfigDict(frozen=True)

    sources: int
    of: int
    since: datetime


class RootScan(BaseModel):
    """What the last scan that could list the root found.

    Attributes:
        files: files that a parser takes, of `bytes` together, where their size is known.
        sources: sources of the root after the scan, failed ones and those held back among them.
        skipped: by reason, files that are not read.
        losses: what the scans of the last day have taken away.
        held: what is held back.
    """

    model_config = ConfigDict(frozen=True)

    files: int = 0
    bytes: int = 0
    sources: int = 0
    skipped: dict[str, Skipped] = {}
    losses: tuple[Loss, ...] = ()
    held: Held | None = None


@dataclass(frozen=True)
class Root:
    """A folder, file or URL that a bot's sources come from; `scan` is of the last time that it could be listed, and
    `last_error` of the last time that it was looked at."""

    id: UUID
    space_id: UUID
    tenant: str
    bot: str
    uri: str
    options: RootOptions = DEFAULT_OPTIONS
    scan: RootScan | None = None
    scanned_at: datetime | None = None
    next_scan_at: datetime | None = None
    last_error: str | None = None

    @property
    def shown(self) -> str:
        """The uri without secrets."""
        return shown(self.uri)


def _root(options: dict[str, Any], scan: dict[str, Any] | None, **columns: Any) -> Root:
    return Root(
        **columns,
        options=RootOptions.model_validate(options),
        scan=None if scan is None else RootScan.model_validate(scan),
    )


def add_root(database: Database, tenant: str, bot: str, uri: str, options: Mapping[str, Any] | None = None) -> None:
    """Remember a source root of the bot; of one that is known already, only the `options` given are changed.

    Raises:
        pydantic.ValidationError: an option of another kind; nothing was written.
    """
    with database.work(tenant) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        connection.execute(query("add_root"), {"space": space.id, "tenant": tenant, "bot": bot, "uri": uri})
        if options:
            root = next(root for root in list_roots(connection, tenant, bot) if root.uri == uri)
            set_options(connection, root, options)


def set_options(connection: Connection, root: Root, changes: Mapping[str, Any]) -> RootOptions:
    """Change options of a root by their names; returns all of them.

    Where they change how files are read, the next scan reads all of them as if it knew none.

    Raises:
        pydantic.ValidationError: an option of another kind; nothing was written.
    """
    options = RootOptions.model_validate({**root.options.model_dump(), **changes})
    stored = options.model_dump(mode="json", exclude_defaults=True)
    connection.execute(query("set_root_options"), {"root": root.id, "options": Jsonb(stored)})
    if not options.reads_like(root.options):
        connection.execute(query("read_anew"), {"root": root.id})
    return options


def list_roots(connection: Connection, tenant: str, bot: str | None = None) -> list[Root]:
    """The remembered roots of a tenant or bot, oldest first."""
    return rows(connection, kwargs_row(_root), query("list_roots"), {"tenant": tenant, "bot": bot})


def record_scan(
    connection: Connection, root: Root, error: str | None, scan: RootScan | None = None, next_in_s: int | None = None
) -> None:
    """Note that the root was looked at just now: why it, or a part of it, could not be read, what was found, and in
    how many seconds it is to be looked at again. Without a `scan` the one before stays."""
    values = {
        "root": root.id,
        "error": error,
        "scan": None if scan is None else Jsonb(scan.model_dump(mode="json")),
        "next_in_s": next_in_s,
    }
    connection.execute(query("root_scanned"), values)


def update_scan(connection: Connection, root: Root, scan: RootScan) -> None:
    """Note what is known otherwise now of what the last scan found."""
    connection.execute(query("update_root_scan"), {"root": root.id, "scan": Jsonb(scan.model_dump(mode="json"))})


def roots_of_sources(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """Source -> address of its root, for those whose root is remembered."""
    return dict(connection.execute(query("roots_of_sources"), {"sources": list(ids)}).fetchall())


def count_sources(connection: Connection, root: Root) -> int:
    """How many sources the root has, without deleted ones."""
    return int(scalar(connection, query("count_root_sources"), {"root": root.id}))


def count_held(connection: Connection, root: Root) -> tuple[int, datetime | None]:
    """How many sources of the root are held back, and since when the first of them."""
    held = connection.cursor(row_factory=dict_row).execute(query("count_root_held"), {"root": root.id}).fetchone()
    assert held is not None  # an aggregate
    return held["sources"], held["since"]


def hold_files(connection: Connection, root: Root, files: Sequence[bytes]) -> None:
    """Note that these files of the root, and no others, are gone and kept all the same."""
    values = {"root": root.id, "files": list(files)}
    connection.execute(query("release_files"), values)
    connection.execute(query("hold_files"), values)


def hold_sources(connection: Connection, ids: Sequence[UUID]) -> None:
    """Note that these are gone from their files, and are kept all the same."""
    if ids:
        connection.execute(query("hold_sources"), {"sources": list(ids)})


def held_files(connection: Connection, root: Root) -> list[bytes]:
    """The hashes of the uris of the files of the root that are held back."""
    return scalars(connection, query("held_files"), {"root": root.id})


def held_records(connection: Connection, root: Root) -> list[UUID]:
    """Sources of the root that are held back though their files are there."""
    return scalars(connection, query("held_records"), {"root": root.id})


def read_held_anew(connection: Connection, root: Root) -> None:
    """Have the next scan read the files again of which sources are held back though they are there."""
    connection.execute(query("read_held_anew"), {"root": root.id})


def drop_files(connection: Connection, root: Root, files: Sequence[bytes]) -> None:
    """Forget files that are gone, by the hashes of their uris: they count as new if they come back."""
    connection.execute(query("forget_files"), {"root": root.id, "files": list(files)})


def share_files(connection: Connection, root: Root, files: Sequence[bytes]) -> None:
    """Note that the root has these files too, in the state in which another root of its space has read them."""
    connection.execute(query("share_files"), {"root": root.id, "space": root.space_id, "files": list(files)})


def files_elsewhere(connection: Connection, root: Root, files: Sequence[bytes]) -> set[bytes]:
    """Those of these files of the root that another root of its space has too."""
    values = {"root": root.id, "space": root.space_id, "files": list(files)}
    return set(scalars(connection, query("files_of_other_roots"), values))


def leave_files(connection: Connection, root: Root, files: Sequence[bytes]) -> set[bytes]:
    """Leave files to other roots of the space that have them too, and their sources with them; returns which."""
    left = files_elsewhere(connection, root, files)
    if left:
        values = {"root": root.id, "space": root.space_id, "files": list(left)}
        connection.execute(query("leave_sources"), values)
        connection.execute(query("forget_files"), values)
    return left


def adopt_files(connection: Connection, root: Root, by: Root, prefix: str) -> None:
    """Give what is known of files of the root that are `prefix`, or lie below it, to another root of the space."""
    connection.execute(query("adopt_files"), {"root": root.id, "by": by.id, "uri": prefix, "prefix": f"{prefix}/"})


def drop_root(connection: Connection, root: Root) -> int:
    """Forget the root, with its files, and mark its sources as deleted; returns how many that were."""
    deleted = connection.execute(query("delete_root_sources"), {"root": root.id}).rowcount
    connection.execute(query("drop_root"), {"root": root.id})
    return deleted


def move_files(connection: Connection, root: Root, places: Sequence[tuple[str, str]]) -> int:
    """Say of files of the root, by their uris, where they are now. Their sources keep their ids; what lay at the new
    places is marked as deleted, and how many sources that were is returned."""
    old, new = [before for before, _ in places], [after for _, after in places]
    connection.execute(query("moved_files_table"))
    connection.execute(query("fill_moved_files"), {"old": old, "new": new})
    connection.execute("ANALYZE pg_temp.moved_files")
    values = {"root": root.id, "space": root.space_id}
    replaced = connection.execute(query("delete_replaced_sources"), values).rowcount
    connection.execute(query("take_moved_files"), values)
    connection.execute(query("drop_moved_files"), values)
    connection.execute(query("put_moved_files"), values)
    connection.execute(query("move_sources"), values)
    return replaced


def merge_root(connection: Connection, root: Root, into: Root) -> None:
    """Give all that a root has to another one of its space, and forget it."""
    connection.execute(query("merge_root_files"), {"root": root.id, "into": into.id})
    connection.execute(query("merge_root_sources"), {"root": root.id, "into": into.id})
    connection.execute(query("drop_root"), {"root": root.id})


def rename_root(connection: Connection, root: Root, uri: str) -> None:
    """Remember the root under another uri."""
    connection.execute(query("rename_root"), {"root": root.id, "uri": uri})
