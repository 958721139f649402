"""Keys that scopes are signed with, as the operator adds and retires them, and whether scopes have to be signed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from rag_assets.errors import UsageError, unknown
from rag_assets.signing import ScopeKey
from rag_assets.store.actor import current_actor
from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import first_row, query, rows


@dataclass(frozen=True)
class KnownKey:
    """A key that the database verifies signatures with, until it is retired."""

    id: str
    created_at: datetime
    created_by: str
    retired_at: datetime | None


@dataclass(frozen=True)
class Signing:
    """Since when scopes have to be signed (None: they do not), who said so, and all keys, the newest first."""

    since: datetime | None
    turned_on_by: str | None
    keys: Sequence[KnownKey]

    @property
    def in_use(self) -> list[str]:
        """The ids of the keys that are not retired."""
        return [key.id for key in self.keys if key.retired_at is None]


@dataclass(frozen=True)
class _Requirement:
    since: datetime
    turned_on_by: str


def scope_signing(database: Database) -> Signing:
    """What holds now.

    Raises:
        DatabaseUnavailable, DatabaseRefused: as `Database.session`.
    """
    with database.session("owner") as connection:
        return _signing(connection)


def add_scope_key(database: Database, key: ScopeKey) -> bool:
    """Let the database verify with a key from now on. Whether it is new.

    Raises:
        UsageError: another key has this id, or the key was retired.
    """
    inner, outer = key.blocks
    values = {"id": key.id, "inner_block": inner, "outer_block": outer, "actor": current_actor()}
    with _changing(database) as connection:
        if connection.execute(query("add_scope_key"), values).rowcount:
            return True
        same = connection.execute(query("is_scope_key"), values).fetchone()
        if same is None:
            raise UsageError(f"another key has the id {key.id!r}: give this one an id of its own, as ID:KEY")
        if key.id not in _signing(connection).in_use:
            raise UsageError(f"the key {key.id!r} was retired, and stays so: add a new one (rag scope-key add --new)")
        return False


def retire_scope_key(database: Database, key_id: str, *, force: bool = False) -> bool:
    """Refuse what is signed with a key from now on. Whether it was in use.

    Raises:
        UsageError: there is no such key; or it is the last in use while scopes have to be signed, so that every search
            would be refused, and not `force`.
    """
    with _changing(database) as connection:
        before = _signing(connection)
        if key_id not in {key.id for key in before.keys}:
            raise UsageError(str(unknown("key", key_id, [key.id for key in before.keys])))
        if before.since is not None and before.in_use == [key_id] and not force:
            raise UsageError(
                f"{key_id!r} is the last key in use: without it every search is refused. Add another one first (rag "
                "scope-key add --new) and give it to the applications, or say --force"
            )
        return bool(connection.execute(query("retire_scope_key"), {"id": key_id}).rowcount)


def require_signed_scopes(database: Database) -> bool:
    """Refuse scopes that are not signed, from now on. Whether they were taken before.

    Raises:
        UsageError: there is no key in use that they could be signed with.
    """
    with _changing(database) as connection:
        if not _signing(connection).in_use:
            raise UsageError("no key is in use, so nobody could sign a scope. Add one with: rag scope-key add")
        return bool(connection.execute(query("require_signed_scopes"), {"actor": current_actor()}).rowcount)


def take_unsigned_scopes(database: Database) -> bool:
    """Take scopes that are not signed, as before. Whether they were refused."""
    with _changing(database) as connection:
        return bool(connection.execute(query("take_unsigned_scopes")).rowcount)


@contextmanager
def _changing(database: Database) -> Iterator[Connection]:
    """One operator at a time; whoever searches waits for none of it."""
    with database.session("owner") as connection, connection.transaction():
        connection.execute(query("change_scope_keys"))
        yield connection


def _signing(connection: Connection) -> Signing:
    required: Any = first_row(connection, class_row(_Requirement), query("scope_signing"))
    keys = rows(connection, class_row(KnownKey), query("scope_keys"))
    return Signing(required.since if required else None, required.turned_on_by if required else None, keys)
