"""`rag mcp`."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import typer
from mcp.server.lowlevel.server import Server

from rag_assets.commands.options import Bot, RetrieverFile, Tenant, key
from rag_assets.commands.session import door_database, opened_for_others
from rag_assets.commands.shell import CommandResult, code_of, note
from rag_assets.doors.listening import listening
from rag_assets.doors.mcp.server import indexing, make_server, offered
from rag_assets.doors.mcp.serving import PATH, serve_http, serve_stdio
from rag_assets.doors.tools import make_tools
from rag_assets.errors import UsageError
from rag_assets.hosts import is_loopback
from rag_assets.retrieval.files import load_retriever
from rag_assets.settings import Settings, load_settings
from rag_assets.store.database import Database


def mcp(
    tenant: Tenant,
    bot: Bot,
    user: Annotated[
        str | None, typer.Option(help="Whose private sources are searched too. (default: nobody's)", show_default=False)
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile to search. (default: the bot's active one)", show_default=False, callback=key("profile")
        ),
    ] = None,
    allow_index: Annotated[
        bool, typer.Option("--allow-index", help="Offer the tool index_document, which adds documents to the bot.")
    ] = False,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Serve over HTTP, with a bearer token, instead of stdin and stdout; 0 takes a free port.",
            min=0,
            max=65535,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --http: a name that clients call this server by, as behind a proxy. May be repeated.",
        ),
    ] = None,
    retriever: RetrieverFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Serve nothing: print what would be served, as one JSON object on stdout.")
    ] = False,
) -> int | CommandResult:
    """Serve an agent the knowledge of one bot over the Model Context Protocol.

    The tools are search and read_source, and with --allow-index index_document. Tenant, bot and user are fixed here,
    and no client can change them. On stdin and stdout it serves the program that starts it. With --http clients bring
    the token of RAG_MCP_TOKEN, or the one that is printed.
    """
    _check(user, http, host, allow_host)
    with door_database(settings := load_settings()) as database:
        opened_for_others(database, tenant, bot, profile, user)
        made = load_retriever(database, retriever) if retriever else None
        tools = make_tools(database, tenant=tenant, bot=bot, user=user, profile=profile, retriever=made)
        serves = [*offered(tools), *([indexing(database, tenant, bot, user)] if allow_index else [])]
        if as_json:
            names = [one.told.name for one in serves]
            payload = {
                "tenant": tenant,
                "bot": bot,
                "user": user,
                "profile": tools.check().profile.name,
                "tools": names,
            }
            return CommandResult(payload, lambda console: None)
        return _serve(make_server(serves), database, settings, http, host, allow_host or [])


def _serve(
    server: Server[Any], database: Database, settings: Settings, http: int | None, host: str, allow_host: list[str]
) -> int:
    if http is None:
        return serve_stdio(server, database)
    listener = listening(host, http, option="--http")
    _tell_address(host, listener.getsockname()[1])
    return code_of(serve_http(server, database, listener, _token(settings), allow_host))


def _tell_address(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    note(f"MCP server: http://{shown}:{port}{PATH} (Ctrl-C ends it)", "bold")
    if not is_loopback(host):
        note("What is sent is not encrypted: let a proxy with TLS stand in front, and listen on 127.0.0.1.")


def _token(settings: Settings) -> str:
    if settings.mcp_token:
        return settings.mcp_token.get_secret_value()  # a secret of one's own is printed nowhere
    token = secrets.token_urlsafe(32)
    note(f"Bearer token: {token}")
    return token


def _check(user: str | None, http: int | None, host: str, allow_host: list[str] | None) -> None:
    if user == "":
        raise UsageError("--user is empty; leave it out to serve without a user")
    if http is None and (host != "127.0.0.1" or allow_host):
        raise UsageError("--host and --allow-host go with --http")
    if http is not None and not is_loopback(host) and not allow_host:
        raise UsageError(f"others reach {host}: say with --allow-host by which name they call this server")
