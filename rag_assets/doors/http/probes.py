"""`GET /health` and `GET /ready`: for who runs the server, without a token."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from rag_assets.doors.http.errors import JsonResponse, as_http, error_response
from rag_assets.doors.http.models import refusals
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


def probes_router(room: Room) -> APIRouter:
    """The two routes."""
    router = APIRouter(tags=["operation"])

    @router.get("/health", response_model=Status, summary="Say that the process lives; nothing is asked.")
    async def health() -> Response:
        """For who restarts a process that hangs."""
        return JsonResponse({"status": "ok"})

    @router.get(
        "/ready", response_model=Status, responses=refusals(503), summary="Say that the database answers as it should."
    )
    async def ready(request: Request) -> Response:
        """503 with the reason where it is away, has an older schema, or takes no scope of this server."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                await room.database.aask(_NOBODY, [token_of(NO_TOKEN), scope_tenant()])
        except TimeoutError:
            _log.warning("not ready: the database gave no answer within %g seconds", _ANSWER_S)
            late = DatabaseUnavailable("no answer in time")
            return error_response(as_http(late), request.state.query_id)
        except RagError as error:
            _log.warning("not ready: %s: %s", type(error).__name__, error)
            return error_response(as_http(error), request.state.query_id)
        return JsonResponse({"status": "ok"})

    return router
