"""What every request passes before a route sees it: is it for us, who asks, how much, how long.

It is an ASGI application around the routes. Nothing of a body is read before the token is known to be good, and every
way out, an error too, has the same form and an id by which the log can be asked.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_assets.doors.http.access import Access, Caller
from rag_assets.doors.http.errors import HttpError, as_http, error_response
from rag_assets.doors.http.limits import Intake, Limits
from rag_assets.doors.http.measured import Measure
from rag_assets.printing import counted

_log = logging.getLogger(__name__)
_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE | re.ASCII)
_DRAIN_BYTES, _DRAIN_SECONDS = 8_000_000, 2.0
_WITHOUT_BODY = ("GET", "HEAD", "DELETE", "OPTIONS")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class Visit:
    """One request on its way: `query_id` names it here, `request_id` as the caller named it."""

    scope: Scope
    headers: Headers
    query_id: str
    request_id: str
    began: float
    status: int = 0  # 0: nothing was sent yet
    body_is_read: bool = False
    caller: Caller | None = None

    @property
    def peer(self) -> str:
        client = self.scope.get("client")
        return str(client[0]) if client else "unknown"


class Edge:
    """An ASGI application around the routes; `open_paths` need no token, and `measure` is told what requests took."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        limits: Limits,
        open_paths: Collection[str],
        measure: Measure | None = None,
    ) -> None:
        self._app, self._access, self._limits, self._open_paths = app, access, limits, open_paths
        self._measure = measure
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": ""})
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        visit = _visit(scope)
        sending = _noting(visit, send)
        try:
            await self._let_in(visit, receive, sending)
        except _Gone:
            _log.info("%s %s: the client went away", visit.query_id, scope["method"])
        except Exception as error:  # the last place that can answer
            await self._refuse(visit, error, receive, sending)
        self._note(visit)

    async def _let_in(self, visit: Visit, receive: Receive, send: Send) -> None:
        scope, headers = visit.scope, visit.headers
        _check_host(headers, self._limits.hosts)
        _check_page(headers, self._limits.origins)
        if scope["path"] in self._open_paths:
            return await self._app(scope, receive, send)
        caller = await self._access.caller(headers.getlist("authorization"), visit.peer)
        visit.caller = scope["state"]["caller"] = caller
        seconds = self._limits.seconds
        if scope["method"] not in _WITHOUT_BODY:
            intake = self._limits.intake(scope["method"], scope["path"])
            _check_head(headers, intake)
            if intake.is_whole:
                receive = _once(await _body(receive, intake))
                visit.body_is_read = True
            else:
                receive, seconds = _bounded(receive, intake, visit), seconds + intake.seconds
        await self._answered(visit, receive, send, seconds)

    async def _answered(self, visit: Visit, receive: Receive, send: Send, seconds: float) -> None:
        if self._running >= self._limits.concurrent:
            raise HttpError(503, "Busy", "this server answers as many requests as it can; ask again", retry_after=1)
        self._running += 1
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._app(visit.scope, receive, send)
        except TimeoutError as error:
            if not limit.expired():
                raise
            text = f"no answer within {seconds:g} s, which is as long as a request may take here"
            raise HttpError(503, "TimeLimitReached", text, retry_after=5) from error
        finally:
            self._running -= 1

    async def _refuse(self, visit: Visit, error: Exception, receive: Receive, send: Send) -> None:
        told = as_http(error)
        if told.status >= 500:
            _log.error("%s %s: %s", visit.query_id, type(error).__name__, error, exc_info=_unforeseen(error))
        if visit.status:
            return  # the beginning of an answer is sent: the connection ends with half of it, which is no answer
        response = error_response(told, visit.query_id)
        if not visit.body_is_read and visit.scope["method"] not in _WITHOUT_BODY:
            response.headers["Connection"] = "close"
            # Closed at once, a client that still sends would never see why.
            if "expect" not in visit.headers:
                await _drain(receive)
        with suppress(_Gone):
            await response(visit.scope, receive, send)

    def _note(self, visit: Visit) -> None:
        route = getattr(visit.scope.get("route"), "path", "-")
        who = f"{visit.caller.tenant}/{visit.caller.bot} token {visit.caller.token_id}" if visit.caller else "-"
        method, took = visit.scope["method"], time.monotonic() - visit.began
        if self._measure is not None:
            self._measure(method, route, visit.status, took)
        search = visit.scope["state"].get("search_id")
        about = f"{who} query {search}" if search else who
        _log.info("%s %s %s %d %.1f ms %s", visit.query_id, method, route, visit.status, took * 1000, about)


