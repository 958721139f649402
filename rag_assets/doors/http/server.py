"""How `rag serve` serves its application, and where it writes what it notes."""

from __future__ import annotations

import logging

import uvicorn
from fastapi import FastAPI

from rag_assets.doors.http.connection import BoundedConnection
from rag_assets.doors.http.limits import IDLE_SECONDS, Limits

_BACKLOG = 512
_STOP_MARGIN_S = 5.0  # beyond what a request may take


def config_of(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """How the application is served. Told to stop, it takes no further connection, ends what it answers and closes."""
    return uvicorn.Config(
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


def log_to_stderr() -> None:
    """Write what the door notes, and warnings of everything else."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("rag_assets.doors").setLevel(logging.INFO)
