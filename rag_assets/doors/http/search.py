"""`POST /search` and `POST /context`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from rag_assets.doors.http.access import Caller
from rag_assets.doors.http.errors import JsonResponse
from rag_assets.doors.http.models import ContextAnswer, ContextRequest, SearchAnswer, SearchRequest, refusals
from rag_assets.doors.http.room import Chosen, Room, may
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.context import format_retrieved_context
from rag_assets.retrieval.results import Retrieval

_Caller = Annotated[Caller, Depends(may("search"))]
_REFUSALS = refusals(400, 401, 403, 404, 408, 413, 415, 429, 503)


def search_router(room: Room) -> APIRouter:
    """The two routes that search."""
    router = APIRouter(tags=["search"], responses=_REFUSALS)

    @router.post("/search", response_model=SearchAnswer, summary="Search what the token's bot knows.")
    async def search(asked: SearchRequest, caller: _Caller, request: Request) -> Response:
        """Results come best first, each with its citation, and with the same keys as `rag search --json` has."""
        chosen, profile, found = await _found(room, asked, caller, request)
        how = {"mode": chosen.mode, "retriever": chosen.name if chosen.mode is None else None}
        return JsonResponse({"profile": profile, **how, **found.to_dict()})

    @router.post("/context", response_model=ContextAnswer, summary="Search, and write what was found for a model.")
    async def context(asked: ContextRequest, caller: _Caller, request: Request) -> Response:
        """The text has numbered passages within `max_tokens`, in which documents are quoted and stay data. A model is
        told to cite `[1]`, and `passages` says what that is."""
        _, profile, found = await _found(room, asked, caller, request)
        made = await asyncio.to_thread(
            format_retrieved_context, found.results, asked.max_tokens, per_source=asked.per_source
        )
        left = [
            {"chunk_id": str(one.chunk_id), "source_name": one.source_name, "why": one.why, "of": one.of}
            for one in made.left_out
        ]
        told: dict[str, Any] = found.to_dict()
        return JsonResponse(
            {
                "profile": profile,
                "text": made.text,
                "tokens": made.tokens,
                "passages": [{"number": number, **one.to_dict()} for number, one in made.passages.items()],
                "left_out": left,
                **{key: told[key] for key in ("query_id", "rung", "timings_ms", "degraded")},
            }
        )

    return router


async def _found(room: Room, asked: SearchRequest, caller: Caller, request: Request) -> tuple[Chosen, str, Retrieval]:
    """What is found for a question, by which retriever, and the name of the profile that was searched."""
    if not asked.query.strip():
        raise InvalidArgument("the query is empty", "query")
    chosen = room.retriever(asked.retriever)
    scope = await room.opened(caller, asked.request_key)
    found = await chosen.made.asearch(asked.query, scope, asked.top_k, asked.filters)
    request.state.search_id = found.query_id  # for the log
    return chosen, scope.profile.name, found
