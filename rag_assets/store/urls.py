"""URLs of databases: checked, changed, and described without what is secret in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from psycopg import conninfo

from rag_assets.addresses import AddressFault, database_address
from rag_assets.errors import InvalidArgument


@dataclass(frozen=True)
class Entry:
    """How a database is entered: the URL, what it is called in messages, the setting that named it, and what to do
    where it does not answer."""

    url: str = field(repr=False)
    what: str
    named: str
    hint: str


def checked_url(url: str, name: str) -> str:
    """`url` if it is one that the driver understands, and in one way only.

    Raises:
        InvalidArgument: it is none. The text does not repeat it, because it may hold a password.
    """
    try:
        return database_address(url)
    except AddressFault as fault:
        reason = str(fault)
    raise InvalidArgument(f"{name} {reason}", name)


def with_database(url: str, database: str) -> str:
    """The same server and options, another database."""
    return conninfo.make_conninfo(url, dbname=database)


def describe(url: str) -> str:
    """Host and database of a URL, without user or password."""
    parts = conninfo.conninfo_to_dict(url)
    return f"database {parts.get('dbname') or '?'} at {parts.get('host') or 'localhost'}"


def sqlalchemy_url(url: str, driver: str = "psycopg2") -> str:
    """`url` in the form that SQLAlchemy and yoyo take, with its driver named: psycopg2 is Dagster's."""
    parts = conninfo.conninfo_to_dict(url)
    user, password = parts.pop("user", "") or "", parts.pop("password", "") or ""
    database = parts.pop("dbname", "") or ""
    login = quote(str(user), safe="") + (f":{quote(str(password), safe='')}" if password else "")
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in parts.items())
    return f"postgresql+{driver}://{login}@/{quote(str(database), safe='')}?{query}"
