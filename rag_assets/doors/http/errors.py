"""Errors as the HTTP door says them: one JSON form, the right status, and nothing of the inside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from rag_assets.errors import (
    ChatError,
    DatabaseFailed,
    DatabaseRefused,
    DatabaseUnavailable,
    EmbeddingError,
    InvalidArgument,
    ProfileNotReady,
    PushLimitReached,
    RagError,
    ScopeError,
    ScopeRefused,
    TextRefused,
    TimeLimitReached,
    TokenizerUnavailable,
    UnknownBot,
    UnknownSource,
    UsageError,
)

_AGAIN_S = 5.0  # when to ask a store again that is away


class HttpError(RagError):
    """A request that is refused at the door, with its status. `kind` is the `type` of its JSON, `argument` the field or
    header at fault, and `retry_after` the seconds after which another try may be answered."""

    def __init__(
        self, status: int, kind: str, message: str, *, argument: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.argument, self.retry_after = status, kind, argument, retry_after


@dataclass(frozen=True)
class _Said:
    """What the caller is told of an error of the inside: the log has the rest."""

    status: int
    message: str
    retry_after: float | None = None


# The first that fits. Their own texts name servers, models and paths, which are no business of who asks.
_SAID: tuple[tuple[type[RagError], _Said], ...] = (
    (DatabaseUnavailable, _Said(503, "the store does not answer now; nothing was done", _AGAIN_S)),
    (
        ScopeRefused,
        _Said(503, "the store takes no scope of this server: is its RAG_SCOPE_KEY in use? Its log says why"),
    ),
    (DatabaseRefused, _Said(503, "the store cannot be used as it is set up; the log of this server says why")),
    (DatabaseFailed, _Said(500, "the store failed at this; the log of this server says why")),
    (ProfileNotReady, _Said(503, "nothing of this bot is ready to be searched")),
    (UnknownBot, _Said(404, "the bot of this token is not there any more")),
    (ScopeError, _Said(500, "the scope of this token could not be searched; the log of this server says why")),
    (TimeLimitReached, _Said(503, "this took longer than it may", _AGAIN_S)),
    (EmbeddingError, _Said(503, "the query could not be embedded; the log of this server says why", _AGAIN_S)),
    (ChatError, _Said(503, "a model that this search needs gave no answer", _AGAIN_S)),
    (TokenizerUnavailable, _Said(503, "tokens cannot be counted here; the log of this server says why")),
)


def as_http(error: Exception) -> HttpError:
    """An error of the inside as the caller is told it."""
    if isinstance(error, HttpError):
        return error
    kind = type(error).__name__
    if isinstance(error, TextRefused):
        return HttpError(
            400, kind, "the query cannot be embedded: it is blank, or its model refuses it", argument="query"
        )
    for of, said in _SAID:
        if isinstance(error, of):
            return HttpError(said.status, kind, said.message, retry_after=said.retry_after)
    if isinstance(error, PushLimitReached):
        return HttpError(409, kind, str(error))
    if isinstance(error, UnknownSource):
        return HttpError(404, "NotFound", "there is no such source", argument="id")
    if isinstance(error, InvalidArgument):
        return HttpError(400, kind, str(error), argument=error.argument or None)
    if isinstance(error, UsageError):
        return HttpError(400, kind, str(error))
    return HttpError(500, "InternalError", "this server failed at that; its log says why")


def error_response(error: HttpError, query_id: str) -> Response:
    """The error as JSON, with the headers that belong to its status."""
    told: dict[str, Any] = {"type": error.kind, "message": str(error)}
    if error.argument is not None:
        told["argument"] = error.argument
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JsonResponse({"error": {**told, "query_id": query_id}}, error.status, headers)


class JsonResponse(Response):
    """JSON in UTF-8. What a document may hold and UTF-8 may not stays as an escape."""

    media_type = "application/json"

    def __init__(
        self, content: Mapping[str, Any], status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        """See `Response.render`."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "backslashreplace")
