"""Two tenants in a database that takes signed scopes alone, and somebody who has the application's login and no key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from rag_assets.signing import ScopeKey, ScopeSignature, new_key, sign_scope
from rag_assets.store.database import Database
from rag_assets.store.logins import login_urls
from rag_assets.store.scope_keys import add_scope_key, require_signed_scopes
from rag_assets.store.tenants import SHARED_BOT, add_tenant, share_with_tenant
from tests.support.scopes import set_scope
from tests.support.worlds import ingested

REFUSED = "RS001"
KEY = ScopeKey("key-1", bytes(range(32)))
TENANTS = {"alpha": "AAA-111", "beta": "BBB-222"}
BOT = "support"
SOURCES = "SELECT * FROM rag.knowledge_sources"  # of which a scope without a user sees nine
Setting = Mapping[str, str | None]


def build(new_database: Callable[[], Database], folder: Path) -> Database:
    """Each tenant has ten notes with its secret, one private to `ann`, a second bot, and a space that bots share."""
    plain = new_database()
    for tenant, secret in TENANTS.items():
        notes = {f"note{n}.md": f"The code of the main valve {n} is {secret}." for n in range(10)}
        ingested(plain, folder / tenant, tenant, notes, bot=BOT)
        ingested(
            plain, folder / f"{tenant}-sales", tenant, {"price.md": f"The valve costs {secret} SALES."}, bot="sales"
        )
        add_tenant(plain, tenant, SHARED_BOT)
        share_with_tenant(plain, tenant)
        with plain.work(tenant) as connection:
            connection.execute(
                "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' WHERE name LIKE 'note9%'"
            )
    plain.close()
    add_scope_key(plain, KEY)
    require_signed_scopes(plain)
    return Database(plain.url, scope_key=KEY)


def key_of(database: Database) -> ScopeKey:
    """A further key that the database knows."""
    key = new_key()
    assert add_scope_key(database, key)
    return key


def scope(
    tenant: str = "alpha", bot: str = BOT, user: str | None = None, signed: ScopeSignature | None = None
) -> Setting:
    """The settings of a transaction; `signed`: with this signature, whoever it is of."""
    return {"tenant": tenant, "bot": bot, "user": user, **(signed.settings if signed is not None else {})}


def rightly(tenant: str = "alpha", bot: str = BOT, user: str | None = None) -> Setting:
    """The same with the signature that belongs to it."""
    return scope(tenant, bot, user, sign_scope(tenant, bot, user, key=KEY))


@contextmanager
def intruder(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A raw connection with the application's login, as whoever stole that has it."""
    with psycopg.connect(login_urls(database.url)["app"]) as connection:
        connection.execute("SET ROLE rag_app")
        connection.commit()
        yield connection
        connection.rollback()


def read(connection: psycopg.Connection[Any], settings: Setting, statement: Any) -> list[Any] | str:
    """What one statement of one transaction under these settings says: rows, or the error's SQLSTATE."""
    try:
        with connection.transaction():
            set_scope(connection, settings)
            return connection.execute(statement).fetchall()
    except psycopg.Error as error:
        return error.sqlstate or str(error)
