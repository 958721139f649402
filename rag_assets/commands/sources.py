"""`rag sources`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import Bot, Json, Tenant
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.commands.source_shown import show_life, visible_to
from rag_assets.documents.names import part_name
from rag_assets.printing import counted
from rag_assets.store.database import Connection
from rag_assets.store.overview import poor_sources
from rag_assets.store.roots import list_roots
from rag_assets.store.source_life import (
    Filter,
    list_files,
    list_sources,
    named_sources,
    source_life,
)
from rag_assets.store.sources import source_counts
from rag_assets.store.tenants import spaces_of

_STATUS_STYLES = {"ready": "green", "failed": "red", "no_text": "yellow", "forgotten": "yellow"}
_SHOWN = 20  # sources of a file whose life is told


class SourceStatus(StrEnum):
    """How far a source is."""

    queued = "queued"
    processing = "processing"
    ready = "ready"
    no_text = "no_text"
    failed = "failed"
    forgotten = "forgotten"


def sources(
    tenant: Tenant,
    bot: Bot,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Tell the life of one source: its name, path or id, or a part of these that is unique."
        ),
    ] = None,
    status: Annotated[SourceStatus | None, typer.Option(help="Only sources of this status.")] = None,
    like: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Only sources with these words in their name, file or place.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Most sources or files to list. (default: all)", min=1)] = None,
    poor: Annotated[bool, typer.Option("--poor", help="Only sources that were read poorly, with the reasons.")] = False,
    by_file: Annotated[bool, typer.Option("--by-file", help="List files, with their number of sources.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """List a bot's sources with their state, in each of its profiles.

    Where one is not for all users of the bot, each says who sees it. With --show, say of one source when it was seen,
    read, made a document of and published, what failed, and when that is tried again.
    """
    with ready_database() as database, database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        if show is not None:
            return _lives(connection, tenant, bot, show)
        roots = [root.shown for root in list_roots(connection, tenant, bot)]
        counts = source_counts(connection, tenant, bot)
        reasons = {one.id: [reason.words for reason in one.reasons] for one in poor_sources(connection, tenant, bot)}
        wanted = Filter(status.value if status else None, like, limit, list(reasons) if poor else None)
        payload: dict[str, Any] = {"tenant": tenant, "bot": bot, "roots": roots, "counts": counts}
        if by_file:
            files = list_files(connection, tenant, bot, wanted)
            return CommandResult({**payload, "files": files}, lambda console: _show_files(console, files))
        found = list_sources(connection, tenant, bot, wanted)
    listed = [{**source, "poor": reasons.get(source["source_id"], [])} for source in found.sources]
    payload |= {"matching": found.matching, "sources": listed}
    if status is not None or like is not None or limit is not None or poor:
        roots = list(dict.fromkeys(source["root"] for source in found.sources if source["root"]))
    return CommandResult(payload, lambda console: _show_sources(console, listed, found.matching, roots, poor))


def _lives(connection: Connection, tenant: str, bot: str, name: str) -> CommandResult:
    found = named_sources(connection, tenant, bot, name)
    lives = [source_life(connection, one.id) for one in found[:_SHOWN]]
    payload = {"tenant": tenant, "bot": bot, "matching": len(found), "sources": lives}

    def shown(console: Console) -> None:
        for life in lives:
            show_life(console, life)
        if len(found) > len(lives):
            console.print(Text(f"{len(lives)} of {counted(len(found), 'source')} of that file", style="dim"))

    return CommandResult(payload, shown)


def _show_sources(
    console: Console, found: Sequence[Mapping[str, Any]], matching: int, roots: Sequence[str], poor: bool
) -> None:
    several = len({source["root"] for source in found}) > 1  # the same name may lie under each of them
    shared = all(source["visibility"] == "bot" for source in found)
    optional = [name for name, wanted in (("root", several), ("visible to", not shared)) if wanted]
    table = Table("status", "source", "in", *optional, "kind", "chunks by profile", "poor" if poor else "error")
    for source in found:
        status = str(source["status"])
        profiles = ", ".join(
            f"{name} {state['chunks']}{'' if state['up_to_date'] else ' (older version)'}"
            for name, state in sorted(source["profiles"].items())
        )
        table.add_row(
            Text(status, style=_STATUS_STYLES.get(status, "")),
            Text(printable(source["name"])),
            Text(printable(_place(source))),
            *([Text(printable(source["root"] or ""))] if several else []),
            *([] if shared else [Text(printable(visible_to(source)))]),
            Text(str(source["source_type"])),
            Text(profiles or "none yet"),
            Text(printable("; ".join(source["poor"]) if poor else source["error"] or _missing(source))),
        )
    console.print(table)
    count = counted(len(found), "source")
    count = count if len(found) == matching else f"{len(found):,} of {counted(matching, 'source')}"
    line = f"{count} under: {printable(', '.join(roots))}" if roots else count
    console.print(Text(line, style="dim"), soft_wrap=True)
    poorly = sum(bool(source["poor"]) for source in found)
    if poorly and poor:
        ways = "a guessed encoding: name it with --encoding of its root; pages without text: OCR (docs/documents.md)"
        console.print(Text(ways, style="dim"), soft_wrap=True)
    if poorly and not poor:
        console.print(Text(f"read poorly: {poorly:,}; why, says `rag sources --poor`", style="yellow"), soft_wrap=True)


def _place(source: Mapping[str, Any]) -> str:
    """File and place of a record; of what is called after its file, nothing is left to say."""
    file, place = source["file"], source["place"]
    if source["name"] in (file, part_name(file, place or "")):
        return ""
    return f"{file}, {place}" if place else str(file)


def _missing(source: Mapping[str, Any]) -> str:
    since = source["missing_since"]
    return f"not seen since {since:%Y-%m-%d %H:%M}: a part of its file cannot be read" if since else ""


def _show_files(console: Console, files: Sequence[Mapping[str, Any]]) -> None:
    table = Table("file", "root", "sources", "by status")
    table.columns[2].justify = "right"
    for file in files:
        statuses = ", ".join(
            f"{count} {status.replace('_', ' ')}" for status, count in sorted(file["statuses"].items())
        )
        table.add_row(
            Text(printable(file["file"])), Text(printable(file["root"] or "")), f"{file['sources']:,}", Text(statuses)
        )
    console.print(table)
    console.print(Text(counted(len(files), "file"), style="dim"))
