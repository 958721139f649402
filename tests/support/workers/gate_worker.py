"""A worker in a process of its own that passes the gate again and again, and writes down when.

Run as a script with a `Shift` as JSON for its only argument; each line it prints is `<time> <items> <tokens>`, with
the time at which the request would have been sent.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from queue import Queue

from rag_assets.embedding.profiles import make_profile
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate

PROFILE = make_profile(name="hash-64", provider="hash", model="hash", dimensions=64)


@dataclass(frozen=True)
class Shift:
    """Whose requests to send, of how many items each: one of `items`, at random."""

    url: str
    tenant: str
    items: Sequence[int]
    seed: int = 0
    tokens_per_item: int = 10


@dataclass(frozen=True)
class Sent:
    """A request that passed the gate."""

    tenant: str
    at: float
    items: int
    tokens: int


def start(shift: Shift) -> subprocess.Popen[str]:
    """A process at work, which ends when it is killed."""
    words = [sys.executable, "-m", "tests.support.workers.gate_worker", json.dumps(asdict(shift))]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def sent_until(shifts: Sequence[Shift], enough: Callable[[list[Sent]], bool]) -> list[Sent]:
    """What processes that all work at the same time have sent when it is enough."""
    arrived: Queue[Sent] = Queue()
    with ExitStack() as stack:
        for number, shift in enumerate(shifts):
            worker = stack.enter_context(start(replace(shift, seed=number)))
            listener = threading.Thread(target=_listen, args=(worker, shift.tenant, arrived), daemon=True)
            listener.start()
            stack.callback(listener.join)
            stack.callback(worker.kill)
        sent: list[Sent] = []
        while not enough(sent):
            sent.append(arrived.get(timeout=100))
    while not arrived.empty():
        sent.append(arrived.get())
    return sent


def _listen(worker: subprocess.Popen[str], tenant: str, arrived: Queue[Sent]) -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.count(" ") == 2 and line.endswith("\n"):  # the last one of a killed worker is cut
            at, items, tokens = line.split()
            arrived.put(Sent(tenant, float(at), int(items), int(tokens)))


def busiest(sent: Sequence[Sent], seconds: float) -> tuple[int, int]:
    """The most items, and the most tokens, within any window of so many seconds."""
    most_items = most_tokens = 0
    for last in sent:
        window = [one for one in sent if last.at - seconds < one.at <= last.at]
        most_items = max(most_items, sum(one.items for one in window))
        most_tokens = max(most_tokens, sum(one.tokens for one in window))
    return most_items, most_tokens


def main(shift: Shift) -> None:
    rng = random.Random(shift.seed)
    gate = PgGate(Database(shift.url), shift.tenant, "b", PROFILE)
    while True:
        items = rng.choice(list(shift.items))
        tokens = items * shift.tokens_per_item
        gate.acquire(items, tokens)
        print(time.time(), items, tokens, flush=True)


if __name__ == "__main__":
    main(Shift(**json.loads(sys.argv[1])))
