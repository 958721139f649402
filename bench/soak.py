"""Constant load on `rag serve` while its database is restarted: memory, connections, errors, and whose texts come back.

python -m bench.soak [--minutes 30] [--clients 8] [--restarts 2]

Two tenants ask side by side, each with a token of its own, and every answer is searched for words of the other one.
Errors count by status and type; while the database is away, only typed ones are allowed. Memory and open
files (connections are files) are those of the server's process after the first tenth, and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from bench.common import HOME, Served, environment, median, rag, serving, show, verdict

BOT = "bench"
TENANTS = ("soak-a", "soak-b")
TYPED = {"DatabaseUnavailable", "Busy", "TimeLimitReached"}
_WORDS = ["valve", "pump", "filter", "gauge", "hose", "seal", "motor", "tank", "cable", "sensor", "switch", "relay"]
_SAMPLE_S, _AWAY_S = 5.0, 20.0


@dataclass
class Heard:
    """What came back: answers by status and error type, those that held a word of the other tenant, milliseconds."""

    answers: Counter[str] = field(default_factory=Counter)
    leaks: int = 0
    latencies: list[float] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)  # MiB, and open files and sockets


def marker(tenant: str) -> str:
    """A word that only this tenant's texts have."""
    return f"secret{tenant.replace('-', '')}"


def fill(folder: Path) -> None:
    """A hundred small texts for each tenant."""
    for tenant in TENANTS:
        (folder / tenant).mkdir(parents=True, exist_ok=True)
        for number in range(100):
            words = " ".join(random.Random(f"{tenant}{number}").choices(_WORDS, k=60))
            (folder / tenant / f"{number}.txt").write_text(f"{marker(tenant)} part {number}. {words}\n")
        rag("ingest", str(folder / tenant), "--tenant", tenant, "--bot", BOT)


async def client(http: httpx.AsyncClient, tenant: str, token: str, until: float, heard: Heard) -> None:
    """Ask until the time is over, for what both tenants have texts about."""
    chosen = random.Random(token)
    other = next(marker(one) for one in TENANTS if one != tenant)
    while time.monotonic() < until:
        query = f"{other} {' '.join(chosen.sample(_WORDS, 3))}"
        started = time.perf_counter()
        try:
            answer = await http.post(
                "/search", json={"query": query, "top_k": 8}, headers={"Authorization": f"Bearer {token}"}
            )
        except httpx.HTTPError as error:
            heard.answers[f"no answer: {type(error).__name__}"] += 1
            continue
        heard.latencies.append(1000 * (time.perf_counter() - started))
        heard.leaks += other in answer.text.replace(query, "")
        found = answer.json()
        kind = found["error"]["type"] if answer.status_code != 200 else "answered" if found["results"] else "empty"
        heard.answers[f"{answer.status_code} {kind}"] += 1


async def watch(process: psutil.Process, until: float, heard: Heard) -> None:
    """Sample memory and open files, of which connections are the most, of the server."""
    while time.monotonic() < until:
        heard.samples.append((process.memory_info().rss / 2**20, process.num_fds()))
        await asyncio.sleep(_SAMPLE_S)


async def restart(times: list[float]) -> None:
    """Stop the database at these moments, and start it again after some seconds."""
    for moment in times:
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        await asyncio.to_thread(rag, "down")
        await asyncio.sleep(_AWAY_S)
        await asyncio.to_thread(rag, "up")


async def load(served: Served, options: argparse.Namespace) -> Heard:
    """All clients, the watcher and the restarts, side by side."""
    heard, begun = Heard(), time.monotonic()
    until = begun + 60 * options.minutes
    times = [begun + 60 * options.minutes * (n + 1) / (options.restarts + 1) for n in range(options.restarts)]
    limits = httpx.Limits(max_connections=options.clients, max_keepalive_connections=options.clients)
    async with httpx.AsyncClient(base_url=served.address, limits=limits, timeout=120) as http:
        turns = [TENANTS[number % len(TENANTS)] for number in range(options.clients)]
        await asyncio.gather(
            *(client(http, tenant, served.tokens[tenant], until, heard) for tenant in turns),
            watch(psutil.Process(served.pid), until, heard),
            restart(times),
        )
    return heard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--restarts", type=int, default=2)
    options = parser.parse_args()
    os.environ.update(environment())
    rag("up")
    fill(HOME / "soak")
    with serving(dict.fromkeys(TENANTS, BOT), options.clients) as served:
        heard = asyncio.run(load(served, options))
    report(heard, options.minutes)


def report(heard: Heard, minutes: float) -> None:
    """The table, and what is promised."""
    show(f"{minutes:g} minutes", ["answer", "times"], sorted(heard.answers.items()))
    tenth = max(1, len(heard.samples) // 10)
    early, late = heard.samples[tenth : 2 * tenth] or heard.samples, heard.samples[-tenth:]
    memory = [median(rss for rss, _ in some) for some in (early, late)]
    files = [max(count for _, count in some) for some in (early, late)]
    print(f"     memory {memory[0]:.0f} MiB, then {memory[1]:.0f}; open files and sockets {files[0]}, then {files[1]}")
    print(f"     p50 {median(heard.latencies):.1f} ms")
    untyped = sum(
        times for kind, times in heard.answers.items() if not kind.startswith("200") and kind.split()[-1] not in TYPED
    )
    verdict("memory at the end, times the beginning", memory[1] / memory[0], 1.1, at_least=False)
    verdict("open files and sockets at the end, times the beginning", files[1] / files[0], 1.1, at_least=False)
    verdict("errors without a type", untyped, 0, at_least=False)
    verdict("answers with a text of the other tenant", heard.leaks, 0, at_least=False)


if __name__ == "__main__":
    main()
