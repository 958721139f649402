"""`rag serve`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from rag_assets.commands.options import Json
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, code_of, note
from rag_assets.doors.http.app import make_app
from rag_assets.doors.http.limits import Limits
from rag_assets.doors.http.server import config_of, log_to_stderr
from rag_assets.doors.listening import answer_until_told, listening
from rag_assets.errors import UsageError, unknown_path
from rag_assets.keys import check_key
from rag_assets.observing.started import start
from rag_assets.retrieval.files import load_retriever
from rag_assets.settings import load_settings
from rag_assets.store.database import Database
from rag_assets.store.tokens import NO_TOKEN, token_of


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for one that is free.", min=0, max=65535)] = 8000,
    retriever: Annotated[
        list[str] | None,
        typer.Option(
            "--retriever",
            metavar="NAME=FILE.toml",
            help="A retriever that callers may name, beside dense, lexical and hybrid; the one that is called default "
            "answers those who name none. May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """Answer searches over HTTP, each with a token of `rag token add`; Ctrl-C ends it.

    POST /search, /context and /feedback, GET /sources, /health, /ready and /metrics; GET /openapi.json describes them.
    What is sent is not encrypted: let a proxy with TLS stand in front where others than this machine ask. SIGTERM, too,
    lets what is being answered end first. A server of its own (DATABASE_URL) is searched with RAG_APP_DATABASE_URL, and
    brought up to date by `rag up`.
    """
    settings = load_settings()
    files = _files(retriever or [])
    if settings.database_url is None:
        with ready_database(settings):
            pass  # it is started, and up to date
    database = Database.from_settings(settings)
    try:
        database.ask({}, [token_of(NO_TOKEN)])  # what can never work says so now
        retrievers = {name: load_retriever(database, path) for name, path in files.items()}
        limits = Limits.from_settings(settings)
        bound = listening(host, port)
    finally:
        database.close()  # what was made in this thread; the server has connections of its own
    log_to_stderr()
    name, number = bound.getsockname()[:2]
    url = f"http://{f'[{name}]' if ':' in name else name}:{number}"
    note(f"Serving on {url} (Ctrl-C ends it)", "bold")
    with start("rag-assets", settings) as telemetry:
        told = answer_until_told(config_of(make_app(database, retrievers, limits, telemetry), limits), bound)
    return CommandResult({"url": url, "stopped": True}, lambda console: None, code_of(told))


def _files(words: list[str]) -> Mapping[str, Path]:
    """The files of retrievers, by the names that callers use."""
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise UsageError(f"--retriever {word!r}: a name and a file, as in careful=careful.toml")
        check_key(name, "retriever")
        if name in found:
            raise UsageError(f"--retriever names {name!r} twice")
        if not Path(path).is_file():
            raise unknown_path(path, "file")
        found[name] = Path(path)
    return found
