"""`rag mcp` as agents meet it: its own process, and the SDK's client."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.support.imports import HOUSE
from tests.support.signals import hear_ctrl_c

_Result = TypeVar("_Result")
RAG = (sys.executable, "-m", "rag_assets.cli")
TOKEN = "a-token-for-tests-0123456789"
_ADDRESS = re.compile(r"MCP server: (http://\S+)")


def environment(database_url: str, **more: str) -> dict[str, str]:
    """What a process of `rag` is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAG_", "DATABASE_"))}
    return {**kept, "PYTHONPATH": str(HOUSE), "DATABASE_URL": database_url, **more}


def through_stdio(
    database_url: str, words: tuple[str, ...], use: Callable[[Client], Awaitable[_Result]], mode: str = "auto"
) -> _Result:
    """What `use` returns, of a client of a new `rag mcp` process."""

    async def connect() -> _Result:
        parameters = StdioServerParameters(
            command=RAG[0], args=[*RAG[1:], "mcp", *words], env=environment(database_url), cwd=str(HOUSE)
        )
        async with Client(stdio_client(parameters), mode=mode) as client:
            return await use(client)

    return asyncio.run(connect())


@contextmanager
def http_server(database_url: str, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a `rag mcp --http`, which is ended afterwards."""
    process = subprocess.Popen(
        [*RAG, "mcp", *words, "--http", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(database_url, RAG_MCP_TOKEN=TOKEN),
        cwd=HOUSE,
        preexec_fn=hear_ctrl_c,
    )
    try:
        yield _address(process), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := _ADDRESS.search(line):
            return found[1]
    raise AssertionError("".join(said))


@asynccontextmanager
async def http_client(address: str, token: str = TOKEN, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of an HTTP server."""
    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        yield client


def text_of(result: CallToolResult) -> str:
    """What a model reads of a result."""
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text


def told(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a call that went well."""
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def refused(result: CallToolResult) -> str:
    """Why a call went wrong."""
    assert result.is_error
    assert result.structured_content is None
    return text_of(result)
