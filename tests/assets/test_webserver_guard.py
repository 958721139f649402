"""What stands in front of the UI, asked by real clients over HTTP and websockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from rag_assets.errors import UsageError
from rag_assets.hosts import is_loopback
from rag_assets.launch.guard import LOGIN, Guard, Rules
from rag_assets.launch.webserver import rules_for
from rag_assets.settings import Settings

TOKEN = "a-token-that-nobody-guesses"
WS = Subprotocol("graphql-ws")
JSON = {"content-type": "application/json"}
MUTATION = {"query": 'mutation { launchRun(executionParams: {mode: "default"}) { __typename } }'}

# A link on a page of another site, as a browser asks for it when a person follows it.
FOLLOWED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


class Site:
    """A server behind the guard that tells what reached it."""

    def __init__(self, rules: Rules) -> None:
        self.reached: list[str] = []
        routes = [
            Route("/{path:path}", self._http, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
            WebSocketRoute("/graphql", self._socket),
        ]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        app = Guard(Starlette(routes=routes), rules)
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="error", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)

    async def _http(self, request: Request) -> JSONResponse:
        self.reached.append(f"{request.method} {request.url.path}")
        return JSONResponse({"path": request.url.path})

    async def _socket(self, websocket: WebSocket) -> None:
        self.reached.append("websocket")
        await websocket.accept(subprotocol=WS)
        await websocket.send_json({"type": "connection_ack"})
        await websocket.close()

    def ask(
        self, method: str, path: str = "/", headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False) as client:
            return client.request(method, path, headers=headers, **more)

    def speak(self, **headers: str) -> str:
        """The first word over a websocket; raises InvalidStatus where it is refused."""

        async def speak() -> str:
            address = f"ws://127.0.0.1:{self.port}/graphql"
            async with connect(address, additional_headers=headers, proxy=None, subprotocols=[WS]) as connection:
                return str(await connection.recv())

        return asyncio.run(speak())


@contextmanager
def site(rules: Rules) -> Iterator[Site]:
    made = Site(rules)
    thread = threading.Thread(target=made.server.run)
    thread.start()
    while not made.server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield made
    finally:
        made.server.should_exit = True
        thread.join()


OPEN = rules_for("127.0.0.1", 3000, Settings())


@pytest.fixture
def local() -> Iterator[Site]:
    """As on this machine's own address, without a token."""
    with site(OPEN) as found:
        yield found


@pytest.fixture
def locked() -> Iterator[Site]:
    with site(replace(OPEN, token=TOKEN)) as found:
        yield found


def test_what_the_page_itself_and_programs_send_goes_through(local: Site) -> None:
    own = f"http://127.0.0.1:{local.port}"
    browser = {**JSON, "origin": own, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    asked = [
        local.ask("GET", "/assets", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}),
        local.ask("GET", "/graphql", {"accept": "text/html"}),
        local.ask("POST", "/graphql", browser, json=MUTATION),
        local.ask("POST", "/graphql", {"content-type": "application/json; charset=utf-8"}, json=MUTATION),
        local.ask("POST", "/graphql", json=MUTATION),
        local.ask("GET", "/", {"host": f"localhost:{local.port}"}),
        local.ask("GET", "/", {"host": "LocalHost"}),
        local.ask("GET", "/", {"host": f"[::1]:{local.port}"}),
        local.ask("GET", "/runs", FOLLOWED),
    ]  # fmt: skip
    assert [answer.status_code for answer in asked] == [200] * len(asked)
    assert local.speak(Origin=own) == local.speak() == '{"type":"connection_ack"}'


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:3000", "127.0.0.1.evil.example", "localhost@evil.example",
        "evil.example#127.0.0.1", "127.0.0.2", "10.0.0.1", "0.0.0.0", "", "[::1", "localhost:x",
    ],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_refused_even_if_it_points_here(local: Site, host: str) -> None:
    assert local.ask("GET", "/", {"host": host}).status_code in (400, 403)
    assert local.ask("POST", "/graphql", {"host": host}, json=MUTATION).status_code in (400, 403)
    assert local.reached == []


def test_a_websocket_for_a_name_that_is_not_ours_is_refused(local: Site) -> None:
    async def speak() -> None:
        # The name is the attacker's, the address ours: what its DNS would do.
        with socket.create_connection(("127.0.0.1", local.port)) as raw:
            async with connect("ws://evil.example/graphql", sock=raw, subprotocols=[WS]):
                pass

    with pytest.raises(InvalidStatus, match="403"):
        asyncio.run(speak())
    assert local.reached == []


FOREIGN_PAGES = {
    "another site": {"origin": "https://evil.example"},
    "another port of this machine": {"origin": "http://127.0.0.1:8888"},
    "another name of this machine": {"origin": "http://localhost"},
    "a sandboxed frame": {"origin": "null"},
    "no origin that can be read": {"origin": "http://[evil"},
    "another site without its origin": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "another port without its origin": {"sec-fetch-site": "same-site"},
    "a frame on another site": {
        "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe",
    },
}  # fmt: skip


