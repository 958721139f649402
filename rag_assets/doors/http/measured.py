"""`GET /metrics`, and what the door itself measures: how long requests take, by route and status."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rag_assets.bearer import brings
from rag_assets.doors.http.errors import HttpError
from rag_assets.observing.started import Telemetry

Measure = Callable[[str, str, int, float], None]  # method, route, status, seconds
_PASSED_ON = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")
_LOCAL = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
_OWN_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)


def metrics_router(
    telemetry: Telemetry, token: str | None, hosts: Collection[str], before: Callable[[], Awaitable[None]]
) -> APIRouter:
    """The route. Metrics name tenants and bots, which no caller may learn: it has a token of its own, and without one
    answers only who asks from this machine, and nobody whom a proxy brings. Nor may they be asked for under a foreign
    name, which a page gives to this machine to read them: `hosts` are the names that every request is held to, if any.
    `before`: brings up to date what is measured when it is asked for.
    """
    router = APIRouter(tags=["operation"], include_in_schema=False)

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        """What Prometheus scrapes."""
        if token is None and not _is_local(request, bool(hosts)):
            text = "metrics are told to this machine alone; RAG_SERVE_METRICS_TOKEN lets others in"
            raise HttpError(403, "Forbidden", text)
        if token is not None and not brings(request.headers.get("authorization", ""), token):
            raise HttpError(401, "Unauthorized", "metrics have a token of their own: RAG_SERVE_METRICS_TOKEN")
        await before()
        body, content_type = telemetry.prometheus(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    return router


def _is_local(request: Request, is_host_known: bool) -> bool:
    return (
        request.client is not None
        and request.client.host in _LOCAL
        and (is_host_known or _OWN_NAME.fullmatch(request.headers.get("host", "")) is not None)
        and not any(name in request.headers for name in _PASSED_ON)
    )


def measuring(telemetry: Telemetry) -> Measure:
    """What the edge tells each request to, by the names of OpenTelemetry."""
    meter = telemetry.meters.get_meter("rag_assets.doors.http")
    taken = meter.create_histogram(
        "http.server.request.duration",
        "s",
        "Duration of requests",
        explicit_bucket_boundaries_advisory=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    )

    def measure(method: str, route: str, status: int, seconds: float) -> None:
        about: dict[str, str | int] = {"http.request.method": method, "http.route": route}
        taken.record(seconds, {**about, "http.response.status_code": status})

    return measure
