"""URLs of databases: checked, changed, and described without what is secret in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote

import psycopg
from psycopg import conninfo

from rag_assets.errors import InvalidArgument

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9.-]{0,20})(\+[A-Za-z0-9_]{1,20})?://")
_FORM = "postgresql://user:password@host/database"


@dataclass(frozen=True)
class Entry:
    """How a database is entered: the URL, what it is called in messages, the setting that named it, and what to do
    where it does not answer."""

    url: str = field(repr=False)
    what: str
    named: str
    hint: str


def checked_url(url: str, name: str) -> str:
    """`url` if it is one that the driver understands.

    Raises:
        InvalidArgument: it is none. The text does not repeat it, because it may hold a password.
    """
    if isinstance(url, str) and (scheme := _SCHEME.match(url)):
        if scheme[1].lower() not in ("postgresql", "postgres"):
            text = f"{name} begins with {scheme[0].strip()} and has to name a PostgreSQL server: {_FORM}"
            raise InvalidArgument(text, name)
        if scheme[2]:
            raise InvalidArgument(f"{name} is in SQLAlchemy's form: leave {scheme[2]} out of it, as in {_FORM}", name)
    if not _is_understood(url):  # raised here: in an `except` it would keep the driver's error, which repeats the URL
        raise InvalidArgument(
            f"{name} is no connection URL; write it as {_FORM}, with special characters of the password as %40 and "
            "the like",
            name,
        )
    return url


def _is_understood(url: str) -> bool:
    try:
        parts = conninfo.conninfo_to_dict(url) if url else {}
    except (psycopg.ProgrammingError, TypeError, ValueError, AttributeError):
        return False
    ports = str(parts.get("port") or "").split(",")
    hosts = str(parts.get("host") or "")
    return bool(parts) and "@" not in hosts and all(not port or _is_port(port) for port in ports)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


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
