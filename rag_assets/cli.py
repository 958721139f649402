"""The command line: `rag`."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_assets.commands import (
    batches,
    catalogue,
    erase,
    ingest,
    inspect,
    limits,
    plan,
    profile_add,
    retire,
    rollout,
    search,
    server,
    sweep,
    usage,
)
from rag_assets.commands.shell import RagGroup

app = typer.Typer(
    name="rag",
    cls=RagGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="DATABASE_URL names a PostgreSQL server with pgvector; without it, RAG_HOME (.rag) keeps one.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"rag-assets {version('rag-assets')}")
        raise typer.Exit


@app.callback()
def rag(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Ingest the knowledge of many tenants' bots into Postgres, and search it, each inside its own scope."""


app.command()(server.up)
app.command()(server.down)
catalogue.tenant_app.command("limit")(limits.tenant_limit)
app.add_typer(catalogue.tenant_app, name="tenant")
catalogue.profile_app.command("add")(profile_add.add_profile)
catalogue.profile_app.command("retire")(retire.retire)
catalogue.profile_app.command("drop-retired")(retire.drop_retired)
catalogue.profile_app.command("limit")(limits.profile_limit)
app.add_typer(catalogue.profile_app, name="profile")
app.command()(plan.plan)
app.command()(ingest.ingest)
app.command()(batches.batches)
app.command()(usage.usage)
app.command()(inspect.inspect)
app.command()(search.sources)
app.command()(search.search)
app.add_typer(sweep.eval_app, name="eval")
app.command()(rollout.promote)
app.command()(rollout.rollback)
app.command()(rollout.canary)
app.command()(rollout.events)
app.command()(erase.erase)
app.command()(server.dev)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
