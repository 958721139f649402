"""Whatever is sent to the door, it answers in one form or closes, and nothing of another tenant comes out."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rag_assets.doors.http import connection, edge
from rag_assets.doors.http.limits import MAX_BODY_BYTES, Intake, Limits
from rag_assets.store.database import Database
from tests.doors.http.conftest import PRIVATE, SECRETS, Tokens
from tests.support.http_door import Door, error_of, serving

JSON = {"Content-Type": "application/json"}
QUERY = "the recovery code of the main valve"
# What ends a literal, adds a row, ends a statement, leaves the role, or waits.
SQL = (
    "' OR '1'='1", "'; RESET ROLE; SELECT * FROM rag.knowledge_chunks; --", "') UNION SELECT * FROM rag.api_tokens --",
    "$$||pg_sleep(5)||$$", "\\'; SET rag.tenant = 'other'; --", '{"$ne": null}', "%' --", "%s %(tenant)s {0}",
)  # fmt: skip


TYPES = (
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp",
    "application/json+x", "",
)  # fmt: skip
CLAIMS = (
    {"tenant": "other"}, {"tenant_id": "other"}, {"bot": "sales"}, {"user": "alice"}, {"user_id": "alice"},
    {"scope": {}}, {"profile": "x"},
)  # fmt: skip


def filters_with(text: str) -> Iterator[Any]:
    """A text in every place of the filters that takes one."""
    for name in ("source_ids", "source_names", "source_types", "locales", "content_types", "roots", "path_prefixes"):
        yield {name: [text]}
    yield {"tags": [text]}
    yield {"metadata": {text: text}}
    yield {"where": {text: {"equals": text}}}
    yield {"where": {text: {"in": [text]}}}
    yield {"where": {"tenant_id": {"equals": text}}}


@pytest.mark.parametrize("text", SQL)
def test_sql_in_any_field_is_a_text_that_finds_nothing_of_others(door: Door, tokens: Tokens, text: str) -> None:
    with door.client(tokens.acme) as client:
        answers = [
            client.post("/search", json={"query": f"{text} {QUERY}", "request_key": text}),
            client.post("/search", json={"query": QUERY, "retriever": text}),
            client.post("/context", json={"query": text}),
            client.get("/sources", params={"status": text}),
            client.get("/sources", params={"after": text}),
            *(client.post("/search", json={"query": QUERY, "filters": one}) for one in filters_with(text)),
        ]
    for answer in answers:
        assert answer.status_code in (200, 400), answer.text
        assert SECRETS["other"] not in answer.text
        assert PRIVATE not in answer.text
        assert "psycopg" not in answer.text


@pytest.mark.parametrize("more", CLAIMS, ids=str)
@pytest.mark.parametrize("path", ["/search", "/context"])
def test_whose_knowledge_it_is_cannot_be_said_by_the_request(
    door: Door, tokens: Tokens, path: str, more: dict[str, Any]
) -> None:
    (name,) = more
    error = error_of(door.post(path, tokens.acme, {"query": QUERY, **more}))
    assert (error["type"], error["argument"]) == ("InvalidArgument", name)
    error = error_of(door.post(path, tokens.acme, {"query": QUERY, "filters": more}))
    assert (error["type"], error["argument"]) == ("InvalidArgument", "filters")
    named = {f"X-{name}": "other", "X-Tenant": "other", "X-Forwarded-User": "alice"}
    answer = door.post(path, tokens.acme, {"query": QUERY}, headers=named, params={name: "other"})
    assert answer.status_code == 200
    assert SECRETS["other"] not in answer.text
    assert PRIVATE not in answer.text


RAW: tuple[bytes, ...] = (
    b"", b"null", b"[]", b'"query"', b"{", b'{"query": NaN}', b'{"query": "x", "top_k": NaN}', b"\xff\xfe", b"\x00",
    b'{"query": "x", "top_k": 1e999}', b'{"query": "x", "top_k": ' + b"9" * 5000 + b"}", b"[" * 50_000,
    b'{"query": "x", "filters": ' + b'{"metadata":' * 2000 + b"1" + b"}" * 2001,
    b'{"query": "x", "filters": {"metadata": {"a": "\\u0000"}}}', b'{"query": "x", "filters": {"tags": ["\\ud800"]}}',
    b'{"query": "x", "retriever": "\\u0000\\ud83d"}', b'{"query": "x", "\\ud800\\u0000": 1}',
    b'{"query": "x", "filters": {"metadata": {"a": Infinity}}}',
)  # fmt: skip


@pytest.mark.parametrize("body", RAW, ids=range(len(RAW)))
@pytest.mark.parametrize("path", ["/search", "/context"])
def test_what_is_no_question_is_refused_as_such(door: Door, tokens: Tokens, path: str, body: bytes) -> None:
    with door.client(tokens.acme, **{"Content-Type": "application/json"}) as client:
        answer = client.post(path, content=body)
        assert (answer.status_code, error_of(answer)["type"]) == (400, "InvalidArgument"), answer.text
        assert client.post(path, json={"query": QUERY}).status_code == 200, "the connection goes on"


STRANGE = (
    "a\x00b", "\x00", "\ud800 x", "' \\ % _ \x01\x7f", "\u202e\ufeff\u0000x", "x" * 500_000,
    "🦀" * 50_000, "a " * 200_000,
)  # fmt: skip


@pytest.mark.parametrize("query", STRANGE, ids=range(len(STRANGE)))
def test_a_strange_query_is_answered(door: Door, tokens: Tokens, query: str) -> None:
    answer = door.post("/search", tokens.acme, content=json.dumps({"query": query}), headers=JSON)
    assert answer.status_code in (200, 400, 413)
    assert SECRETS["other"] not in answer.text
    if answer.status_code == 413:
        assert len(json.dumps(query)) > MAX_BODY_BYTES


@pytest.mark.parametrize("types", TYPES)
def test_what_a_foreign_page_could_send_is_not_taken(door: Door, tokens: Tokens, types: str) -> None:
    with door.client(tokens.acme) as client:
        headers = {"Content-Type": types} if types else {}
        answer = client.post("/search", content=json.dumps({"query": QUERY}), headers=headers)
        assert (answer.status_code, error_of(answer)["type"]) == (415, "UnsupportedMediaType")
        packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        assert client.post("/search", content=b"\x1f\x8b", headers=packed).status_code == 415


def test_a_page_of_another_site_is_refused_and_gets_no_leave_to_read(
    world: Database, door: Door, tokens: Tokens
) -> None:
    foreign = (
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Origin": door.url},
    )  # fmt: skip
    for headers in foreign:
        for method, path in (("POST", "/search"), ("GET", "/sources"), ("OPTIONS", "/search"), ("GET", "/health")):
            with door.client(tokens.acme, **headers) as client:
                answer = client.request(method, path, json={"query": QUERY} if method == "POST" else None)
            assert answer.status_code == 403, (headers, method)
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert SECRETS["acme"] not in answer.text
    listed = Limits(origins=("https://chat.example",))
    with serving(world, limits=listed) as other, other.client(tokens.acme, Origin="https://chat.example") as client:
        answer = client.post("/search", json={"query": QUERY}, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert (
            client.post("/search", json={"query": QUERY}, headers={"Origin": "https://x.chat.example"}).status_code
            == 403
        )


def test_a_server_with_names_answers_under_no_other(world: Database, tokens: Tokens) -> None:
    with serving(world, limits=Limits(hosts=("rag.example", "127.0.0.1"))) as door:
        for host, status in (
            ("rag.example", 200), ("RAG.example:8000", 200), ("127.0.0.1:1", 200), ("evil.example", 400),
            ("rag.example.evil", 400), ("rag.example@evil", 400), ("", 400),
        ):  # fmt: skip
            assert door.post("/search", tokens.acme, {"query": QUERY}, headers={"Host": host}).status_code == status, (
                host
            )


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(door: Door, tokens: Tokens) -> None:
    large = b'{"query": "' + b"x" * MAX_BODY_BYTES + b'"}'

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 65_536):
            yield large[start : start + 65_536]

    for content in (large, pieces()):
        answer = door.post("/search", tokens.acme, content=content, headers=JSON)
        assert (answer.status_code, error_of(answer)["type"]) == (413, "PayloadTooLarge")
    lying = door.post("/search", None, content=large, headers=JSON)
    assert lying.status_code == 401, "without a token nothing of it is looked at"


def head(token: str, length: int = 30, path: str = "/search") -> bytes:
    """The head of a request whose body is still to come."""
    lines = (
        f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", "Content-Type: application/json",
        f"Content-Length: {length}", "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode()


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is slow."""
    monkeypatch.setattr(Limits, "intake", lambda self, method, path: Intake(seconds=0.5))
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(edge, "_DRAIN_SECONDS", 0.2)


