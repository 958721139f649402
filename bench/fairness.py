"""How long a new file takes to be found, while other tenants are in trouble: `rag dev` with 20 tenants, of which 16 are
well and four are not.

python -m bench.fairness [--tenants 16] [--huge 100000] [--slow-providers] [--settle 30]

- `dead`: nothing answers where its embedding provider should be.
- `dripping`: its root is a sitemap whose server sends a byte every three seconds.
- `huge`: a folder of 100,000 small files, which are being read all the time.
- `refused`: its provider answers 400 to every text.

Each of the others gets a new file: first all at the same moment, then one after the other. The time is that from the
file's last byte until a search for a word that only it holds finds it. `--slow-providers`: the others embed at a
provider on the network as well, one that is well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import rag_assets
from bench.common import median, show, verdict
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.ingest.pairs import enable_pair
from rag_assets.settings import load_settings
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.set_up import prepare
from rag_assets.store.tenants import add_tenant

BOT, DIMENSIONS = "help", 64
LIMIT_S = 60.0
_GIVE_UP_S = 300.0


class _Server(BaseHTTPRequestHandler):
    """A web server that hides what it is asked."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def asked(self) -> dict[str, Any]:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        return asked


class Refusing(_Server):
    def do_POST(self) -> None:
        self.asked()
        self.answer(400, {"error": {"message": "no"}})


