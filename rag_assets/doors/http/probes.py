"""`GET /health` and `GET /ready`: for who runs the server, without a token."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from rag_assets.doors.http.errors import JsonResponse, as_http, error_response
from rag_assets.doors.http.models import refusals
from rag_assets.doors.http.replicas import ReplicaWatch
from rag_assets.doors.http.room import Room
from rag_assets.errors import DatabaseUnavailable, RagError
from rag_assets.store.search import scope_tenant
from rag_assets.store.tokens import NO_TOKEN, token_of

_log = logging.getLogger(__name__)
_ANSWER_S = 3.0  # who probes waits seconds; a search tries longer, and again

_NOBODY = {"tenant": "nobody", "bot": "nobody"}  # nothing is read in it: only whether a scope of this server is taken


class Status(BaseModel):
    """That it is well."""

    status: str = "ok"


class Ready(Status):
    """That searches are answered; and where they go to a replica, how that stands to its primary."""

    primary: str | None = Field(
        None, description="`ok`, or `unavailable`: then nothing is written, and searches go on."
    )
    replica: str | None = Field(None, description="`ok`, or `promoted` where it follows nobody any more.")
    replica_lag_s: float | None = Field(None, description="Seconds that the replica is behind.")


def probes_router(room: Room, watch: ReplicaWatch) -> APIRouter:
    """The two routes."""
    router = APIRouter(tags=["operation"])

    @router.get("/health", response_model=Status, summary="Say that the process lives; nothing is asked.")
    async def health() -> Response:
        """For who restarts a process that hangs."""
        return JsonResponse({"status": "ok"})

    @router.get(
        "/ready", response_model=Ready, responses=refusals(503), summary="Say that the database answers as it should."
    )
    async def ready(request: Request) -> Response:
        """503 with the reason where it is away, has an older schema, or takes no scope of this server. Where searches
        go to a replica, a primary that is away is told, and is no reason."""
        told = {"status": "ok"}
        try:
            async with asyncio.timeout(_ANSWER_S):
                await room.database.aask(_NOBODY, [token_of(NO_TOKEN), scope_tenant()])
                told |= await watch.told()
        except TimeoutError:
            _log.warning("not ready: the database gave no answer within %g seconds", _ANSWER_S)
            late = DatabaseUnavailable("no answer in time")
            return error_response(as_http(late), request.state.query_id)
        except RagError as error:
            _log.warning("not ready: %s: %s", type(error).__name__, error)
            return error_response(as_http(error), request.state.query_id)
        return JsonResponse(told)

    return router
