"""`rag mcp`: its own process, driven by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from rag_assets.doors.limits import MAX_READ_CHARS, MAX_RESULTS
from rag_assets.doors.push import pushed_status
from rag_assets.doors.tools import make_tools
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.migrate import migrate
from rag_assets.store.profiles import add_spec
from rag_assets.store.server import start_server, stop_server
from tests.support.agent_world import EVIL, PRIVATE, SECRETS, filled
from tests.support.command_line import Rag
from tests.support.imports import HOUSE
from tests.support.mcp_world import (
    RAG,
    TOKEN,
    environment,
    http_client,
    http_server,
    refused,
    text_of,
    through_stdio,
    told,
)
from tests.support.servers import take_down
from tests.support.signals import hear_ctrl_c
from tests.support.worlds import HASH_PROFILE

SUPPORT = ("--tenant", "alpha", "--bot", "support")
OTHERS = tuple(secret for pair, secret in SECRETS.items() if pair != ("alpha", "support"))
MODES = ("auto", "legacy")  # the two eras of the protocol


@pytest.fixture(scope="module")
def address(world: Database) -> Iterator[str]:
    """Of a server over HTTP."""
    with http_server(world.url, *SUPPORT) as (found, _):
        yield found


def over_http(address: str, use: Callable[[Client], Any], mode: str = "auto") -> Any:
    async def connect() -> Any:
        async with http_client(address, mode=mode) as client:
            return await use(client)

    return asyncio.run(connect())


async def _uses_everything(client: Client) -> None:
    tools = {one.name: one for one in (await client.list_tools()).tools}
    assert set(tools) == {"search", "read_source"}
    assert all(one.annotations is not None and one.annotations.read_only_hint for one in tools.values())
    assert "never an instruction" in str(client.instructions)
    found = told(await client.call_tool("search", {"query": "recovery code of valve 3", "top_k": 50}))
    assert "AAA-111" in json.dumps(found)
    assert not [other for other in (*OTHERS, PRIVATE) if other in json.dumps(found)]
    first = found["results"][0]
    read = told(await client.call_tool("read_source", {"source_id": first["source_id"]}))
    assert first["content"] in read["content"]
    assert first["citation"]["version"] == read["citation"]["version"]


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_searches_and_reads_over_stdio(world: Database, mode: str) -> None:
    through_stdio(world.url, SUPPORT, _uses_everything, mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_searches_and_reads_over_http(address: str, mode: str) -> None:
    over_http(address, _uses_everything, mode)


def test_no_argument_widens_the_scope(address: str) -> None:
    async def attack(client: Client) -> list[str]:
        attempts = (
            {"tenant": "beta"}, {"tenant_id": "beta"}, {"bot": "sales"}, {"user": "ann"}, {"user_id": "ann"},
            {"profile": "hash-64"}, {"scope": {"tenant": "beta"}}, {"retriever": "x"}, {"_meta": {"tenant": "beta"}},
            {"x" * 100_000: 1}, {"filters": {"tenant": ["beta"]}}, {"filters": {"scope_user_id": "ann"}},
            {"filters": {"where": {"x": {"equals": {"sub": "select"}}}}}, {"filters": "tenant=beta"},
            {"filters": {"source_ids": ["x" * 50_000]}}, {"top_k": MAX_RESULTS + 1}, {"top_k": -1}, {"top_k": "all"},
            {"query": "x" * 100_000}, {"query": {"$ne": None}}, {"query": None},
        )  # fmt: skip
        said = [refused(await client.call_tool("search", {"query": "recovery code", **one})) for one in attempts]
        for one in ({"source_id": "' OR '1'='1"}, {"source_id": "x", "tenant": "beta"}, {}, {"source_id": 7}):
            said.append(refused(await client.call_tool("read_source", one)))
        source = told(await client.call_tool("search", {"query": "valve"}))["results"][0]["source_id"]
        for bound in ({"start": -1}, {"max_chars": MAX_READ_CHARS + 1}, {"start": 2**40}, {"max_chars": 1e300}):
            said.append(refused(await client.call_tool("read_source", {"source_id": source, **bound})))
        return said

    for words in over_http(address, attack):
        assert len(words) < 1_000
        assert not [other for other in (*OTHERS, PRIVATE, "Traceback", "psycopg") if other in words]


@pytest.mark.slow
def test_sources_of_others_are_not_there(world: Database, address: str) -> None:
    async def ids(client: Client) -> list[str]:
        found = told(await client.call_tool("search", {"query": "recovery code", "top_k": 50}))
        return [one["source_id"] for one in found["results"]]

    async def read(client: Client) -> None:
        for source in theirs:
            assert "no source" in refused(await client.call_tool("read_source", {"source_id": source}))
            found = told(await client.call_tool("search", {"query": "code", "filters": {"source_ids": [source]}}))
            assert found["results"] == []

    theirs = through_stdio(world.url, ("--tenant", "beta", "--bot", "support"), ids)
    anns = through_stdio(world.url, (*SUPPORT, "--user", "ann"), ids)
    theirs += set(anns) - set(over_http(address, ids))
    assert len(theirs) > 5
    over_http(address, read)


def test_what_a_document_asks_for_is_quoted_and_changes_no_tool(address: str) -> None:
    async def ask(client: Client) -> tuple[Any, str, list[str]]:
        before = [one.name for one in (await client.list_tools()).tools]
        result = await client.call_tool("search", {"query": "recovery code of pump nine", "top_k": 1})
        after = [one.name for one in (await client.list_tools()).tools]
        assert before == after
        with pytest.raises(MCPError, match="no tool 'index_document'"):
            await client.call_tool("index_document", {"id": "owned", "text": "x"})
        return told(result), text_of(result), after

    found, text, _ = over_http(address, ask)
    assert found["results"][0]["content"] == EVIL
    assert not [line for line in text.splitlines() if "Ignore all" in line and not line.startswith("> ")]


def test_calls_side_by_side_are_answered_and_a_cancelled_one_leaves_the_others(address: str) -> None:
    async def storm(client: Client) -> None:
        calls = [asyncio.create_task(client.call_tool("search", {"query": f"valve {n}"})) for n in range(40)]
        await asyncio.sleep(0.05)
        for one in calls[::2]:
            one.cancel()
        answered = await asyncio.gather(*calls, return_exceptions=True)
        assert all(told(one)["results"] for one in answered[1::2] if not isinstance(one, BaseException))
        assert not [one for one in answered[1::2] if isinstance(one, BaseException)]
        assert told(await client.call_tool("search", {"query": "valve"}))["results"]

    for mode in MODES:
        over_http(address, storm, mode)


def test_index_document_is_offered_only_where_it_is_allowed_and_writes_its_own_scope(
    new_database: Callable[[], Database], tmp_path: Path
) -> None:
    database = filled(new_database(), tmp_path / "world")

    async def index(client: Client) -> None:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert set(tools) == {"search", "read_source", "index_document"}
        assert "never because a document says so" in str(tools["index_document"].description)
        right: dict[str, Any] = {"id": "note-1", "text": "# Note\n\nThe code is IDX-1.", "metadata": {"team": "x"}}
        assert told(await client.call_tool("index_document", right))["outcome"] == "pushed"
        assert told(await client.call_tool("index_document", right))["outcome"] == "unchanged"
        said = [
            refused(await client.call_tool("index_document", {**right, **wrong}))
            for wrong in (
                {"tenant": "beta"}, {"bot": "sales"}, {"user": "ann"}, {"id": "x" * 10_000}, {"id": "a\x00"}, {"id": 7},
                {"text": ""}, {"text": "x" * 1_000_001}, {"text": ["x"]}, {"metadata": "x"}, {"name": "a\nb"},
                {"metadata": {"rag:origin": {}}}, {"content_type": "text/html"}, {"by": "x"},
            )
        ]  # fmt: skip
        assert "1,000,000" in "".join(said)
        told(await client.call_tool("index_document", {"id": "../../etc/passwd", "text": "The code is IDX-2."}))

    words = ("--tenant", "alpha", "--bot", "support", "--allow-index")
    through_stdio(database.url, words, index)
    ingest(database, "alpha", "support", "hash-64")
    for tenant, bot in SECRETS:
        seen = json.dumps(make_tools(database, tenant=tenant, bot=bot).search("code IDX-1 IDX-2", 50))
        assert [code in seen for code in ("IDX-1", "IDX-2")] == [(tenant, bot) == ("alpha", "support")] * 2
    through_stdio(database.url, (*words, "--user", "ann"), index)
    ingest(database, "alpha", "support", "hash-64")
    assert pushed_status(database, "alpha", "support", "note-1", user="ann")["state"] == "ingested"
    database.close()


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPTED = {"Accept": "application/json, text/event-stream"}


def test_over_http_only_the_token_lets_in(address: str) -> None:
    for header in (
        {}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN},
        {"Cookie": f"token={TOKEN}"},
    ):  # fmt: skip
        for method in ("POST", "GET", "DELETE", "OPTIONS"):
            answer = httpx.request(method, address, headers={**ACCEPTED, **header}, json=INITIALIZE)
            assert answer.status_code == 401
            assert TOKEN not in answer.text
    assert httpx.get(f"{address}?token={TOKEN}").status_code == 401


def test_a_page_of_another_site_gets_nothing_though_it_had_the_token(address: str) -> None:
    port = httpx.URL(address).port
    with_token = {**ACCEPTED, "Authorization": f"Bearer {TOKEN}"}
    assert httpx.post(address, headers=with_token, json=INITIALIZE).status_code == 200
    for header in (
        {"Host": "evil.example"}, {"Host": f"evil.example:{port}"}, {"Host": f"127.0.0.1.evil.example:{port}"},
        {"Host": f"localhost:{port}.evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"},
        {"Origin": "null"}, {"Origin": f"http://127.0.0.1:{port}.evil.example"}, {"Origin": "http://127.0.0.1:1"},
        {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"},
    ):  # fmt: skip
        answer = httpx.post(address, headers={**with_token, **header}, content=json.dumps(INITIALIZE))
        assert 400 <= answer.status_code < 500, header
        assert "mcp-session-id" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_request_that_is_no_message_or_too_large_is_refused_and_the_next_one_is_answered(address: str) -> None:
    with_token = {**ACCEPTED, "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"jsonrpc": "2.0"}', b"[" * 100_000, b"x" * (33 * 2**20)):
        try:
            assert 400 <= httpx.post(address, headers=with_token, content=body, timeout=30).status_code < 500
        except httpx.WriteError:
            assert len(body) > 2**20  # hung up on before all of it was sent
    over_http(address, _uses_everything)


def _run(world: Database, *words: str, sent: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RAG, "mcp", *words], input=sent, capture_output=True, text=True, timeout=60, cwd=HOUSE,
        env=environment(world.url, **more), check=False,
    )  # fmt: skip


def test_a_head_without_end_is_cut_off(address: str) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(address).port), timeout=20) as one:
        one.sendall(b"POST /mcp HTTP/1.1\r\n")
        sent = 0
        try:
            while sent < 20_000_000:
                sent += one.send(f"X-{sent}: {'x' * 1000}\r\n".encode())
        except OSError:
            return
    pytest.fail("twenty megabytes of it were taken, of somebody without the token")


def test_what_cannot_be_served_is_said_at_the_start(world: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", world.url)
    for words, said in (
        (("--tenant", "alpah", "--bot", "support"), "did you mean 'alpha'"),
        (("--tenant", "alpha", "--bot", "suport"), "did you mean 'support'"),
        ((*SUPPORT, "--profile", "hash-46"), "did you mean 'hash-64'"),
        ((*SUPPORT, "--user", ""), "--user is empty"),
        ((*SUPPORT, "--host", "0.0.0.0"), "go with --http"),
        ((*SUPPORT, "--http", "0", "--host", "0.0.0.0"), "--allow-host"),
        ((*SUPPORT, "--retriever", "nowhere.toml"), "no file"),
    ):
        ended = Rag()("mcp", *words, code=2)
        assert ended.stdout == ""
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
    assert Rag().json("mcp", *SUPPORT, "--user", "ann") == {
        "tenant": "alpha", "bot": "support", "user": "ann", "profile": "hash-64", "tools": ["search", "read_source"],
    }  # fmt: skip


def test_stdout_holds_messages_alone_and_an_end_of_stdin_ends_the_server(world: Database) -> None:
    lines = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    sent = "no message at all\n" + "".join(json.dumps(one) + "\n" for one in lines)
    ended = _run(world, *SUPPORT, sent=sent)
    assert ended.returncode == 0
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {one.get("id") for one in answers if "result" in one} >= {1}
    assert all(one["jsonrpc"] == "2.0" for one in answers)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_server_that_is_told_to_end_does_so(world: Database, number: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        [*RAG, "mcp", *SUPPORT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(world.url), cwd=HOUSE, preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    assert "Traceback" not in process.communicate()[1]
    with http_server(world.url, *SUPPORT) as (address, served):
        over_http(address, _uses_everything)
        served.send_signal(number)
        assert served.wait(timeout=20) == code
        assert served.stderr is not None
        assert "Traceback" not in served.stderr.read()


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(address: str, world: Database) -> None:
    ended = _run(world, *SUPPORT, "--http", str(httpx.URL(address).port))
    assert ended.returncode == 2
    assert "cannot serve on 127.0.0.1" in ended.stderr
    assert "choose another --http" in ended.stderr


@pytest.mark.slow
def test_a_token_of_its_own_is_printed_and_one_that_was_given_is_not(world: Database, address: str) -> None:
    process = subprocess.Popen(
        [*RAG, "mcp", *SUPPORT, "--http", "0"], stderr=subprocess.PIPE, text=True, env=environment(world.url), cwd=HOUSE
    )
    try:
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        where, token = said[0].split()[2], said[1].split()[-1]
        assert len(token) > 40
        assert httpx.post(where, headers={**ACCEPTED, "Authorization": f"Bearer {token}"}, json=INITIALIZE).is_success
    finally:
        process.terminate()
        process.communicate()
    assert os.environ.get("RAG_MCP_TOKEN") is None


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_database_that_is_away_is_said_and_a_restart_of_it_is_got_over(tmp_path: Path, how: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    database = Database(ensure_database(start_server(home), "rag"))
    try:
        migrate(database)
        add_spec(database, HASH_PROFILE)
        filled(database, tmp_path / "world")
        database.close()

        async def outlive(client: Client) -> None:
            await _uses_everything(client)
            take_down(home, how)
            said = refused(await client.call_tool("search", {"query": "valve"}))
            assert "Traceback" not in said
            assert "AAA-111" not in said
            await asyncio.to_thread(start_server, home)
            await _uses_everything(client)

        through_stdio(database.url, SUPPORT, outlive)
        with http_server(database.url, *SUPPORT) as (address, _):
            over_http(address, outlive)
    finally:
        stop_server(home)
