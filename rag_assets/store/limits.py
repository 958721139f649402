"""The rate limits and cost ceilings of embedding: what is set, and the gate that holds requests to it.

All workers on all machines share one queue in the database, so no limit is exceeded whoever sends. A limit is a
sliding window: in no 60 s, whenever they begin, are more items or tokens sent than it allows.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import psycopg
from psycopg.rows import class_row

from rag_assets.embedding.models import usd
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import (
    CostCeilingReached,
    DatabaseUnavailable,
    ProviderRefused,
    ProviderUnavailable,
    UnknownTenant,
    UsageError,
)
from rag_assets.printing import counted
from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import first_row, query, rows, scalar
from rag_assets.store.tenants import list_tenants, unknown_tenant

_log = logging.getLogger(__name__)

Mode = Literal["sync", "batch"]

LONGEST_WAIT_S = 15 * 60  # a run that waits longer holds its tenant's place in Dagster's queue for nothing
_LOOK_EVERY_S = 10.0  # how old the known limits may be
_NAP_S = 5.0  # a request in the queue that is not renewed for longer than twice this was given up
_SLACK_S = 1.0  # between the grant and the moment that the request is sent, on the sender's own clock
_TOLD_AFTER_S = 5.0
_LONGEST_BLOCK_S = 86_400.0


@dataclass(frozen=True)
class RateLimit:
    """At most so many items and tokens in any `per_seconds`: of `tenant` (None: of all tenants together) and `model`
    (None: of all of the provider's)."""

    tenant: str | None
    provider: str
    model: str | None
    items: int | None
    tokens: int | None
    per_seconds: int = 60

    def __str__(self) -> str:
        sizes = [f"{size:,} {name}" for size, name in ((self.items, "items"), (self.tokens, "tokens")) if size]
        per = "a minute" if self.per_seconds == 60 else f"in {self.per_seconds} s"
        whose = f"tenant {self.tenant!r}" if self.tenant else "all tenants together"
        return f"{' and '.join(sizes)} {per} of {self.provider}/{self.model or '*'} for {whose}"

    def seconds(self, items: int, tokens: int) -> float:
        """How long so much takes at the limit's rate."""
        shares = [amount / size for amount, size in ((items, self.items), (tokens, self.tokens)) if size]
        return max(shares) * self.per_seconds


@dataclass(frozen=True)
class ProfileSettings:
    """What can be changed about a profile: the most that it may cost each tenant over all runs, in dollars (None:
    whatever it takes), and whether documents go through the provider's batch API."""

    max_cost_usd: float | None = None
    mode: Mode = "sync"


def set_rate_limit(database: Database, limit: RateLimit) -> None:
    """Set a limit; of items and tokens, the one that is None keeps what was set before.

    Raises:
        UsageError: neither is given, or one is not positive.
        UnknownTenant: there is no such tenant.
    """
    sizes = [size for size in (limit.items, limit.tokens) if size is not None]
    if not sizes or min(sizes) < 1 or limit.per_seconds < 1:
        raise UsageError("a rate limit needs items or tokens, and whole numbers of at least 1")
    values = {"items": limit.items, "tokens": limit.tokens, "per_seconds": limit.per_seconds}
    try:
        with database.work(limit.tenant) as connection:
            connection.execute(query("set_rate_limit"), {**_key(limit.tenant, limit.provider, limit.model), **values})
    except psycopg.errors.ForeignKeyViolation as error:
        raise unknown_tenant(str(limit.tenant), list_tenants(database)) from error


def clear_rate_limit(database: Database, tenant: str | None, provider: str, model: str | None = None) -> bool:
    """Remove a limit, and for all tenants (None) the pause that the provider last asked for; True if there was one."""
    key = _key(tenant, provider, model)
    with database.work(tenant) as connection:
        found = connection.execute(query("clear_rate_limit"), key).rowcount
        if tenant is None:
            found += connection.execute(query("clear_rate_blocks"), key).rowcount
    return found > 0


def _key(tenant: str | None, provider: str, model: str | None) -> dict[str, str | None]:
    return {"of": tenant, "provider": provider, "model": model}


def rate_limits(connection: Connection, provider: str | None = None, for_model: str | None = None) -> list[RateLimit]:
    """The limits of all tenants together and of the tenant in scope; those that count a model, if one is named."""
    values = {"provider": provider, "for_model": for_model}
    return rows(connection, class_row(RateLimit), query("list_rate_limits"), values)


def set_profile_settings(
    database: Database,
    profile: str,
    *,
    max_cost_usd: float | None = None,
    no_max_cost: bool = False,
    mode: Mode | None = None,
) -> None:
    """Change what is given of a profile's settings and keep the rest; `no_max_cost` lifts the ceiling.

    Raises:
        UsageError: the ceiling is no amount of money, or is set and lifted at once.
    """
    if max_cost_usd is not None and (no_max_cost or not (max_cost_usd >= 0 and math.isfinite(max_cost_usd))):
        raise UsageError("a cost ceiling is an amount of 0 or more dollars, or none")
    with database.work() as connection:
        values = {"max_cost_usd": max_cost_usd, "no_max_cost": no_max_cost, "mode": mode}
        connection.execute(query("set_profile_settings"), {"profile": profile, **values})


def profile_settings(connection: Connection, profile: str) -> ProfileSettings:
    """The settings of a profile; the defaults where none were made."""
    found = first_row(connection, class_row(ProfileSettings), query("profile_settings"), {"profile": profile})
    return found or ProfileSettings()


def spent_usd(connection: Connection, tenant: str, profile: str) -> float:
    """What a profile has cost a tenant, over all runs and bots."""
    return float(scalar(connection, query("spent"), {"tenant": tenant, "profile": profile}))


@dataclass(frozen=True)
class _Known:
    """What a gate knows until it looks again."""

    limits: Sequence[RateLimit]
    ceiling: float | None
    blocked: bool
    until: float  # time.monotonic()


@dataclass(frozen=True)
class _Turn:
    """A place in the queue, and the seconds until its turn: 0 if that is now, None if it never comes."""

    ticket: int
    wait_s: float | None
    locked_s: float  # how long the answer waited for others


class PgGate:
    """The gate of one tenant's requests for one profile; implements `embedding.protocol.Gate`.

    Where no limit and no ceiling is set, it asks the database once in 10 s. May be shared between threads; a worker
    that is killed leaves nothing behind but a place in the queue, which expires in seconds.
    """

    def __init__(self, database: Database, tenant: str, bot: str, profile: EmbeddingProfile) -> None:
        self._database = database
        self._tenant, self._bot, self._profile = tenant, bot, profile
        self._name = f"{profile.provider}/{profile.model}"
        options = profile.options
        self._route = {
            "provider": profile.provider,
            "model": profile.model,
            # A pause is asked of one key on one server, and profiles may have their own.
            "account": f"{options.key_env or ''}@{options.base_url or ''}",
        }
        self._one_at_a_time = Lock()
        self._known: _Known | None = None
        self._seen_spent = 0.0
        self._tell_next = 0.0
        self._in_flight: list[float] = []  # estimated dollars of what was let through and is not in the count yet

    def acquire(self, items: int, tokens: int) -> None:
        """See `Gate.acquire`.

        Raises:
            CostCeilingReached: it could cost more than the profile may.
            ProviderUnavailable: the wait is longer than 15 minutes.
            ProviderRefused: the request alone is larger than a limit: `batch_items` says what fits.
            UnknownTenant: the tenant is gone.
        """
        known = self._look()
        self.check_ceiling(tokens)
        if known.limits or known.blocked:
            self._wait_for_turn(items, tokens)
        if known.ceiling is not None:
            self._in_flight.append(self._profile.model_info.cost_usd(tokens))

    def throttled(self, seconds: float) -> None:
        """See `Gate.throttled`. The pause is for all tenants whose profiles use the same key and server."""
        if not seconds > 0:
            return
        if self._in_flight:
            self._in_flight.pop()  # a request that was turned away costs nothing
        with self._transaction() as connection:
            connection.execute(query("block_rate"), {**self._route, "seconds": min(seconds, _LONGEST_BLOCK_S)})
        self._known = None

    def batch_items(self, most: int, longest_tokens: int = 0) -> int:
        """How many texts fit into one request, at most `most`, if each has up to `longest_tokens`; at least 1."""
        for limit in self._look().limits:
            most = min(most, limit.items or most)
            if limit.tokens and longest_tokens:
                most = min(most, limit.tokens // longest_tokens)
        return max(1, most)

    def check_ceiling(self, tokens: int, batch: bool = False) -> None:
        """Refuse what could cost more than is left; `batch`: at the price of the batch API, which has no queue here.

        What other workers of the tenant have sent and not counted yet is not known: each can go beyond by one batch.

        Raises:
            CostCeilingReached: names the numbers, and how to raise the ceiling.
        """
        ceiling = self._look().ceiling
        if ceiling is None:
            return
        price = self._profile.model_info.cost_usd(tokens, batch)
        with self._transaction() as connection:
            spent = spent_usd(connection, self._tenant, self._profile.name)
        if spent != self._seen_spent:  # what was let through has been counted
            self._seen_spent = spent
            self._in_flight.clear()
        if price and spent + sum(self._in_flight) + price > ceiling:
            raise CostCeilingReached(
                f"profile {self._profile.name!r} has cost tenant {self._tenant!r} ${spent:.4f}, and the next request "
                f"about ${price:.4f}: that is beyond its ceiling of {usd(ceiling)}. What is embedded is kept. "
                f"To go on: rag profile limit {self._profile.name} --max-cost-usd N"
            )

    def _look(self) -> _Known:
        known = self._known
        if known is None or time.monotonic() >= known.until:
            with self._transaction() as connection:
                blocked = scalar(connection, query("is_blocked"), self._route)
                known = self._known = _Known(
                    rate_limits(connection, self._profile.provider, self._profile.model),
                    profile_settings(connection, self._profile.name).max_cost_usd,
                    bool(blocked),
                    time.monotonic() + _LOOK_EVERY_S,
                )
        return known

    def _wait_for_turn(self, items: int, tokens: int) -> None:
        began = time.monotonic()
        ticket: int | None = None
        try:
            while True:
                ticket, wait = self._ask(ticket, items, tokens)
                if wait is None:
                    raise ProviderRefused(self._too_large(items, tokens))
                if wait == 0:
                    ticket = None
                    return
                total = time.monotonic() - began + wait
                if total > LONGEST_WAIT_S:
                    raise ProviderUnavailable(self._too_long(total))
                self._tell(total)
                time.sleep(min(wait, _NAP_S))
        finally:
            if ticket is not None:
                self._leave(ticket)

    def _leave(self, ticket: int) -> None:
        """Give up a place in the queue; one that could not be given up expires."""
        with suppress(psycopg.Error, DatabaseUnavailable), self._transaction() as connection:
            connection.execute(query("leave_queue"), {"ticket": ticket})

    def _ask(self, ticket: int | None, items: int, tokens: int) -> tuple[int, float | None]:
        """The ticket to ask with next, and the seconds until then: 0 if the request may be sent now, None if never."""
        request = {"ticket": ticket, "items": items, "tokens": tokens, "slack": _SLACK_S, "nap": _NAP_S}
        with self._one_at_a_time:
            asked = time.monotonic()
            try:
                with self._database.work(self._tenant, self._bot) as connection:
                    turn = first_row(connection, class_row(_Turn), query("take_turn"), {**self._route, **request})
            except psycopg.errors.ForeignKeyViolation as error:
                raise UnknownTenant(f"no tenant {self._tenant!r}: it was erased meanwhile") from error
            assert turn is not None
            late = time.monotonic() - asked - turn.locked_s > _SLACK_S  # as after SIGSTOP, or on a network that hangs
        return turn.ticket, (0.01 if turn.wait_s == 0 and late else turn.wait_s)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._one_at_a_time, self._database.work(self._tenant, self._bot) as connection:
            yield connection

    def _too_large(self, items: int, tokens: int) -> str:
        self._known = None
        limits = [
            str(limit)
            for limit in self._look().limits
            if items > (limit.items or items) or tokens > (limit.tokens or tokens)
        ]
        return (
            f"a request of {counted(items, 'item')} and {counted(tokens, 'token')} is larger than the rate limit of "
            f"{'; '.join(limits)}. Raise it with: rag tenant limit"
        )

    def _too_long(self, seconds: float) -> str:
        reason = "the provider has asked for a pause" if self._look().blocked else "the rate limits are used up"
        return (
            f"{self._name}: {reason}, and the turn of the next request is about "
            f"{counted(round(seconds / 60), 'minute')} away. What is embedded is kept; run it again later"
        )

    def _tell(self, seconds: float) -> None:
        if seconds > _TOLD_AFTER_S and time.monotonic() >= self._tell_next:
            self._tell_next = time.monotonic() + 60
            _log.warning("%s waits about %.0f s for its turn at %s", self._tenant, seconds, self._name)
