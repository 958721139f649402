"""The process of `rag serve`: an application behind a socket, until it is told to stop."""

from __future__ import annotations

import logging
import signal
import socket

import uvicorn
from fastapi import FastAPI

from rag_assets.doors.http.connection import BoundedConnection
from rag_assets.doors.http.limits import IDLE_SECONDS, Limits

_BACKLOG = 512
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_STOP_MARGIN_S = 5.0  # beyond what a request may take


def make_server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """A server of the application. Told to stop, it takes no further connection, ends what it answers and closes."""
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=list(limits.proxies),
        backlog=_BACKLOG,
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=int(limits.seconds + _STOP_MARGIN_S),
    )
    return uvicorn.Server(config)


def serve(app: FastAPI, limits: Limits, bound: socket.socket) -> signal.Signals | None:
    """Answer until SIGTERM or Ctrl-C, and return which it was. Both end what is being answered first, and a second
    Ctrl-C does not."""
    heard: list[int] = []

    # The server hands on the signals that it got when it has ended; whoever told it to stop got what they wanted.
    before = {number: signal.signal(number, lambda told, _: heard.append(told)) for number in _STOPPING}
    try:
        make_server(app, limits).run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return signal.Signals(heard[0]) if heard else None


def log_to_stderr() -> None:
    """Write what the door notes, and warnings of everything else."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("rag_assets.doors").setLevel(logging.INFO)
