"""The command line: `rag`."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from rag_assets.children import PRIVATE
from rag_assets.commands.lazy import MARKUP
from rag_assets.commands.listing import listed
from rag_assets.commands.shell import RagGroup


class Rag(RagGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for command in listed():
            self.add_command(command)


app = typer.Typer(
    name="rag",
    cls=Rag,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="DATABASE_URL names a PostgreSQL server with pgvector; without it, one is kept in RAG_HOME, or in .rag.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # 28 ms, which every other command line would wait for

        print(f"rag-assets {version('rag-assets')}")
        raise typer.Exit


@app.callback()
def rag(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Ingest the knowledge of many tenants' bots into Postgres, and search it, each inside its own scope."""


def main() -> None:
    """Entry point of the console script; what it makes is for nobody else."""
    os.umask(PRIVATE)
    app()


if __name__ == "__main__":
    main()
