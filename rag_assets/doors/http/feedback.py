"""`POST /feedback`: what helped whoever asked, noted in the query log."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends
from starlette.responses import Response

from rag_assets.doors.http.access import Caller
from rag_assets.doors.http.errors import HttpError, JsonResponse
from rag_assets.doors.http.models import FeedbackAnswer, FeedbackRequest, refusals
from rag_assets.doors.http.room import Room, may
from rag_assets.retrieval.feedback import arecord_feedback

_Caller = Annotated[Caller, Depends(may("feedback"))]


def feedback_router(room: Room) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["feedback"], responses=refusals(400, 401, 403, 404, 408, 413, 415, 429, 503))

    @router.post("/feedback", response_model=FeedbackAnswer, summary="Say whether a result helped whoever asked.")
    async def feedback(said: FeedbackRequest, caller: _Caller) -> Response:
        """It is noted in the query log, where that is on (`RAG_QUERY_LOG`); a later word replaces an earlier one, and
        null takes it back. 404 where the log has no such query of this token's scope with such a result."""
        query, chunk = _id(said.query_id, "query_id"), _id(said.chunk_id, "chunk_id")
        scope = await room.opened(caller)
        if not await arecord_feedback(room.database, scope, query, chunk, said.helpful):
            text = "the query log has no such query of this token's scope with such a result"
            raise HttpError(404, "NotFound", text)
        return JsonResponse({"query_id": str(query), "chunk_id": str(chunk), "helpful": said.helpful})

    return router


def _id(text: str, name: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise HttpError(400, "InvalidArgument", f"{name} must be an id", argument=name) from None
