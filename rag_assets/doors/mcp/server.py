"""The tools of one scope as an MCP server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from rag_assets.doors.answers import Told
from rag_assets.doors.limits import MAX_INDEXED_CHARS
from rag_assets.doors.mcp.schemas import INDEX_DOCUMENT, INSTRUCTIONS, READ_SOURCE, SEARCH
from rag_assets.doors.push import apush_document
from rag_assets.doors.tools import AgentTools
from rag_assets.errors import InvalidArgument, RagError, UsageError, alike, did_you_mean, shown
from rag_assets.retrieval.arguments import check_text
from rag_assets.store.database import Database

CALL_LIMIT_S = 60.0
_MARKDOWN = "text/markdown"
_OUTCOMES = {
    "pushed": "It is kept, and will be found once it has been ingested.",
    "unchanged": "This very document is there already.",
    "forgotten": "This very document was forgotten on purpose, and is not taken again.",
}
_NAME_CHARS = 100  # a longer one is no misspelt argument
_LOG = logging.getLogger(__name__)

Work = Callable[..., Awaitable[Told]]


@dataclass(frozen=True)
class OfferedTool:
    """A tool as clients are told of it, and what it does with arguments by their names."""

    told: Tool
    work: Work


def offered(tools: AgentTools) -> tuple[OfferedTool, ...]:
    """The tools that only read."""
    return OfferedTool(SEARCH, tools.atold_search), OfferedTool(READ_SOURCE, tools.atold_source)


def indexing(database: Database, tenant: str, bot: str, user: str | None) -> OfferedTool:
    """The tool that adds documents to the scope."""

    async def index_document(id: object, text: object, name: object = None, metadata: object = None) -> Told:
        words = check_text(text, "text")
        if len(words) > MAX_INDEXED_CHARS:
            raise InvalidArgument(f"text must have at most {MAX_INDEXED_CHARS:,} characters", "text")
        given: dict[str, Any] = {"name": name, "metadata": metadata, "content_type": _MARKDOWN}
        pushed = await apush_document(database, tenant, bot, id, words, user=user, by="rag mcp", **given)  # type: ignore[arg-type]
        return Told(pushed, _OUTCOMES[pushed["outcome"]])

    return OfferedTool(INDEX_DOCUMENT, index_document)


def make_server(tools: Sequence[OfferedTool], limit_s: float = CALL_LIMIT_S) -> Server[Any]:
    """A server of these tools. A call takes at most `limit_s` seconds."""
    known = {one.told.name: one for one in tools}

    async def list_tools(_context: ServerRequestContext[Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[one.told for one in tools])

    async def call_tool(_context: ServerRequestContext[Any], asked: CallToolRequestParams) -> CallToolResult:
        tool = known.get(asked.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"no tool {shown(asked.name)}; there are: {', '.join(known)}")
        return await _called(tool, asked.arguments or {}, limit_s)

    return Server(
        "rag-assets",
        version=version("rag-assets"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _called(tool: OfferedTool, arguments: Mapping[str, Any], limit_s: float) -> CallToolResult:
    """What the tool told, or in words why it told nothing: a model reads it, and may do better."""
    try:
        _check_names(tool.told, arguments)
        async with asyncio.timeout(limit_s):
            told = await tool.work(**_given(tool.told, arguments))
    except RagError as error:
        return _failed(str(error))
    except TimeoutError:
        return _failed(f"{tool.told.name} took longer than {limit_s:g} s and was given up")
    except Exception:
        _LOG.exception("%s failed", tool.told.name)  # what is wrong here is none of the client's business
        return _failed(f"{tool.told.name} failed for a reason that is in the server's log")
    return CallToolResult(content=[TextContent(text=told.text)], structured_content=told.payload)


def _failed(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=why)], is_error=True)


def _check_names(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Refuse what the tool does not take: whoever passes a tenant thinks that it would count."""
    known: Mapping[str, Any] = tool.input_schema["properties"]
    for name in arguments:
        if name not in known:
            likely = alike(name, list(known)) if len(name) <= _NAME_CHARS else []
            meant = did_you_mean(likely) if likely else f"it takes: {', '.join(known)}"
            raise UsageError(f"{tool.name} takes no argument {shown(name)}; {meant}")
    missing = [name for name in tool.input_schema["required"] if name not in arguments]
    if missing:
        raise UsageError(f"{tool.name} needs the argument {missing[0]}")


def _given(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without those that are null and may be left out."""
    required = tool.input_schema["required"]
    return {name: value for name, value in arguments.items() if value is not None or name in required}
