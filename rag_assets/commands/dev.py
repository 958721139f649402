"""`rag dev`."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import note
from rag_assets.hosts import is_loopback
from rag_assets.launch.dev import address_of, serve, token_for
from rag_assets.settings import load_settings


def dev(
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.", min=1, max=65535)] = 3000,
    host: Annotated[str, typer.Option(help="Address that the Dagster UI listens on.")] = "127.0.0.1",
) -> int:
    """Run the Dagster UI and daemon, with the database up and the sensors on; Ctrl-C ends it.

    Where others than this machine reach the address, the UI asks for the token that is printed, or for RAG_DEV_TOKEN.
    """
    settings = load_settings()
    token = token_for(settings, host)
    with ready_database(settings, makes_home=True):
        shown = None if settings.dev_token else token  # a secret of one's own is printed nowhere
        note(f"Dagster UI: {address_of(host, port, shown)} (ready in some seconds; Ctrl-C ends it)", "bold")
    if not is_loopback(host):
        note("Others reach this address: whoever has the token can run jobs and read what is kept of all tenants.")
        note("What is sent is not encrypted: let a proxy with TLS stand in front, and listen on 127.0.0.1.")
    return serve(settings, host, port, token)