@pytest.mark.parametrize("headers", FOREIGN_PAGES.values(), ids=FOREIGN_PAGES)
def test_a_page_that_is_not_ours_gets_nothing(local: Site, headers: dict[str, str]) -> None:
    assert local.ask("GET", "/logs/run/compute_logs/x.err", headers).status_code == 403
    assert local.ask("POST", "/graphql", headers, json=MUTATION).status_code == 403
    with pytest.raises(InvalidStatus, match="403"):
        local.speak(**headers)
    assert local.reached == []


def test_a_form_of_another_page_that_a_person_sends_off_gets_nothing(local: Site) -> None:
    assert local.ask("POST", "/graphql", FOLLOWED, json=MUTATION).status_code == 403
    assert local.reached == []


@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/%67raphql"])
def test_nothing_is_changed_by_asking_for_a_page(local: Site, path: str) -> None:
    for headers in ({}, {"accept": "text/html"}, JSON):
        answer = local.ask("GET", path, headers, params=MUTATION)
        assert answer.status_code == 405
    assert local.reached == []


@pytest.mark.parametrize(
    "kind",
    [
        None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/graphql",
        "text/plain; application/json", "application/json, text/plain", "text/plain;charset=application/json", "",
    ],
)  # fmt: skip
def test_what_a_page_could_post_anywhere_unasked_is_refused(local: Site, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = local.ask("POST", "/graphql", headers, content=b'{"query": "mutation { x }"}', params=MUTATION)
    assert answer.status_code == 415
    for path in ("/report_asset_materialization/chunks", "/graphql/"):
        assert local.ask("POST", path, headers, content=b"{}").status_code == 415
    assert local.reached == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(local: Site, method: str) -> None:
    assert local.ask(method, "/graphql").status_code == 405
    assert local.reached == []


def test_no_other_page_may_show_ours_in_a_frame_or_take_parts_of_it(local: Site) -> None:
    for answer in (local.ask("GET"), local.ask("GET", headers={"host": "evil.example"})):
        assert answer.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


def test_without_the_token_nothing_is_answered_but_the_way_to_log_in(locked: Site) -> None:
    wrong = {"authorization": f"Bearer {TOKEN}x"}
    for headers in (
        {},
        wrong,
        {"authorization": TOKEN},
        {"cookie": f"rag_dev_3000={TOKEN}"},
        {"cookie": "rag_dev_3000="},
    ):
        for path in ("/", "/server_info", "/logs/a.err", f"{LOGIN}?token=", f"{LOGIN}?token={TOKEN}x", LOGIN):
            assert locked.ask("GET", path, headers).status_code == 401
        assert locked.ask("POST", "/graphql", headers, json=MUTATION).status_code == 401
        with pytest.raises(InvalidStatus, match="403"):
            locked.speak(**headers)
    assert locked.reached == []
    assert 'name="token"' in locked.ask("GET", "/", {"accept": "text/html"}).text


def test_a_program_brings_the_token_along(locked: Site) -> None:
    own = {"authorization": f"Bearer {TOKEN}"}
    assert locked.ask("POST", "/graphql", own, json=MUTATION).status_code == 200
    assert locked.speak(**own)
    assert locked.ask("POST", "/graphql", own, content=b"{}").status_code == 415, "the other rules hold besides"
    assert locked.ask("GET", "/", {**own, "host": "evil.example"}).status_code == 403


def test_a_browser_logs_in_by_a_link_and_keeps_a_cookie_that_no_other_page_can_use(locked: Site) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{locked.port}", trust_env=False) as client:
        # From a mail: the browser says so, and would send no cookie along with a redirect.
        answer = client.get(LOGIN, params={"token": TOKEN}, headers=FOLLOWED)
        assert (answer.status_code, answer.is_redirect) == (200, False)
        assert 'http-equiv="refresh"' in answer.text
        kept = answer.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in kept.split(";")}
        assert TOKEN not in kept
        assert client.get("/assets").status_code == 200
        assert client.post("/graphql", json=MUTATION).status_code == 200
        cookie = f"rag_dev_3000={client.cookies['rag_dev_3000']}"
    assert locked.speak(Cookie=cookie)
    with pytest.raises(InvalidStatus, match="403"):
        locked.speak(Cookie=cookie, Origin="https://evil.example")


def test_where_all_addresses_are_listened_on_a_name_has_to_be_ours_and_an_address_may_be_any() -> None:
    rules = rules_for("0.0.0.0", 3000, Settings(dev_token=TOKEN, dev_hosts=("rag.example.com",)))
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with site(rules) as found:
        for host in ("192.0.2.7:3000", "[2001:db8::7]", socket.gethostname(), "rag.example.com", "localhost"):
            assert found.ask("GET", "/", {**bearer, "host": host}).status_code == 200, host
        # Behind a proxy with TLS.
        proxied = {**bearer, "host": "rag.example.com", "origin": "https://rag.example.com"}
        assert found.ask("POST", "/graphql", proxied, json=MUTATION).status_code == 200
        found.reached.clear()
        assert found.ask("GET", "/", {**bearer, "host": "evil.example"}).status_code == 403
        assert found.reached == []


def test_only_an_address_that_no_other_machine_reaches_does_without_a_token() -> None:
    assert [host for host in ("127.0.0.1", "127.0.0.53", "localhost", "::1") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "::", "", "192.0.2.1", "no-such-host.invalid") if is_loopback(host)] == []
    with pytest.raises(UsageError, match="RAG_DEV_TOKEN"):
        rules_for("0.0.0.0", 3000, Settings())
