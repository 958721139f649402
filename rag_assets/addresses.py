"""Addresses that may hold a password: what is wrong with one, and how one is shown.

A password that is not written as it has to be (`pa/ss` for `pa%2Fss`) makes a reader take its parts for a host, a port
or a database, and these are in every error message. So an address is refused before anybody connects, and what is
wrong with it is said without repeating it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT_VARIABLES = "RAG_ROOT_"  # how variables are called that addresses of roots refer to
DATABASE_FORM = "postgresql://user:password@host/database"
_ENCODED = "with special characters of the password as %40 and the like"
_SCHEME = re.compile(r"\s*([a-z][a-z0-9.-]*)(\+\w+)?://", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# As SQLAlchemy divides a URL.
_SQLALCHEMY = re.compile(
    r"postgresql(?:\+psycopg2)?://(?:[^:/]*(?::[^@]*)?@)?"
    r"(?:(?:\[[^/?]+\]|(?P<host>[^/:?]+))?(?::(?P<port>[^/?]*))?)?(?:/(?P<dbname>[^?]*))?(?:\?[^@]*)?"
)
_PASSWORD_OF_USER = re.compile(r"(?<=://)([^:@/?#]*):.*@", re.DOTALL)
_PASSWORD_OF_OPTION = re.compile(
    r"(\w*(?:password|passwd|secret|token|key|signature)\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'][^\s&]*)", re.IGNORECASE
)


class AddressFault(ValueError):
    """What is wrong with an address, to follow the name of whatever holds it; never a part of the address itself."""


def masked(text: str) -> str:
    """A connection URL or string, any other address, or a sentence with one in it, without the passwords: rather too
    much is taken out than too little."""
    return _PASSWORD_OF_OPTION.sub(r"\1***", _PASSWORD_OF_USER.sub(r"\1:***@", text))


def database_address(text: str) -> str:
    """`text` if it is a PostgreSQL URL or connection string that can only be read in one way.

    Raises:
        AddressFault: it is none.
    """
    scheme = _SCHEME.match(text) if isinstance(text, str) else None
    if scheme and scheme[1].lower() not in ("postgresql", "postgres"):
        raise AddressFault(f"begins with {scheme[0].strip()} and has to name a PostgreSQL server: {DATABASE_FORM}")
    if scheme and scheme[2]:
        raise AddressFault(f"is in SQLAlchemy's form: leave {scheme[2]} out of it, as in {DATABASE_FORM}")
    parts = _parsed(text)
    login = str(text).partition("://")[2].partition("/")[0]
    if not parts or login.count("@") > 1 or not _is_clear(parts):
        raise AddressFault(f"is no connection URL; write it as {DATABASE_FORM}, {_ENCODED}")
    return text


def _parsed(text: str) -> Mapping[str, Any]:
    from psycopg import conninfo, errors  # 30 ms, which a parser process and a command without a database do without

    try:
        return conninfo.conninfo_to_dict(text) if text else {}
    except (errors.ProgrammingError, TypeError, ValueError, AttributeError):
        return {}


def sqlalchemy_address(text: str) -> str:
    """`text` if Dagster's storage can be reached by it, with the driver that Dagster needs.

    Raises:
        AddressFault: it is none.
    """
    found = _SQLALCHEMY.fullmatch(text)
    if found is None or not _is_clear(found.groupdict()):
        raise AddressFault(
            f"is no URL of a database; write it as {DATABASE_FORM.replace('://', '+psycopg2://')}, {_ENCODED}"
        )
    return text


def _is_clear(parts: Mapping[str, Any]) -> bool:
    """Whether no part looks as if it were a piece of another."""
    host, port, database, user = (str(parts.get(name) or "") for name in ("host", "port", "dbname", "user"))
    return (
        not any(_CONTROLS.search(text) for text in (host, port, database, user))
        and not any(
            re.search(r"[@\s]|://", one) for one in host.split(",") if not one.startswith("/")
        )  # a socket's folder
        and all(not one or _is_port(one) for one in port.split(","))
        and not re.search(r"@|=|://", database)
        and not re.search(r"\s", user)
    )


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def http_address(text: str) -> str:
    """`text` if it is the address of a web server.

    Raises:
        AddressFault: it is none.
    """
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or re.search(r"\s", text) or _CONTROLS.search(text) or "@" in parts.path:
        raise AddressFault("is no address of a server; write it as https://host/path")
    return text


def plain_http_address(text: str) -> str:
    """`text`, without a slash at its end, if it is the address of a web server and holds no key and no password.

    Raises:
        AddressFault: it is none, or holds one.
    """
    parts = urlsplit(http_address(text))
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise AddressFault("must hold no key and no password: name the environment variable that holds the key")
    return text.rstrip("/")


def storage_address(text: str) -> str:
    """`text` if it is an fsspec URL of a kind that there is; a folder is made absolute.

    Raises:
        AddressFault: it is neither.
    """
    scheme = re.match(r"([a-z][a-z0-9+.-]+):/", text, re.IGNORECASE)  # a drive has one letter
    if _CONTROLS.search(text):
        raise AddressFault("is neither a folder nor a URL: it holds control characters")
    if scheme is None:
        return str(Path(text).expanduser().absolute()) if text else text
    from fsspec import available_protocols  # 20 ms, where an object store is used

    if "://" not in text or scheme[1].lower() not in available_protocols():
        raise AddressFault("is neither a folder nor an fsspec URL; write it as /folder or s3://bucket/rag")
    return text
