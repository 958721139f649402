"""`rag profile upgrade`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from rag_assets.commands.options import Bot, Json, Tenant, key
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult
from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import UsageError
from rag_assets.ingest.pairs import enable_pair
from rag_assets.store.profiles import add_spec, built_profile
from rag_assets.terms import NEWEST


def upgrade(
    name: Annotated[
        str,
        typer.Argument(help="A profile of the bot.", show_default=False, callback=key("profile")),
    ],
    tenant: Tenant,
    bot: Bot,
    as_name: Annotated[
        str | None,
        typer.Option("--as", help=f"Name of the new profile. (default: NAME-t{NEWEST})", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be made.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Make a candidate that is like a profile, with the newest terms: the words that lexical search finds a text by.

    The next ingest builds it, with vectors from the cache: nothing is embedded twice. It serves once the gate has
    passed it and it is promoted.
    """
    with ready_database() as database:
        check_names(database, tenant, bot, name)
        with database.work(tenant, bot) as connection:
            before = built_profile(connection, tenant, bot, name).profile
        if before.terms == NEWEST:
            raise UsageError(f"{name} has the newest terms already (version {NEWEST}): there is nothing to upgrade")
        spec = before.model_dump() | {"name": as_name or f"{name}-t{NEWEST}", "terms": NEWEST}
        successor = make_profile(**spec)
        if not dry_run:
            add_spec(database, successor)
            enable_pair(database, tenant, bot, successor.name)
    to_do = [
        f"rag ingest --tenant {tenant} --bot {bot} --profile {successor.name}",
        f"rag eval gate --candidate {successor.name} --tenant {tenant} --bot {bot} --non-inferior 0.01",
        f"rag promote {successor.name} --tenant {tenant} --bot {bot}",
    ]
    payload = {
        "tenant": tenant, "bot": bot, "profile": name, "terms": before.terms, "successor": successor.name,
        "successor_terms": successor.terms, "spec_hash": successor.spec_hash, "dry_run": dry_run, "next": to_do,
    }  # fmt: skip

    def show(console: Console) -> None:
        does = "would become" if dry_run else "is"
        text = f"{successor.name} {does} a candidate of {tenant}/{bot}: as {name}, with terms {successor.terms}"
        console.print("\n".join([f"{text} instead of {before.terms}", *to_do]), markup=False, soft_wrap=True)

    return CommandResult(payload, show)