class _Gone(Exception):
    """The client has gone away before its request was whole."""


def _unforeseen(error: Exception) -> Exception | None:
    """The error, if its place in the code has to be looked for."""
    return error if as_http(error).kind == "InternalError" else None


def _visit(scope: Scope) -> Visit:
    headers = Headers(scope=scope)
    query_id = str(uuid4())
    given = headers.get("x-request-id", "")
    visit = Visit(scope, headers, query_id, given if _ID.fullmatch(given) else query_id, time.monotonic())
    scope.setdefault("state", {})["query_id"] = query_id
    return visit


def _noting(visit: Visit, send: Send) -> Send:
    async def more(message: Message) -> None:
        if message["type"] == "http.response.start":
            visit.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = visit.request_id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return more


def _check_host(headers: Headers, hosts: Collection[str]) -> None:
    if not hosts:
        return
    found = [_HOST.fullmatch(value) for value in headers.getlist("host")]
    if len(found) != 1 or found[0] is None or found[0]["name"].lower().rstrip(".").strip("[]") not in hosts:
        raise HttpError(400, "WrongHost", "this server does not answer under that name", argument="Host")


def _check_page(headers: Headers, origins: Collection[str]) -> None:
    """Nobody's page asks this server from a browser, unless its origin is listed. It gets no leave to read answers."""
    given = headers.getlist("origin")
    if any(one not in origins for one in given):
        raise HttpError(403, "Forbidden", "a page of that origin may not ask this server", argument="Origin")
    if not given and not set(headers.getlist("sec-fetch-site")) <= {"same-origin", "none"}:
        raise HttpError(403, "Forbidden", "a page of another site may not ask this server", argument="Sec-Fetch-Site")


def _check_head(headers: Headers, intake: Intake) -> None:
    types = [value.partition(";")[0].strip().lower() for value in headers.getlist("content-type")]
    if intake.types and (len(types) != 1 or types[0] not in intake.types):
        text = f"what is sent here has to be of the type {' or '.join(intake.types)}"
        raise HttpError(415, "UnsupportedMediaType", text, argument="Content-Type")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        text = "what is sent here must not be compressed"
        raise HttpError(415, "UnsupportedMediaType", text, argument="Content-Encoding")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 15 or int(length) > intake.max_bytes:
        raise _too_large(intake)


def _too_large(intake: Intake) -> HttpError:
    text = f"what is sent here may have at most {counted(intake.max_bytes, 'byte')}"
    return HttpError(413, "PayloadTooLarge", text)


async def _body(receive: Receive, intake: Intake) -> bytes:
    """The whole body."""
    bounded = _bounded(receive, intake)
    parts: list[bytes] = []
    while True:
        message = await bounded()
        if message["type"] != "http.request":
            raise _Gone
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _bounded(receive: Receive, intake: Intake, visit: Visit | None = None) -> Receive:
    """What comes, until it is too much or too late; the visit is told of its end."""
    size, end, is_done = 0, time.monotonic() + intake.seconds, False

    async def part() -> Message:
        nonlocal size, is_done
        if is_done:
            return await receive()
        try:
            async with asyncio.timeout(max(0.0, end - time.monotonic())):
                message = await receive()
        except TimeoutError as error:
            text = f"the body did not come within {intake.seconds:g} s"
            raise HttpError(408, "RequestTimeout", text) from error
        size += len(message.get("body", b""))
        if size > intake.max_bytes:
            raise _too_large(intake)
        is_done = not message.get("more_body", False)
        if visit is not None:
            visit.body_is_read = is_done
        return message

    return part


def _once(body: bytes) -> Receive:
    """A body that is there already. What comes after it is waited for by nobody."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _drain(receive: Receive) -> None:
    """Throw away what still comes, for a while."""
    left = _DRAIN_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
