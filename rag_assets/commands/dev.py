"""`rag dev`."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import note
from rag_assets.launch.dev import serve
from rag_assets.settings import load_settings


def dev(
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.", min=1, max=65535)] = 3000,
    host: Annotated[str, typer.Option(help="Address that the Dagster UI listens on.")] = "127.0.0.1",
) -> int:
    """Run the Dagster UI and daemon, with the database up and the sensors on; Ctrl-C ends it."""
    settings = load_settings()
    with ready_database(settings):
        note(f"Dagster UI: http://{host}:{port} (ready in some seconds; Ctrl-C ends it)", "bold")
    return serve(settings, host, port)
