"""A server of the HTTP door on a port of its own, in a thread, and who may come in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from rag_assets.doors.http.app import make_app
from rag_assets.doors.http.limits import Limits
from rag_assets.doors.http.server import config_of
from rag_assets.doors.listening import listening
from rag_assets.observing.started import Telemetry
from rag_assets.retrieval.protocol import Retriever
from rag_assets.store.database import Database
from rag_assets.store.tokens import add_token

OPEN_WIDE = Limits(rate=1e5, concurrent=1000)


@dataclass(frozen=True)
class Door:
    """Where a server listens."""

    port: int
    stop: Callable[[], None] = lambda: None  # and wait until it has

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        """A client that comes with a token."""
        given = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.Client(base_url=self.url, headers={**given, **headers}, timeout=60)

    def post(self, path: str, token: str | None, body: Any = None, **more: Any) -> httpx.Response:
        """One request, over a connection of its own."""
        with self.client(token) as client:
            return client.post(path, json=body, **more) if body is not None else client.post(path, **more)

    def get(self, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        """The same without a body."""
        with self.client(token) as client:
            return client.get(path, **more)


@contextmanager
def serving(
    database: Database,
    retrievers: Mapping[str, Retriever] | None = None,
    limits: Limits = OPEN_WIDE,
    telemetry: Telemetry | None = None,
) -> Iterator[Door]:
    """A server as `rag serve` runs it."""
    bound = listening("127.0.0.1", 0)
    server = uvicorn.Server(config_of(make_app(database, retrievers, limits, telemetry), limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive(), "the server does not start"
        assert time.monotonic() < deadline, "the server does not start in time"
        time.sleep(0.01)

    def stop() -> None:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server does not end"

    try:
        yield Door(bound.getsockname()[1], stop)
    finally:
        stop()


def token_for(database: Database, name: str, tenant: str, bot: str = "support", **more: Any) -> str:
    """A new token."""
    return add_token(database, name, tenant, bot, **more).token


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The typed error of an answer, which has to be of the one form."""
    body = response.json()
    assert set(body) == {"error"}
    assert {"type", "message", "query_id"} <= set(body["error"]) <= {"type", "message", "query_id", "argument"}
    assert response.headers["content-type"] == "application/json"
    found: dict[str, Any] = body["error"]
    return found
