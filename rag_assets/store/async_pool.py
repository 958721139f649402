"""A pool of connections whose helpers end with their event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from psycopg_pool import AsyncConnectionPool

from rag_assets.store.statements import AsyncConnection


class _UntilCancelled:
    """A queue from which a task that was told to end takes no more.

    `asyncio.wait_for`, by which the driver waits, may take a cancellation for an answer that came at the same time
    (Python before 3.12). A helper that waited for its next task then waited for ever, and the loop for it.
    """

    def __init__(self, tasks: asyncio.Queue[Any]) -> None:
        self._tasks = tasks

    async def get(self) -> Any:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        return await self._tasks.get()


class AsyncPool(AsyncConnectionPool[AsyncConnection]):
    """Connections for the tasks of one event loop."""

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Run what keeps the pool going, one after another, until it is closed or the loop ends."""
        await super().worker(_UntilCancelled(q))  # type: ignore[arg-type]