@pytest.mark.usefixtures("hasty")
def test_slow_clients_are_not_waited_for_and_hold_up_nobody(world: Database, tokens: Tokens) -> None:
    with serving(world, limits=Limits(concurrent=2)) as door:
        address = ("127.0.0.1", door.port)
        connections = [socket.create_connection(address, timeout=20) for _ in range(40)]
        for number, one in enumerate(connections):
            one.sendall((b"", b"POST /search HT", head(tokens.acme)[:-2], head(tokens.acme) + b"{")[number % 4])
        assert door.post("/search", tokens.acme, {"query": QUERY}).status_code == 200, "others are answered meanwhile"
        began = time.monotonic()
        said = [read_all(one) for one in connections]
        assert time.monotonic() - began < 15
        for number, answer in enumerate(said):
            if number % 4 == 3:
                assert answer.startswith(b"HTTP/1.1 408 ")
                assert b'"RequestTimeout"' in answer
            else:
                assert answer == b""
        for one in connections:
            one.close()


@pytest.mark.usefixtures("hasty")
def test_a_body_that_trickles_in_is_cut_off_however_often_a_byte_comes(world: Database, tokens: Tokens) -> None:
    for token in (tokens.acme, "rag_none"):
        with serving(world) as door, socket.create_connection(("127.0.0.1", door.port), timeout=20) as one:
            one.sendall(head(token, 100_000))
            began = time.monotonic()
            try:
                while time.monotonic() - began < 10:
                    one.sendall(b" ")
                    time.sleep(0.05)
                pytest.fail("it is still listened to")
            except OSError:
                assert time.monotonic() - began < 5


