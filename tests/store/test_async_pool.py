"""Whatever a helper of the pool is at, the event loop ends."""

from __future__ import annotations

import asyncio
from typing import Any

from rag_assets.store.async_pool import AsyncPool


class Deaf:
    """A task of a pool that takes a cancellation for an answer, as `asyncio.wait_for` may."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return


def test_a_helper_that_missed_its_cancellation_waits_for_no_other_task() -> None:
    async def ended() -> bool:
        tasks: asyncio.Queue[Any] = asyncio.Queue()
        helper = asyncio.create_task(AsyncPool.worker(tasks))
        deaf = Deaf()
        await tasks.put(deaf)
        await deaf.begun.wait()
        helper.cancel()
        done, _ = await asyncio.wait([helper], timeout=10)
        helper.cancel()
        return bool(done)

    assert asyncio.run(ended())
