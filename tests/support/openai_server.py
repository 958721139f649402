"""A stand-in for a server with OpenAI's embeddings protocol: real HTTP, with vectors that follow from the texts.

Every request takes the next behaviour of `script`, and when that is empty the `usual` one: the right answer.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 16


def vector_of(text: str, dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """A text's vector, not of unit length, in every process the same."""
    seed = int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")
    return (3 * np.random.default_rng(seed).standard_normal(dimensions)).astype(np.float32)


def unit_vectors(texts: list[str], dimensions: int = DIMENSIONS) -> NDArray[np.float64]:
    """What an embedder has to make of the server's vectors for these texts, as they were sent."""
    rows = np.array([vector_of(text, dimensions) for text in texts], dtype=np.float64)
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1)[:, None]
    return unit


@dataclass(frozen=True)
class Arrived:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """What is to be embedded, or what a chat model is told."""
        texts: list[str] = self.body["input"] if "input" in self.body else [json.dumps(self.body)]
        return texts


@dataclass(frozen=True)
class Reply:
    """One request, and the connection to answer it on."""

    handler: BaseHTTPRequestHandler
    arrived: Arrived
    stopping: threading.Event

    def send(self, body: Any, status: int = 200, headers: dict[str, str] | None = None, missing: int = 0) -> None:
        """Send JSON, or bytes as they are; `missing`: bytes that are promised beyond those."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.handler.send_response(status)
        for name, value in {"Content-Length": str(len(data) + missing), **(headers or {})}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def entries(self) -> list[dict[str, Any]]:
        """The `data` of the right answer."""
        arrived = self.arrived
        size = arrived.body.get("dimensions", DIMENSIONS)
        as_base64 = arrived.body.get("encoding_format") == "base64"
        values = [
            encoded(vector_of(text, size)) if as_base64 else vector_of(text, size).tolist() for text in arrived.texts
        ]
        return [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)]


Behaviour = Callable[[Reply], None]


def encoded(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def right(reply: Reply) -> None:
    reply.send({"data": reply.entries(), "usage": {"prompt_tokens": 7 * len(reply.arrived.texts)}})


def without_usage(reply: Reply) -> None:
    reply.send({"data": reply.entries()})


def data(change: Callable[[list[dict[str, Any]]], list[Any]]) -> Behaviour:
    """An answer with status 200 and other entries than the right ones."""
    return lambda reply: reply.send({"data": change(reply.entries())})


def body(content: Any, status: int = 200) -> Behaviour:
    return lambda reply: reply.send(content, status)


def error(status: int, headers: dict[str, str] | None = None, **fields: Any) -> Behaviour:
    """An error as OpenAI words it. Its message repeats the key and the texts, which a careless client passes on."""

    def behave(reply: Reply) -> None:
        message = f"stand-in: {reply.arrived.headers.get('authorization')} {reply.arrived.texts}"
        reply.send({"error": {"message": message, "type": "server_error", **fields}}, status, headers)

    return behave


def reset(reply: Reply) -> None:
    """Breaks the connection by RST, without an answer."""
    reply.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reply.handler.close_connection = True


def close_in_the_body(reply: Reply) -> None:
    """Promises more bytes than it sends."""
    reply.send(b'{"data": [', missing=1000)
    reply.handler.close_connection = True


def silence(reply: Reply) -> None:
    """Accepts the request and does not answer."""
    reply.stopping.wait(60)
    reply.handler.close_connection = True


def drip(reply: Reply) -> None:
    """Sends a byte now and then, so that no single read is ever slow."""
    reply.send(b"{", missing=100_000)
    while not reply.stopping.wait(0.02):
        try:
            reply.handler.wfile.write(b" ")
        except OSError:
            break
    reply.handler.close_connection = True


@dataclass
class OpenAIServer:
    """The server's script and its records."""

    url: str = ""
    script: deque[Behaviour] = field(default_factory=deque)
    usual: Behaviour = right
    arrived: list[Arrived] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        content = handler.rfile.read(int(handler.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        arrived = Arrived(handler.path, headers, json.loads(content))
        with self.lock:
            self.arrived.append(arrived)
            behave = self.script.popleft() if self.script else self.usual
        behave(Reply(handler, arrived, self.stopping))

    @property
    def sent(self) -> Counter[str]:
        """How often each text arrived."""
        return Counter(text for arrived in self.arrived for text in arrived.texts)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def shutdown_request(self, request: Any) -> None:
        # Without the usual shutdown, which would end the connection properly before `reset` can break it.
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""


@contextmanager
def openai_server(usual: Behaviour = right) -> Iterator[OpenAIServer]:
    """Run a server on a free port; its `url` goes up to and with `/v1`."""
    server = OpenAIServer(usual=usual)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            server.handle(self)

        def log_message(self, format: str, *args: Any) -> None:
            """The tests read what was recorded."""

    http = _Http(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        http.shutdown()
        http.server_close()
        thread.join()
