"""An MCP server run to its end: over stdin and stdout, or over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_assets.bearer import brings
from rag_assets.doors.http.connection import BoundedConnection
from rag_assets.doors.listening import answer_until_told
from rag_assets.store.database import Database

PATH = "/mcp"
_MOST_BYTES = 32 * 2**20  # of a request; a pushed document among them, as JSON
_SESSIONS, _SESSION_IDLE_S = 1_000, 600.0
_CLOSE_S = 5  # what calls in progress get when the server is told to end
_INTERRUPTED = 130


def serve_stdio(server: Server[Any], database: Database) -> int:
    """Serve the process that started this one until it closes stdin, or this process is told to end."""
    _log_to_stderr()
    return asyncio.run(_stdio(server, database))


async def _stdio(server: Server[Any], database: Database) -> int:
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number, code in ((signal.SIGINT, _INTERRUPTED), (signal.SIGTERM, 0)):
        asyncio.get_running_loop().add_signal_handler(number, _tell, told, code)
    serving = asyncio.create_task(_serve_streams(server))
    either: set[asyncio.Future[Any]] = {serving, told}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    await database.aclose()
    if told.done():
        # A thread waits for the next line of stdin, which nothing but that line would end.
        sys.stderr.flush()
        os._exit(told.result())
    serving.result()
    return 0


def _tell(told: asyncio.Future[int], code: int) -> None:
    if not told.done():
        told.set_result(code)


async def _serve_streams(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(
    server: Server[Any], database: Database, listener: socket.socket, token: str, hosts: Sequence[str] = ()
) -> signal.Signals | None:
    """Serve whoever brings the token until this process is told to end, and return by which signal. `hosts` are names,
    beside those of this machine's own address, by which clients may call it.

    Any other name in `Host` or `Origin` is refused, so that no web page makes a browser ask.
    """
    _log_to_stderr()
    app = http_app(server, database, listener.getsockname()[1], token, hosts)
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_CLOSE_S,
        timeout_keep_alive=30,
    )
    return answer_until_told(config, listener)


def http_app(server: Server[Any], database: Database, port: int, token: str, hosts: Sequence[str] = ()) -> ASGIApp:
    """The server as an ASGI application, at `/mcp`."""
    own = ["127.0.0.1", "localhost", "[::1]"]
    names = [f"{name}:{port}" for name in own] + [one for name in hosts for one in (name, f"{name}:{port}")]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_MOST_BYTES,
        max_sessions=_SESSIONS,
        session_idle_timeout=_SESSION_IDLE_S,
        transport_security=TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins),
    )
    return _Locked(app, token, database.aclose)


class _Locked:
    """An application that answers only who brings the token; what it used is given back when it ends."""

    def __init__(self, app: ASGIApp, token: str, end: Callable[[], Awaitable[None]]) -> None:
        self._app, self._token, self._end = app, token, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, lambda message: self._ending(message, send))
        elif scope["type"] == "http" and not brings(Headers(scope=scope).get("authorization", ""), self._token):
            refusal = JSONResponse(
                {"error": "invalid_token", "error_description": "a bearer token is needed"},
                401,
                {"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _ending(self, message: Message, send: Send) -> None:
        if message["type"].startswith("lifespan.shutdown"):
            await self._end()  # before it is said: the loop ends then
        await send(message)


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
