"""Who asks: a bearer token is looked up by its hash, and stands for one scope and what may be done in it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv6Network, ip_address
from typing import NoReturn
from uuid import UUID

from rag_assets.doors.http.errors import HttpError
from rag_assets.doors.http.rates import Buckets
from rag_assets.store.database import Database
from rag_assets.store.tokens import FoundToken, hash_of, is_well_formed, token_of

HELD_S = 3.0  # how long a look-up is believed: a revocation holds by then
_MOST = 10_000  # tokens that are remembered
_FAILURES, _FAILURES_PER_S = 20, 0.2  # of one address, before its unknown tokens are looked up no more
_UNKNOWN = "no such token"


@dataclass(frozen=True)
class Caller:
    """Whom a request comes from, by its token: nothing of it was said by the request itself."""

    token_id: UUID
    tenant: str
    bot: str
    user_id: str | None
    may: frozenset[str]

    def require(self, *what: str) -> None:
        """Refuse a token that may do none of these.

        Raises:
            HttpError: 403.
        """
        if self.may.isdisjoint(what):
            said = f"this token may not {' or '.join(what)}; it may {', '.join(sorted(self.may))}"
            raise HttpError(403, "Forbidden", said)


class Access:
    """Finds out who asks, and how often they may. For the tasks of one event loop."""

    def __init__(self, database: Database, rate: float) -> None:
        """`rate`: requests a second of one token; twice as many at once, if it has waited for them."""
        self._database = database
        self._requests = Buckets(rate, max(1.0, 2 * rate))
        self._failures = Buckets(_FAILURES_PER_S, _FAILURES)
        self._held: OrderedDict[bytes, tuple[FoundToken | None, float]] = OrderedDict()
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def caller(self, authorization: Sequence[str], peer: str) -> Caller:
        """Who asks, by the values of the header `Authorization`, from the address `peer`; counts as one request.

        Raises:
            HttpError: 401 without a valid token, 429 where there were too many requests or wrong tokens.
            DatabaseUnavailable, DatabaseRefused, DatabaseFailed: the token cannot be looked up; nobody is let in.
        """
        token = _bearer(authorization)
        source = _network(peer)
        if not is_well_formed(token):
            self._refuse(source, "this is no token of this server: it is cut off, or mistyped")
        found = await self._found(token, source)
        if found is None:
            self._refuse(source, _UNKNOWN)
        if found.is_revoked:
            self._refuse(source, "this token was revoked")
        if found.is_expired or (found.expires_at is not None and found.expires_at <= datetime.now(UTC)):
            self._refuse(source, "this token has expired")
        if wait := self._requests.take(found.id):
            raise HttpError(429, "RateLimited", "this token asks more often than it may", retry_after=wait)
        return Caller(found.id, found.tenant, found.bot, found.user_id, frozenset(found.may))

    def _refuse(self, source: str, message: str) -> NoReturn:
        if wait := self._failures.take(source):
            raise _too_many(wait)
        raise HttpError(401, "Unauthorized", message)

    async def _found(self, token: str, source: str) -> FoundToken | None:
        key = hash_of(token)
        found, until = self._held.get(key, (None, 0.0))
        if time.monotonic() < until:
            return found
        # Who guesses makes no work for the database, and does not lock out those whom the same proxy brings.
        if key not in self._good and (wait := self._failures.wait_s(source)):
            raise _too_many(wait)
        asked = time.monotonic()
        (rows,) = await self._database.aask({}, [token_of(token)])
        found = rows[0] if rows else None
        self._held[key] = (found, asked + HELD_S)
        self._held.move_to_end(key)
        if len(self._held) > _MOST:
            self._held.popitem(last=False)
        self._remember(key, found)
        return found

    def _remember(self, key: bytes, found: FoundToken | None) -> None:
        self._good.pop(key, None)
        if found is not None and not found.is_revoked and not found.is_expired:
            self._good[key] = None
            if len(self._good) > _MOST:
                self._good.popitem(last=False)


def _bearer(authorization: Sequence[str]) -> str:
    if len(authorization) != 1:
        raise HttpError(401, "Unauthorized", "say who asks: Authorization: Bearer TOKEN")
    kind, _, token = authorization[0].strip().partition(" ")
    if kind.lower() != "bearer":
        raise HttpError(401, "Unauthorized", "this server takes bearer tokens: Authorization: Bearer TOKEN")
    return token.strip()


def _network(peer: str) -> str:
    """Whose failures are counted together: an address, and of IPv6 the network that one customer gets."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    return str(IPv6Network((address, 64), strict=False)) if address.version == 6 else str(address)


def _too_many(wait: float) -> HttpError:
    return HttpError(429, "RateLimited", "too many wrong tokens came from this address", retry_after=wait)
