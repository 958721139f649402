"""A stand-in for Google's embedding API: real HTTP on a local port, with vectors that follow from the texts.

It answers as the API does until told otherwise: every request to embed takes the next of its `script`, which may
answer wrongly, or treat the connection badly. Everything that arrives is recorded.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import OpenGate
from rag_assets.embedding.providers.google import GoogleEmbedder
from rag_assets.embedding.providers.requests import RetryPolicy

KEY = "AIza-stand-in-key-0123456789"


def vector_of(text: str, dimensions: int) -> NDArray[np.float64]:
    """A text's vector, not of unit length, in every process the same."""
    seed = int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")
    return 3 * np.random.default_rng(seed).standard_normal(dimensions)


def unit_vectors(texts: list[str], dimensions: int) -> NDArray[np.float64]:
    """What an embedder has to make of the server's vectors for these texts, as they were sent."""
    rows = np.array([vector_of(text, dimensions) for text in texts])
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1)[:, None]
    return unit


def media_text(data: bytes, mime_type: str) -> str:
    """What stands for a file among the texts that arrive."""
    return f"{mime_type} {blake2b(data, digest_size=8).hexdigest()}"


_URL_SAFE = str.maketrans("+/", "-_")  # the SDK writes either


@dataclass(frozen=True)
class Arrived:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    size: int

    @property
    def items(self) -> list[dict[str, Any]]:
        """The single requests of one `batchEmbedContents`."""
        items: list[dict[str, Any]] = self.body["requests"]
        return items

    @property
    def texts(self) -> list[str]:
        """Each item's parts, joined; files by `media_text`."""
        return ["".join(_part_text(part) for part in item["content"]["parts"]) for item in self.items]

    @property
    def dimensions(self) -> list[int]:
        return [item.get("outputDimensionality", 3072) for item in self.items]


def _part_text(part: dict[str, Any]) -> str:
    if "text" in part:
        return str(part["text"])
    inline = part.get("inline_data") or part["inlineData"]
    return media_text(base64.urlsafe_b64decode(inline["data"].translate(_URL_SAFE)), inline["mime_type"])


