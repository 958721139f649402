"""Tokens of the HTTP door: made, listed, revoked, and looked up. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from uuid import UUID

import psycopg
from psycopg.rows import class_row, dict_row

from rag_assets.errors import InvalidArgument, UsageError, shown, unknown
from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import first_row, query, rows, scalar
from rag_assets.store.statements import Statement
from rag_assets.store.tenants import list_tenants, spaces_of

May = Literal["search", "feedback", "push"]
MAY: tuple[May, ...] = get_args(May)
PREFIX = "rag_"
MAX_NAME_CHARS, MAX_USER_CHARS = 100, 1000
MAX_LIFE = timedelta(days=3650)
NO_TOKEN = ""  # whose hash none has
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_DIGITS, _CHECK_DIGITS = 43, 6  # of 256 bits, and of 32
_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_SECRET_DIGITS + _CHECK_DIGITS}}}", re.ASCII)


@dataclass(frozen=True)
class MadeToken:
    """A new token. `token` is shown once, and cannot be read again from anywhere."""

    id: UUID
    token: str
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True)
class FoundToken:
    """Whom a token stands for. `user_id` is None where its searches are nobody's in particular, and `expires_at` where
    it never expires."""

    id: UUID
    tenant: str
    bot: str
    user_id: str | None
    may: Sequence[str]
    is_revoked: bool
    is_expired: bool
    expires_at: datetime | None


def new_token() -> str:
    """`rag_`, 256 random bits, and a checksum, in letters and digits: a typo, or a token that was cut off, is told from
    one that is unknown, and programs that look for leaked secrets know it by its form."""
    number = int.from_bytes(secrets.token_bytes(32))
    body = PREFIX + _in_digits(number, _SECRET_DIGITS)
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Whether it can be a token at all; nothing is asked."""
    return _FORM.fullmatch(token) is not None and _checksum(token[:-_CHECK_DIGITS]) == token[-_CHECK_DIGITS:]


def hash_of(token: str) -> bytes:
    """What is kept of a token. Nobody guesses 256 random bits, so that the hash needs no salt and no time."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(body: str) -> str:
    return _in_digits(zlib.crc32(body.encode()), _CHECK_DIGITS)


def _in_digits(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def add_token(
    database: Database,
    name: str,
    tenant: str,
    bot: str,
    *,
    user: str | None = None,
    may: Sequence[str] = ("search",),
    lives: timedelta | None = timedelta(days=90),
) -> MadeToken:
    """Make a token for one bot of a tenant, as `user` if one is named; `lives` None: it never expires.

    Raises:
        InvalidArgument: names the argument that is out of bounds.
        UnknownTenant, UnknownBot: with the names that look like it.
        UsageError: the tenant has a token of that name that is not revoked.
    """
    _check_text(name, "name", MAX_NAME_CHARS)
    if user is not None:
        _check_text(user, "user", MAX_USER_CHARS)
    allowed = [one for one in MAY if one in may]
    if not allowed or set(may) - set(MAY):
        raise InvalidArgument(f"may must be some of {', '.join(MAY)}, got {shown(list(may))}", "may")
    if lives is not None and not timedelta() < lives <= MAX_LIFE:
        raise InvalidArgument(f"a token lives longer than no time and at most {MAX_LIFE.days} days", "lives")
    token = new_token()
    keys = {"tenant": tenant, "bot": bot, "user": user, "name": name}
    values = {**keys, "hash": hash_of(token), "may": allowed, "lives": lives}
    try:
        with database.work(tenant) as connection:
            spaces_of(connection, tenant, bot)
            row = first_row(connection, dict_row, query("add_token"), values)
    except psycopg.errors.UniqueViolation as error:
        raise UsageError(
            f"tenant {tenant!r} has a token {name!r} already: choose another name, or take the old one back first: "
            f"rag token revoke {name} --tenant {tenant}"
        ) from error
    assert row is not None
    return MadeToken(token=token, **row)


def _check_text(value: str, name: str, most: int) -> None:
    if not 1 <= len(value) <= most or not value.isprintable() or value != value.strip():
        raise InvalidArgument(
            f"{name} must be 1 to {most} printable characters without spaces around them, got {shown(value)}", name
        )


def list_tokens(database: Database, tenant: str | None = None, bot: str | None = None) -> list[dict[str, Any]]:
    """The tokens of all tenants, of one, or of one bot of it, without anything to come in with: `id`, `tenant`, `bot`,
    `user`, `name`, `may`, `state` (active, expired, revoked), `expires_at`, `revoked_at`, `created_at`, `actor`.

    Raises:
        UnknownTenant, UnknownBot: with the names that look like it.
    """
    found: list[dict[str, Any]] = []
    for one in [tenant] if tenant is not None else list_tenants(database):
        with database.work(one) as connection:
            if tenant is not None:
                spaces_of(connection, tenant, bot)
            found += _tokens(connection, one, bot)
    return found


def _tokens(connection: Connection, tenant: str, bot: str | None = None) -> list[dict[str, Any]]:
    return rows(connection, dict_row, query("list_tokens"), {"tenant": tenant, "bot": bot})


def revoke_token(database: Database, which: str, tenant: str | None = None) -> tuple[dict[str, Any], bool]:
    """Take a token back, by its id, by itself, or by its name in a tenant; who comes in with it is refused within
    seconds. Returns it as `list_tokens` does, and whether it was still to be revoked.

    Raises:
        UsageError: there is none, or only the tenant can tell which one is meant.
    """
    itself = is_well_formed(which)
    by_id = _is_id(which)
    if tenant is None and not by_id and not itself:
        raise UsageError(f"a token's name is known in its tenant: rag token revoke {which} --tenant T, or name its id")
    names: list[str] = []
    for one in [tenant] if tenant is not None else list_tenants(database):
        with database.work(one) as connection:
            if tenant is not None:
                spaces_of(connection, tenant)
            known = _tokens(connection, one)
            names += [str(row["name"]) for row in known]
            meant = [row for row in known if (by_id and str(row["id"]) == which.lower()) or row["name"] == which]
            if itself:
                own = scalar(connection, query("own_token"), {"hash": hash_of(which)})
                meant = [row for row in known if row["id"] == own]
            if meant:
                # Of several of a name at most one is not revoked.
                chosen = next((row for row in meant if row["state"] != "revoked"), meant[-1])
                row = first_row(connection, dict_row, query("revoke_token"), {"id": chosen["id"]})
                return {**chosen, **(row or {}), "state": "revoked"}, row is not None
    if itself or by_id:
        raise UsageError("there is no such token; rag token list shows all")
    raise unknown("token", which, names, of=f"of tenant {tenant!r}", way_out="rag token list shows all")


def _is_id(which: str) -> bool:
    try:
        return str(UUID(which)) == which.lower()
    except ValueError:
        return False


def token_of(token: str) -> Statement:
    """Whose token it is: at most one `FoundToken`, read as the app, without a scope."""
    return Statement(query("token_of"), {"hash": hash_of(token)}, class_row(FoundToken))