class Healthy(_Server):
    def do_POST(self) -> None:
        texts = self.asked()["input"]
        rows = []
        for number, text in enumerate([texts] if isinstance(texts, str) else texts):
            digest = hashlib.sha512(text.encode()).digest()
            rows.append({"object": "embedding", "index": number, "embedding": [byte / 255 + 0.01 for byte in digest]})
        self.answer(
            200, {"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        )


class Dripping(_Server):
    def do_GET(self) -> None:
        page = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: 100000\r\n\r\n" + 100_000 * b" "
        for byte in page:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(3)

    do_HEAD = do_GET


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None: ...  # who asked has gone away


@contextmanager
def serving(kind: type[_Server]) -> Iterator[str]:
    server = _Quiet(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def on_network(name: str, url: str) -> EmbeddingProfile:
    return make_profile(
        name=name, provider="openai-compatible", model="m", dimensions=DIMENSIONS, options={"base_url": f"{url}/v1"}
    )


@dataclass
class World:
    """A home with tenants and their folders."""

    home: Path
    database: rag_assets.Database
    names: list[str] = field(default_factory=list)
    scopes: dict[str, rag_assets.RetrievalScope] = field(default_factory=dict)

    def tenant(self, name: str, profile: str, uri: str | None = None) -> Path:
        folder = self.home / "roots" / name
        folder.mkdir(parents=True)
        add_tenant(self.database, name, BOT)
        add_root(self.database, name, BOT, uri or str(folder))
        enable_pair(self.database, name, BOT, profile)
        return folder

    def drop(self, name: str, word: str) -> float:
        """Write a file that holds a word of its own; the moment when it was there."""
        (self.home / "roots" / name / f"{word}.txt").write_text(f"The pump {word} of {name} is dry.\n")
        return time.monotonic()

    def finds(self, name: str, word: str) -> bool:
        if name not in self.scopes:
            try:
                self.scopes[name] = rag_assets.open_scope(self.database, tenant=name, bot=BOT)
            except rag_assets.RagError:
                return False  # nothing is served yet
        found = rag_assets.LexicalRetriever(self.database).search(word, self.scopes[name], top_k=1)
        return any(word in hit.content for hit in found)


@contextmanager
def rag_dev(home: Path) -> Iterator[None]:
    """`rag dev`, until the end of the block."""
    with (home / "dev.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rag_assets.cli", "dev", "--port", str(free_port())], stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for_all(world: World, dropped: dict[str, tuple[str, float]]) -> dict[str, float]:
    """By tenant: seconds from when its file was there until it was found; `inf` where that never happened."""
    seconds: dict[str, float] = {}
    started = time.monotonic()
    while len(seconds) < len(dropped) and time.monotonic() - started < _GIVE_UP_S:
        for name, (word, moment) in list(dropped.items()):
            if name not in seconds and world.finds(name, word):
                seconds[name] = time.monotonic() - moment
        time.sleep(1)  # looking must not take what is measured
    return {name: seconds.get(name, float("inf")) for name in dropped}


def all_at_once(world: World, word: str) -> dict[str, float]:
    return wait_for_all(world, {name: (word, world.drop(name, word)) for name in world.names})


def one_after_the_other(world: World, word: str, pause: float = 3.0) -> dict[str, float]:
    seconds: dict[str, float] = {}
    waiting: list[threading.Thread] = []

    def follow(name: str, word: str) -> None:
        seconds.update(wait_for_all(world, {name: (word, world.drop(name, word))}))

    for name in world.names:
        waiting.append(threading.Thread(target=follow, args=(name, word)))
        waiting[-1].start()
        time.sleep(pause)
    for thread in waiting:
        thread.join()
    return seconds


def make_files(folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / f"{number // 1000:03d}" / f"{number}.txt"
        if number % 1000 == 0:
            path.parent.mkdir()
        path.write_text(f"Order {number} was shipped in box {number % 977}.\n")


def build(world: World, stack: ExitStack, options: argparse.Namespace) -> None:
    """The four in trouble, and those that are well."""
    profiles = {
        "dead": on_network("dead", f"http://127.0.0.1:{free_port()}"),
        "refused": on_network("refused", stack.enter_context(serving(Refusing))),
        "healthy": on_network("healthy", stack.enter_context(serving(Healthy))),
    }
    for profile in profiles.values():
        add_spec(world.database, profile)
    for name in ("dead", "refused"):
        folder = world.tenant(name, name)
        for number in range(20):
            (folder / f"{number}.txt").write_text(f"Text {number} that nobody will embed.\n")
    world.tenant("dripping", "static-256", f"{stack.enter_context(serving(Dripping))}/sitemap.xml")
    make_files(world.tenant("huge", "static-256"), options.huge)
    for number in range(options.tenants):
        name = f"well-{number:02d}"
        world.tenant(name, "healthy" if options.slow_providers else "static-256")
        world.names.append(name)


def run_summary(home: Path) -> list[tuple[str, str, int, float]]:
    """Job, status, number and mean seconds of the runs that were made."""
    from rag_assets.launch.instance import dagster_instance

    with dagster_instance(load_settings()) as instance:
        records = instance.get_run_records()
    sums: dict[tuple[str, str], list[float]] = {}
    for record in records:
        run = record.dagster_run
        who = run.tags.get("dagster/partition/tenant", "")
        kind = "well" if who.startswith("well") else who
        spent = (record.end_time or time.time()) - record.start_time if record.start_time else 0.0
        sums.setdefault((f"{kind} {run.job_name}", run.status.value), []).append(spent)
    return [(name, status, len(each), sum(each) / len(each)) for (name, status), each in sorted(sums.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=16, help="that are well")
    parser.add_argument("--huge", type=int, default=100_000, help="files of the huge tenant")
    parser.add_argument("--settle", type=float, default=30, help="seconds between the start and the first new files")
    parser.add_argument("--slow-providers", action="store_true", help="those that are well embed over the network")
    parser.add_argument("--keep", action="store_true", help="leave the home where it is, and print where")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="fair-"))
        for name in ("DATABASE_URL", "RAG_STORAGE", "DAGSTER_PG_URL"):
            os.environ.pop(name, None)
        os.environ.update(RAG_HOME=str(home), RAG_ALLOW_PRIVATE_URLS="1", RAG_IGNORE_ROBOTS="1")
        database = rag_assets.Database.from_settings()
        prepare(database)
        world = World(home, database)
        build(world, stack, options)
        rounds: list[tuple[str, Callable[[], dict[str, float]]]] = [
            ("from the start of rag dev", lambda: all_at_once(world, "first")),
            ("all at once", lambda: all_at_once(world, "second")),
            ("one every 3 s", lambda: one_after_the_other(world, "third")),
            ("all at once, again", lambda: all_at_once(world, "fourth")),
        ]
        measured = {}
        with rag_dev(home):
            for title, work in rounds:
                measured[title] = work()
                print(title, {name: round(s, 1) for name, s in measured[title].items()}, file=sys.stderr, flush=True)
                time.sleep(options.settle if title == rounds[0][0] else 5)
            runs = run_summary(home)
        show("Runs", ["tenant and job", "status", "runs", "mean s"], runs)
        show(
            f"Seconds until a new file is found, for each of {options.tenants} tenants beside four in trouble",
            ["", "worst", "median", "never"],
            [[title, max(found.values()), median(found.values()), sum(s == float("inf") for s in found.values())]
             for title, found in measured.items()],
        )  # fmt: skip
        worst = max(max(found.values()) for title, found in measured.items() if title != rounds[0][0])
        kept = verdict("longest wait of a tenant that is well, s", worst, LIMIT_S, at_least=False)
        database.close()
        subprocess.run([sys.executable, "-m", "rag_assets.cli", "down"], stdout=subprocess.DEVNULL, check=False)
        if options.keep:
            print(home)
        else:
            subprocess.run(["rm", "-rf", str(home)], check=False)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
