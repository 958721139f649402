"""`rag sources`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import Bot, Json, Tenant
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.store.roots import list_roots
from rag_assets.store.sources import source_counts, sources_overview
from rag_assets.store.tenants import spaces_of

_STATUS_STYLES = {"ready": "green", "failed": "red", "no_text": "yellow"}


def sources(tenant: Tenant, bot: Bot, as_json: Json = False) -> CommandResult:
    """List a bot's sources with their state, in each of its profiles."""
    with ready_database() as database, database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        roots = [root.uri for root in list_roots(connection, tenant, bot)]
        found = sources_overview(connection, tenant, bot)
        counts = source_counts(connection, tenant, bot)
    payload = {"tenant": tenant, "bot": bot, "roots": roots, "counts": counts, "sources": found}
    return CommandResult(payload, lambda console: _show_sources(console, found, roots))


def _show_sources(console: Console, found: Sequence[Mapping[str, Any]], roots: Sequence[str]) -> None:
    table = Table("status", "source", "kind", "chunks by profile", "error")
    for source in found:
        status = str(source["status"])
        profiles = ", ".join(
            f"{name} {state['chunks']}{'' if state['up_to_date'] else ' (older version)'}"
            for name, state in sorted(source["profiles"].items())
        )
        table.add_row(
            Text(status, style=_STATUS_STYLES.get(status, "")),
            Text(printable(source["name"])),
            Text(str(source["source_type"])),
            Text(profiles or "none yet"),
            Text(printable(source["error"] or "")),
        )
    console.print(table)
    console.print(Text(f"{len(found)} sources under: {printable(', '.join(roots) or 'no roots yet')}", style="dim"))
