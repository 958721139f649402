"""What all routes share: the database, the retrievers that were made once, and who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from fastapi import Request, Security
from fastapi.security import HTTPBearer

from rag_assets.doors.http.access import Caller
from rag_assets.errors import InvalidArgument, alike, did_you_mean, shown
from rag_assets.retrieval.protocol import Retriever
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.retrieval.scope import RetrievalScope, aopen_scope
from rag_assets.store.database import Database

DEFAULT = "default"  # a retriever of this name answers those who name none
_USUAL = "hybrid"
_BEARER = HTTPBearer(auto_error=False, description="A token of `rag token add`.")


@dataclass(frozen=True)
class Chosen:
    """A retriever by its name; `mode` where it is one of `rag search --mode`, and nobody's own."""

    name: str
    made: Retriever
    mode: str | None


class Room:
    """The database, and the retrievers that callers may name."""

    def __init__(self, database: Database, retrievers: Mapping[str, Retriever]) -> None:
        self.database = database
        self._known: dict[str, Chosen] = {name: Chosen(name, made(database), name) for name, made in RETRIEVERS.items()}
        self._known |= {name: Chosen(name, made, None) for name, made in retrievers.items()}

    def retriever(self, name: str | None) -> Chosen:
        """The retriever of that name; None: the default.

        Raises:
            InvalidArgument: there is none; lists those that there are.
        """
        if name is None:
            return self._known.get(DEFAULT, self._known[_USUAL])
        if name not in self._known:
            likely = alike(name, list(self._known))
            meant = f"{did_you_mean(likely)} " if likely else ""
            there = ", ".join(sorted(self._known))
            raise InvalidArgument(f"no retriever {shown(name)}; {meant}There are: {there}", "retriever")
        return self._known[name]

    async def opened(self, caller: Caller, request_key: str | None = None) -> RetrievalScope:
        """The scope that a token stands for, as it is now; see `open_scope` for what it raises."""
        return await aopen_scope(
            self.database, caller.tenant, caller.bot, user_id=caller.user_id, request_key=request_key
        )


def may(*what: str) -> Callable[..., Awaitable[Caller]]:
    """A dependency of a route: who asks, if the token may do that, or one of several things."""

    async def caller(request: Request, _: object = Security(_BEARER)) -> Caller:
        found: Caller = request.state.caller
        found.require(*what)
        return found

    return caller


async def query_id(request: Request) -> str:
    """A dependency of a route: what the log and the answer call this request."""
    return str(request.state.query_id)
