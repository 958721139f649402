"""The application of `rag serve`: its routes, and the edge around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

from rag_assets.doors.http.access import Access
from rag_assets.doors.http.edge import Edge
from rag_assets.doors.http.errors import HttpError, error_response
from rag_assets.doors.http.feedback import feedback_router
from rag_assets.doors.http.limits import Limits
from rag_assets.doors.http.measured import measuring, metrics_router
from rag_assets.doors.http.models import ASKED
from rag_assets.doors.http.probes import probes_router
from rag_assets.doors.http.push import push_router
from rag_assets.doors.http.replicas import ReplicaWatch
from rag_assets.doors.http.room import Room
from rag_assets.doors.http.search import search_router
from rag_assets.doors.http.sources import sources_router
from rag_assets.errors import alike, did_you_mean, shown
from rag_assets.observing.started import Telemetry
from rag_assets.retrieval.protocol import Retriever
from rag_assets.store.database import Database

OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json", "/metrics"})  # without a token of a caller
_KINDS = {
    404: ("NotFound", "there is nothing at this path"),
    405: ("MethodNotAllowed", "this path takes other methods"),
}
_NAMED_CHARS = 100  # of the name of a field that there is not
_ABOUT = (
    "Searches of one bot of one tenant, which the bearer token stands for. TLS is left to a proxy in front of it. "
    "Every error has the form of `ErrorAnswer`."
)


def make_app(
    database: Database,
    retrievers: Mapping[str, Retriever] | None = None,
    limits: Limits | None = None,
    telemetry: Telemetry | None = None,
) -> FastAPI:
    """The application over a database, whose searches go through its app login. `retrievers` are what callers may name
    beside `dense`, `lexical` and `hybrid`; one that is called `default` answers those who name none. `telemetry` is
    what `GET /metrics` tells, and where requests are counted; without it there is no such path.

    It closes the connections of its event loop when it ends.
    """
    limits = limits or Limits()
    room = Room(database, retrievers or {})

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        await database.aclose()

    app = FastAPI(
        title="rag-assets",
        version=version("rag-assets"),
        description=_ABOUT,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        lifespan=living,
        redirect_slashes=False,
        middleware=[
            Middleware(
                Edge,
                access=Access(database, limits.rate),
                limits=limits,
                open_paths=OPEN_PATHS,
                measure=measuring(telemetry) if telemetry else None,
            )
        ],
    )
    app.openapi = _described(app)  # type: ignore[method-assign]
    watch = ReplicaWatch(database, telemetry)
    for make in (search_router, feedback_router, sources_router, push_router):
        app.include_router(make(room))
    app.include_router(probes_router(room, watch))
    if telemetry:
        app.include_router(metrics_router(telemetry, limits.metrics_token, limits.hosts, watch.measure))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    return app


def _described(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The description without the framework's own form of an error, which no route answers with."""
    usual = app.openapi

    def described() -> dict[str, Any]:
        found = usual()
        for methods in found["paths"].values():
            for about in methods.values():
                about["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        return found

    return described


async def _invalid(request: Request, error: Exception) -> Response:
    """What is not as the models say it, as all errors are said."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    argument, message = ".".join(str(part) for part in first["loc"][1:]), str(first["msg"])
    if first["type"] == "json_invalid":
        told = _invalid_argument(f"the body is no JSON: {first.get('ctx', {}).get('error', '')}")
    elif not argument:
        told = _invalid_argument("the body has to be an object in JSON")
    elif first["type"] == "extra_forbidden":
        told = _invalid_argument(_unknown_field(request, argument), argument[:_NAMED_CHARS])
    else:
        told = _invalid_argument(f"{shown(argument)}: {message[0].lower()}{message[1:]}", argument[:_NAMED_CHARS])
    return error_response(told, request.state.query_id)


def _unknown_field(request: Request, name: str) -> str:
    """That a route takes no field of this name, with the one that was meant, or all that it takes."""
    model = ASKED.get(getattr(request.scope.get("route"), "path", ""))
    known = list(model.model_fields) if model else []
    likely = alike(name, known)
    meant = did_you_mean(likely) if likely else f"there are: {', '.join(known)}" if known else ""
    return f"{shown(name)} is no field here" + (f"; {meant}" if meant else "")


def _invalid_argument(message: str, argument: str | None = None) -> HttpError:
    return HttpError(400, "InvalidArgument", message, argument=argument)


async def _http(request: Request, error: Exception) -> Response:
    """What the framework refuses, as all errors are said."""
    assert isinstance(error, HTTPException)
    kind, message = _KINDS.get(error.status_code, ("InvalidArgument", "the request cannot be read"))
    told = HttpError(error.status_code, kind, message)
    response = error_response(told, request.state.query_id)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
