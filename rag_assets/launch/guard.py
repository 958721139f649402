"""What stands in front of Dagster's webserver, which itself asks nobody who they are.

Any page that is open in the same browser can send requests to an address of this machine. So a request has to be for a
name that is ours (a foreign one may point here, by its owner's DNS), from one of our own pages or from no page at all,
and what changes something has to be JSON by POST, which a page cannot send elsewhere unasked. Where others reach the
server, a token is needed besides.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from html import escape
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_assets.bearer import brings, is_same

LOGIN = "/login"
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_HEADERS = {
    # No other page may show ours in a frame and have it clicked, nor take parts of it.
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PAGE = (
    '<!doctype html><meta charset="utf-8"><title>rag dev</title>{head}'
    '<body style="font: 1rem sans-serif; margin: 4rem">{body}'
)
_FORM = (
    '<form action="{action}"><label>Token, as <code>rag dev</code> printed it: '
    '<input type="password" name="token" autofocus></label> <button>Log in</button></form>'
)


@dataclass(frozen=True)
class Rules:
    """Whom the guard lets in.

    Attributes:
        names: under which browsers may ask, in lower case, without port.
        any_address: also any IP address: nobody's DNS can make one point elsewhere.
        token: that every request has to bring; None where all who reach this machine's own address may come in.
        cookie: its name; browsers do not keep cookies of different ports apart.
    """

    names: frozenset[str]
    any_address: bool = False
    token: str | None = None
    cookie: str = "rag_dev"

    @property
    def pass_(self) -> str:
        """What a browser that has shown the token keeps instead of it."""
        return hmac.new((self.token or "").encode(), b"rag dev cookie", hashlib.sha256).hexdigest()


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is not let in; pass on any other."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        answer = self._answer(HTTPConnection(scope))
        if answer is None:
            return await self._app(scope, receive, _with_headers(send))
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": ""})
        await answer(scope, receive, _with_headers(send))

    def _answer(self, connection: HTTPConnection) -> Response | None:
        headers, scope = connection.headers, connection.scope
        refusal = _foreign_name(headers, self._rules) or _foreign_page(headers, scope)
        if refusal:
            return PlainTextResponse(f"{refusal}\n", 403)
        if self._rules.token is not None:
            if scope["path"] == LOGIN:
                return self._login(connection)
            if not self._has_token(connection):
                return _unknown(headers)
        if scope["type"] == "http" and (wrong := _wrong_request(connection)):
            status, reason = wrong
            return PlainTextResponse(f"{reason}\n", status)
        return None

    def _login(self, connection: HTTPConnection) -> Response:
        if not is_same(connection.query_params.get("token", ""), self._rules.token or ""):
            return _unknown(connection.headers, "That is not the token.")
        # A page and not a redirect: after a link from elsewhere, the browser would not send the cookie along with it.
        head = '<meta http-equiv="refresh" content="0; url=/">'
        response = HTMLResponse(_PAGE.format(head=head, body='<a href="/">Go on</a>'))
        response.headers["Cache-Control"] = "no-store"
        response.set_cookie(
            self._rules.cookie, self._rules.pass_, httponly=True, samesite="strict", secure=_secure(connection)
        )
        return response

    def _has_token(self, connection: HTTPConnection) -> bool:
        if brings(connection.headers.get("authorization", ""), self._rules.token or ""):
            return True
        return is_same(connection.cookies.get(self._rules.cookie, ""), self._rules.pass_)


def _foreign_name(headers: Headers, rules: Rules) -> str | None:
    found = [_HOST.fullmatch(value) for value in headers.getlist("host")]
    if len(found) != 1 or found[0] is None:
        return "A request has to name one host."
    name = found[0]["name"].lower().rstrip(".")
    if name in rules.names or (rules.any_address and _is_address(name)):
        return None
    return f"{name} is no name of this server; RAG_DEV_HOSTS can add it."


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _foreign_page(headers: Headers, scope: Scope) -> str | None:
    """Why the page that a browser sends this request for is not one of ours; a client that is no browser has none."""
    if any(not _is_ours(origin, headers["host"]) for origin in headers.getlist("origin")):
        return "A page of another origin may not ask this server."
    if set(headers.getlist("sec-fetch-site")) <= {"same-origin", "none"}:
        return None
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if followed and scope.get("method") in ("GET", "HEAD"):
        return None  # a link to us: the page that holds it sees nothing of the answer
    return "A page of another site may not ask this server."


def _is_ours(origin: str, host: str) -> bool:
    """Whether a page of `origin` came from `host`; its scheme may be that of a proxy in between."""
    try:
        parts = urlsplit(origin)
        default = {"http": 80, "https": 443}[parts.scheme]
        asked = urlsplit(f"//{host}")
        return (parts.hostname, parts.port or default) == (asked.hostname, asked.port or default)
    except (ValueError, KeyError):  # "null" is the origin of a sandboxed frame
        return False


def _wrong_request(connection: HTTPConnection) -> tuple[int, str] | None:
    """Status and reason where a request is of a kind that Dagster would take and a foreign page could send."""
    method, headers = connection.scope["method"], connection.headers
    if method in ("GET", "HEAD"):
        if connection.scope["path"].rstrip("/").endswith("/graphql") and connection.query_params:
            return 405, "GraphQL goes by POST."
        return None
    if method != "POST":
        return 405, "This server takes GET and POST."
    types = [value.partition(";")[0].strip().lower() for value in headers.getlist("content-type")]
    return None if types == ["application/json"] else (415, "What is posted has to be of the type application/json.")


def _unknown(headers: Headers, reason: str = "This server asks for a token.") -> Response:
    if "text/html" not in headers.get("accept", ""):
        return PlainTextResponse(f"{reason}\n", 401, {"WWW-Authenticate": "Bearer"})
    body = f"<p>{escape(reason)}</p>{_FORM.format(action=LOGIN)}"
    return HTMLResponse(_PAGE.format(head="", body=body), 401, {"Cache-Control": "no-store"})


def _secure(connection: HTTPConnection) -> bool:
    return connection.scope.get("scheme") == "https"


def _with_headers(send: Send) -> Send:
    async def more(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                # Of several policies all hold; of the other headers the first is enough.
                if name == "Content-Security-Policy" or name not in headers:
                    headers.append(name, value)
        await send(message)

    return more
