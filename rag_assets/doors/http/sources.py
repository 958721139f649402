"""`GET /sources` and `GET /sources/{id}`: what there is to search, and how far it is."""

from __future__ import annotations

import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import Response

from rag_assets.doors.http.access import Caller
from rag_assets.doors.http.errors import HttpError, JsonResponse
from rag_assets.doors.http.models import PushedAnswer, SourceAnswer, SourcesAnswer, refusals
from rag_assets.doors.http.room import Room, may, query_id
from rag_assets.doors.push import apushed_status
from rag_assets.errors import InvalidArgument, ProfileNotReady
from rag_assets.sources.secrets import without_secrets
from rag_assets.store.visible import VisibleSource, visible_sources

MAX_PAGE = 200
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_Caller = Annotated[Caller, Depends(may("search"))]
_Watcher = Annotated[Caller, Depends(may("search", "push"))]
_QueryId = Annotated[str, Depends(query_id)]


def sources_router(room: Room) -> APIRouter:
    """The two routes that tell of sources."""
    router = APIRouter(tags=["sources"], responses=refusals())

    @router.get("/sources", response_model=SourcesAnswer, summary="List the sources that the token may see.")
    async def sources(
        caller: _Caller,
        name: _QueryId,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Most sources of a page.")] = 50,
        after: Annotated[UUID | None, Query(description="`next` of the page before.")] = None,
        status: Annotated[
            str | None, Query(max_length=20, pattern="^[a-z_]+$", description="Only sources of this status.")
        ] = None,
    ) -> Response:
        """A page at a time, by id."""
        found = await _seen(room, caller, limit + 1, after=after, status=status)
        page = [_told(one) for one in found[:limit]]
        following = page[-1]["id"] if len(found) > limit else None
        return JsonResponse({"query_id": name, "sources": page, "next": following})

    @router.get(
        "/sources/{id:path}",
        response_model=SourceAnswer | PushedAnswer,
        responses=refusals(404),
        summary="Say how far one source is.",
    )
    async def source(
        caller: _Watcher,
        name: _QueryId,
        which: Annotated[str, Path(alias="id", description="Its id, or the one that it was pushed under.")],
    ) -> Response:
        """One that the token may not see is the same as one that is not there."""
        found = await _seen(room, caller, 1, which=UUID(which)) if _UUID.fullmatch(which) else []
        if found and "search" in caller.may:
            return JsonResponse({"query_id": name, **_told(found[0])})
        try:
            pushed = await apushed_status(room.database, caller.tenant, caller.bot, which, user=caller.user_id)
        except InvalidArgument as error:  # no id that anything could have been pushed under
            raise HttpError(404, "NotFound", "there is no such source", argument="id") from error
        return JsonResponse({"query_id": name, **pushed})

    return router


async def _seen(room: Room, caller: Caller, limit: int, **which: Any) -> list[VisibleSource]:
    """Sources of the bot and of what all bots share. Where nothing is ready to be searched, there may be sources."""
    settings: dict[str, str | None] = {"tenant": caller.tenant, "bot": caller.bot, "user": caller.user_id}
    profiles: list[int] = []
    try:
        scope = await room.opened(caller)
    except ProfileNotReady:
        pass  # its sources say how far they are
    else:
        settings = dict(scope.settings)
        profiles = [one.profile_id for one in (scope, scope.shared) if one is not None]
    (rows,) = await room.database.aask(settings, [visible_sources(profiles, limit, **which)])
    return rows


def _told(one: VisibleSource) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": str(one.id),
        "name": one.name,
        "source_type": one.source_type,
        "content_type": one.content_type,
        "locale": one.locale,
        "status": one.status,
        "error": one.error,
        "url": one.url,
        "space": one.space,
        "published": one.published,
        "chunks": one.chunks,
        "up_to_date": one.up_to_date,
        "created_at": one.created_at.isoformat(),
        "updated_at": one.updated_at.isoformat(),
    }
    return without_secrets(told, one.external_id)
