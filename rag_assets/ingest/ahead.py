"""Work of several threads on a stream, never more than a few items ahead of whoever takes the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def ahead(
    pool: ThreadPoolExecutor, work: Callable[[_Item], _Result], items: Iterable[_Item], most: int
) -> Iterator[_Result]:
    """What `work` makes of each item, in their order, with at most `most` items begun that were not taken yet.

    Where one fails, or nobody takes the rest, what has not begun is not begun.
    """
    begun: deque[Future[_Result]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) >= most:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()
