"""`PUT` and `DELETE /sources/{id}`: a document is handed over, or taken back. The next ingest makes a source of it."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import Response

from rag_assets.documents.names import media_type
from rag_assets.doors.http.access import Caller
from rag_assets.doors.http.errors import HttpError, JsonResponse
from rag_assets.doors.http.models import PushAnswer, PushRequest, Removed, refusals
from rag_assets.doors.http.room import Room, may, query_id
from rag_assets.doors.push import adelete_pushed, apush_document
from rag_assets.errors import InvalidArgument

_JSON = "application/json"
_UNTOLD = ("", "application/octet-stream", "application/x-www-form-urlencoded")  # what clients send unasked
_Caller = Annotated[Caller, Depends(may("push"))]
_QueryId = Annotated[str, Depends(query_id)]
_Id = Annotated[str, Path(alias="id", description="The caller's own name of the document; it may have slashes.")]
_BODY = {
    "required": True,
    "description": "JSON with the text, or the bytes of a file under its own Content-Type.",
    "content": {
        _JSON: {"schema": PushRequest.model_json_schema()},
        "*/*": {"schema": {"type": "string", "format": "binary"}},
    },
}
_UNCHANGED: dict[str, Any] = {"model": PushAnswer, "description": "Nothing was written"}


def push_router(room: Room) -> APIRouter:
    """The two routes that change what a bot is given."""
    router = APIRouter(tags=["sources"])

    @router.put(
        "/sources/{id:path}",
        response_model=PushAnswer,
        responses={200: _UNCHANGED, **refusals(400, 401, 403, 404, 408, 409, 413, 415, 429, 503)},
        summary="Hand over a document, or another version of it.",
        openapi_extra={"requestBody": _BODY},
        status_code=202,
    )
    async def push(
        caller: _Caller,
        asked: _QueryId,
        which: _Id,
        request: Request,
        name: Annotated[str | None, Query(description="Of a file: what people know it by. (default: the id)")] = None,
        x_metadata: Annotated[
            str | None, Header(description="Of a file: an object in JSON, percent-encoded where it is not ASCII.")
        ] = None,
    ) -> Response:
        """It is kept in the scope of the token, and read by the next ingest; `GET` says when it is served. What has
        not changed is not written, and is answered with 200."""
        given = _document(await request.body(), request.headers.get("content-type", ""), name, x_metadata)
        try:
            kept = await apush_document(
                room.database, caller.tenant, caller.bot, which, user=caller.user_id, by=f"token {caller.token_id}",
                **given,
            )  # fmt: skip
        except InvalidArgument as error:
            raise _in_words_of_http(error) from error
        return JsonResponse({"query_id": asked, **kept}, 202 if kept["outcome"] == "pushed" else 200)

    @router.delete(
        "/sources/{id:path}",
        response_model=Removed,
        responses=refusals(400, 401, 403, 404, 429, 503),
        summary="Take a document back that was handed over.",
    )
    async def remove(caller: _Caller, asked: _QueryId, which: _Id) -> Response:
        """Its content is gone now, and its passages with the next ingest. Sources of other roots are left alone."""
        try:
            gone = await adelete_pushed(room.database, caller.tenant, caller.bot, which, user=caller.user_id)
        except InvalidArgument as error:
            raise _in_words_of_http(error) from error
        if not gone:
            raise HttpError(404, "NotFound", "nothing was pushed under this id", argument="id")
        return JsonResponse({"query_id": asked, "id": which, "deleted": True})

    return router


def _document(body: bytes, kind: str, name: str | None, metadata: str | None) -> dict[str, Any]:
    """What is handed over, as `push_document` takes it.

    Raises:
        RequestValidationError, InvalidArgument, HttpError: it is not as the route says.
    """
    if media_type(kind).startswith("multipart/"):
        text = "a file is sent as the body itself and not as a form: curl -T FILE, with its name in ?name="
        raise HttpError(415, "UnsupportedMediaType", text, argument="Content-Type")
    if media_type(kind) != _JSON:
        told = None if media_type(kind) in _UNTOLD else kind
        return {"data": body, "name": name, "content_type": told, "metadata": _metadata(metadata)}
    if name is not None or metadata is not None:
        raise InvalidArgument("name and metadata of a text are fields of the JSON", "name")
    return _given(body)


def _given(body: bytes) -> dict[str, Any]:
    """A text with what is said of it.

    Raises:
        RequestValidationError: it is not as `PushRequest` says.
    """
    try:
        found = PushRequest.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in faults]) from error
    return {"data": found.text, "name": found.name, "content_type": found.content_type, "metadata": found.metadata}


def _metadata(header: str | None) -> Any:
    if header is None:
        return None
    try:
        return json.loads(unquote(header, errors="strict"))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"X-Metadata is no JSON: {error}", "X-Metadata") from error


def _in_words_of_http(error: InvalidArgument) -> InvalidArgument:
    """What is wrong, with the name that the argument has here."""
    names = {"key": "id", "data": "body"}
    if error.argument not in names:
        return error
    here = names[error.argument]
    return InvalidArgument(str(error).replace(error.argument, here, 1), here)