def test_a_head_without_end_is_cut_off(door: Door) -> None:
    with socket.create_connection(("127.0.0.1", door.port), timeout=20) as one:
        one.sendall(b"GET /search HTTP/1.1\r\n")
        sent = 0
        try:
            while sent < 10_000_000:
                sent += one.send(f"X-{sent}: {'x' * 1000}\r\n".encode())
        except OSError:
            return
    pytest.fail("ten megabytes of it were taken")


@pytest.mark.parametrize("token", ["acme", "nobody"])
@pytest.mark.parametrize(("first", "more"), [(b"1;", b"x" * 65_536), (b"0\r\n", b"X-Trailer: x\r\n" * 5000)])
def test_what_stands_around_a_body_has_an_end(
    door: Door, tokens: Tokens, token: str, first: bytes, more: bytes
) -> None:
    begun = head(tokens.acme if token == "acme" else "rag_none").replace(
        b"Content-Length: 30", b"Transfer-Encoding: chunked"
    )
    with socket.create_connection(("127.0.0.1", door.port), timeout=20) as one:
        one.sendall(begun + first)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += one.send(more)
        except OSError:
            return
    pytest.fail("fifty megabytes of it were taken")


def test_what_follows_a_body_is_no_header(door: Door, tokens: Tokens) -> None:
    raw = (
        b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nAuthorization: Bearer " + tokens.acme.encode() + b"\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", door.port), timeout=20) as one:
        one.sendall(raw)
        assert read_all(one).startswith(b"HTTP/1.1 401 ")


def test_what_is_no_http_and_what_smuggles_is_refused(door: Door, tokens: Tokens) -> None:
    twice = head(tokens.acme).replace(b"Content-Length: 30", b"Content-Length: 2\r\nTransfer-Encoding: chunked")
    for raw in (
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        twice + b"{}0\r\n\r\n",
        b"\r\n" * 100 + b"\x00",
    ):
        with socket.create_connection(("127.0.0.1", door.port), timeout=20) as one:
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
            answer = read_all(one)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 "), raw


def test_a_request_for_a_socket_of_another_kind_is_no_way_in(door: Door) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x"}
    assert door.get("/search", headers=upgrade).status_code == 401


def test_answers_are_kept_by_nobody_on_the_way(door: Door, tokens: Tokens) -> None:
    for answer in (door.post("/search", tokens.acme, {"query": QUERY}), door.post("/search", None, {"query": QUERY})):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def test_no_query_and_no_token_is_written_to_the_log(
    door: Door, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        for path in ("/search?q=marzipan", "/marzipan"):
            door.post(path, tokens.acme, {"query": "marzipan", "filters": {"tags": ["marzipan"]}})
        door.post("/search", tokens.acme, {"query": "marzipan", "top_k": -1})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("rag_assets", "uvicorn"))]
    assert len(ours) >= 3
    assert not [line for line in ours if "marzipan" in line or tokens.acme in line]


def test_more_requests_than_are_answered_at_a_time_are_told_to_come_again(world: Database, tokens: Tokens) -> None:

    with serving(world, limits=Limits(rate=1e5, concurrent=1)) as door, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: door.post("/search", tokens.acme, {"query": QUERY}), range(48)))
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 503}
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert error_of(busy)["type"] == "Busy"
    assert busy.headers["retry-after"] == "1"
