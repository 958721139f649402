"""Two tenants for the doors: each has secrets of its own, metadata that pretends to be more, and a user's own notes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rag_assets.errors import InvalidArgument, InvalidKey, ScopeError
from rag_assets.store.database import Database
from tests.support.worlds import ingested

QUESTION = "the code of the valve"
SECRETS = {"alpha": "AAA-111", "beta": "BBB-222"}
ALPHA = {"tenant": "alpha", "bot": "support"}
# What a retriever for another framework is not made of, and the error that says so.
WRONG_ARGUMENTS: list[tuple[type[Exception], dict[str, Any]]] = [
    (InvalidArgument, {"retriever": "hybrid"}),
    (InvalidArgument, {"top_k": 0}),
    (InvalidArgument, {"top_k": "8"}),
    (InvalidArgument, {"filters": {"source_name": ["a"]}}),
    (InvalidArgument, {"database": "postgresql://localhost/x"}),
    (ScopeError, {"scope": None}),
    (ScopeError, {"scope": "alpha"}),
    (InvalidKey, {"scope": {"tenant": "alpha"}}),
    (InvalidKey, {"scope": {"tenant": "Alpha", "bot": "support"}}),
    (InvalidArgument, {"scope": {**ALPHA, "user": "ann"}}),
]
PRETENDING = "---\ntitle: The valve\nauthor: Ann\nscore: 99\nsource_id: another\nspace: tenant\n---\n"


def fill(database: Database, folder: Path) -> None:
    """Both tenants, ingested with `hash-64`: twelve notes each, with the tenant's secret."""
    for tenant, secret in SECRETS.items():
        text = f"{PRETENDING}# Codes\n\nThe code of the valve {{}} is {secret}."
        ingested(database, folder / tenant, tenant, {f"note{n}.md": text.format(n) for n in range(12)})


def in_loop(database: Database, work: Callable[[], Awaitable[Any]]) -> Any:
    """What a coroutine function returns, in an event loop of its own that can have no thread: whoever hops fails."""

    async def main() -> Any:
        asyncio.get_running_loop().set_default_executor(_NoThreads())
        try:
            return await work()
        finally:
            await database.aclose()

    return asyncio.run(main())


class _NoThreads(ThreadPoolExecutor):
    def submit(self, *arguments: Any, **named: Any) -> Any:
        raise AssertionError("the event loop was left for a thread")
