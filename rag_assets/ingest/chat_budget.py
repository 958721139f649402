"""What a chat model may cost at ingest: the rest of a profile's ceiling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from rag_assets.chat.prices import ChatPrice
from rag_assets.embedding.models import usd
from rag_assets.errors import CostCeilingReached
from rag_assets.store.database import Database
from rag_assets.store.limits import profile_settings, spent_usd
from rag_assets.store.profiles import BuiltProfile


class Budget:
    """What is left of the ceiling of one tenant's profile for one run's requests; shared by its threads.

    Where the price of the model is not known (`price` None), as of a server of one's own, nothing is counted.
    """

    def __init__(self, database: Database, built: BuiltProfile, price: ChatPrice | None) -> None:
        self._tenant, self._profile, self._price = built.tenant, built.profile.name, price
        with database.work(built.tenant, built.bot) as connection:
            self._ceiling = profile_settings(connection, self._profile).max_cost_usd
            self._spent = spent_usd(connection, self._tenant, self._profile)
        self._one_at_a_time = Lock()
        self._in_flight = 0.0

    @contextmanager
    def room_for(self, tokens: tuple[int, int]) -> Iterator[Callable[[int, int], float]]:
        """Hold room for a request that reads and writes about so many tokens, while it is made; call what is given
        with the tokens that it took in all, and those of them that were written, for what it cost in dollars.

        Raises:
            CostCeilingReached: names the numbers, and how to raise the ceiling.
        """
        about = self._price.cost_usd(*tokens) if self._price else 0.0
        with self._one_at_a_time:
            spent = self._spent + self._in_flight
            if self._ceiling is not None and about and spent + about > self._ceiling:
                raise CostCeilingReached(
                    f"profile {self._profile!r} has cost tenant {self._tenant!r} ${spent:.4f}, and the next request "
                    f"for triples about ${about:.4f}: that is beyond its ceiling of {usd(self._ceiling)}. "
                    f"To go on: rag profile limit {self._profile} --max-cost-usd N"
                )
            self._in_flight += about
        try:
            yield self._paid
        finally:
            with self._one_at_a_time:
                self._in_flight -= about

    def _paid(self, tokens: int, written: int) -> float:
        if self._price is None:
            return 0.0
        cost = self._price.cost_usd(max(0, tokens - written), min(tokens, written))
        with self._one_at_a_time:
            self._spent += cost
        return cost