class Reply:
    """The ways to answer one request, good and bad."""

    def __init__(self, handler: _Handler, arrived: Arrived) -> None:
        self._handler = handler
        self.arrived = arrived
        self.server = handler.google

    def json(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.raw(json.dumps(body).encode(), status, {"Content-Type": "application/json"} | (headers or {}))

    def raw(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self._handler.send_response(status)
        self._handler.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in (headers or {}).items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.write(body)
        self._handler.wfile.flush()

    def vectors(self, rows: list[Any], usage: dict[str, Any] | None = None) -> None:
        body: dict[str, Any] = {"embeddings": [{"values": row} for row in rows]}
        self.json(body | ({"usageMetadata": usage} if usage else {}))

    def close(self) -> None:
        """End the connection properly, whatever was sent."""
        self._handler.close_connection = True

    def reset(self) -> None:
        """End the connection by RST."""
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.close_connection = True

    def wait(self, seconds: float) -> bool:
        """Let time pass; True when the server is being stopped."""
        return self.server.stopping.wait(seconds)


Behaviour = Callable[[Reply], None]


def right_vectors(reply: Reply) -> list[list[float]]:
    arrived = reply.arrived
    texts = [reply.server.shows.get(text, text) for text in arrived.texts]
    return [vector_of(text, size).tolist() for text, size in zip(texts, arrived.dimensions, strict=True)]


def embed(reply: Reply) -> None:
    """The right answer."""
    reply.server.paid.update(reply.arrived.texts)
    reply.vectors(right_vectors(reply))


def embed_with_usage(tokens: int) -> Behaviour:
    """The right answer, with the tokens that it cost."""
    return lambda reply: reply.vectors(right_vectors(reply), {"promptTokenCount": tokens})


def rows(change: Callable[[list[list[float]]], list[Any]]) -> Behaviour:
    """An answer with status 200 and other rows than the right ones."""
    return lambda reply: reply.vectors(change(right_vectors(reply)))


def body(content: bytes, status: int = 200) -> Behaviour:
    """An answer of exactly these bytes."""
    return lambda reply: reply.raw(content, status)


def error(status: int, name: str = "", *details: dict[str, Any], headers: dict[str, str] | None = None) -> Behaviour:
    """An error as Google words it. Its message repeats the key and the texts, which a careless client passes on."""

    def behave(reply: Reply) -> None:
        message = f"stand-in: {reply.arrived.headers.get('x-goog-api-key')} {reply.arrived.body}"
        content = {"code": status, "message": message, "status": name, "details": list(details)}
        reply.json({"error": content}, status, headers)

    return behave


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}


def error_info(reason: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}


def close_early(reply: Reply) -> None:
    """Ends the connection without an answer."""
    reply.close()


def reset(reply: Reply) -> None:
    """Breaks the connection without an answer."""
    reply.reset()


def close_in_the_body(reply: Reply) -> None:
    """Promises more bytes than it sends."""
    reply.raw(b'{"embeddings": [', length=1000)
    reply.close()


def silence(reply: Reply) -> None:
    """Accepts the request and never answers."""
    reply.wait(60)
    reply.close()


def drip(reply: Reply) -> None:
    """Sends a byte of the body now and then, so that no single read is ever slow."""
    reply.raw(b"{", length=100_000)
    while not reply.wait(0.02):
        try:
            reply._handler.wfile.write(b" ")
        except OSError:
            reply.server.hung_up.set()
            break
    reply.close()


def _decoded(data: bytes) -> Any:
    """A body of JSON as what it says; any other, such as a file of JSON lines, as it is."""
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes, between which the client would wait 40 ms
    google: GoogleServer

    def _handle(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        arrived = Arrived(self.command, self.path, headers, _decoded(data), len(data))
        self.google.handle(Reply(self, arrived))

    do_GET = do_POST = do_DELETE = _handle

    def log_message(self, format: str, *args: Any) -> None:
        """The tests read what was recorded."""


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def shutdown_request(self, request: Any) -> None:
        # Without the usual shutdown, which would end the connection properly before `Reply.reset` can break it.
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""


Route = tuple[str, str, Behaviour]


@dataclass
class GoogleServer:
    """The server, its script and its records. `routes` are (method, pattern of the path, behaviour); `shows` says of
    files by `media_text` which text their vectors are those of."""

    script: deque[Behaviour] = field(default_factory=deque)
    arrived: list[Arrived] = field(default_factory=list)
    paid: Counter[str] = field(default_factory=Counter)
    token_counts: dict[str, int] = field(default_factory=dict)
    shows: dict[str, str] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)
    routes: list[Route] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.routes += [("POST", r".*:batchEmbedContents", _scripted), ("POST", r".*:countTokens", _count)]

    def start(self) -> None:
        """Listen, on the port of before if there was one."""
        self.stopping.clear()
        handler = type("Handler", (_Handler,), {"google": self})
        self._http = _HttpServer(("127.0.0.1", urlsplit(self.url).port or 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections, and break the open ones at their next request."""
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def handle(self, reply: Reply) -> None:
        if self.stopping.is_set():
            return reply.reset()
        arrived = reply.arrived
        with self._lock:
            self.arrived.append(arrived)
        for method, pattern, behaviour in self.routes:
            if method == arrived.method and re.fullmatch(pattern, arrived.path):
                return behaviour(reply)
        reply.json({"error": {"code": 404, "status": "NOT_FOUND", "message": arrived.path}}, 404)

    def next_behaviour(self) -> Behaviour:
        with self._lock:
            return self.script.popleft() if self.script else embed

    @property
    def embeds(self) -> list[Arrived]:
        """The requests to embed."""
        return [arrived for arrived in self.arrived if arrived.path.endswith(":batchEmbedContents")]

    @property
    def counts(self) -> list[Arrived]:
        """The requests to count tokens."""
        return [arrived for arrived in self.arrived if arrived.path.endswith(":countTokens")]

    @property
    def sent(self) -> Counter[str]:
        """How often each text arrived to be embedded."""
        return Counter(text for arrived in self.embeds for text in arrived.texts)


def _scripted(reply: Reply) -> None:
    reply.server.next_behaviour()(reply)


def _count(reply: Reply) -> None:
    parts = [part for content in reply.arrived.body["contents"] for part in content["parts"]]
    text = "".join(_part_text(part) for part in parts)
    # One token for each word and mark: far from Google's own, and as good for what depends on it.
    tokens = reply.server.token_counts.get(text, len(re.findall(r"\w+|[^\w\s]", text)))
    reply.json({"totalTokens": tokens})


@contextmanager
def google_server(monkeypatch: pytest.MonkeyPatch, *routes: Route) -> Iterator[GoogleServer]:
    """Run a server, and point the environment to it; `routes` come before the usual ones."""
    google = GoogleServer(routes=list(routes))
    google.start()
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", google.url)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    try:
        yield google
    finally:
        google.stop()


class Gate(OpenGate):
    """Lets everything pass and notes it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.pauses: list[float] = []

    def acquire(self, items: int, tokens: int) -> None:
        self.asked.append((items, tokens))

    def throttled(self, seconds: float) -> None:
        self.pauses.append(seconds)


# Pauses as short as can be, and enough time for an answer on a machine that is busy.
QUICK = RetryPolicy(deadline_seconds=60, attempts=4, attempt_seconds=30, first_wait=0.01, longest_wait=0.05)
QUICK_QUERIES = replace(QUICK, attempts=2)
# For servers that never end. The few tests that want a right answer after that want a small one.
IMPATIENT = replace(QUICK, attempt_seconds=0.3)
_HANGING = {"silence", "drip"}


def patience(behaviour: Behaviour) -> RetryPolicy:
    """The policy that a test of this behaviour needs."""
    return IMPATIENT if getattr(behaviour, "__name__", "") in _HANGING else QUICK


def google_profile(model: str = "gemini-embedding-2", dimensions: int = 768, **parts: Any) -> EmbeddingProfile:
    return make_profile(name="gemini", provider="google", model=model, dimensions=dimensions, **parts)


@contextmanager
def google_embedder(
    profile: EmbeddingProfile | None = None, documents: RetryPolicy = QUICK, queries: RetryPolicy = QUICK_QUERIES
) -> Iterator[GoogleEmbedder]:
    """An embedder that does not wait long, closed at the end."""
    embedder = GoogleEmbedder(profile or google_profile(), documents, queries)
    try:
        yield embedder
    finally:
        embedder.close()
