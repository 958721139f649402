"""`rag graph`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import Bot, Json, Tenant, existing
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import FAILED, CommandResult, check_asking, confirmed, printable
from rag_assets.errors import UsageError, alike, did_you_mean
from rag_assets.ingest.triples import ImportReport, import_triples
from rag_assets.printing import counted
from rag_assets.sources.secrets import shown_text
from rag_assets.store.database import Connection
from rag_assets.store.source_life import named_sources
from rag_assets.store.tenants import spaces_of
from rag_assets.store.triples import StoredTriple, clear_triples, count_triples, entity_names, list_triples

_SHOWN_ERRORS = 20

Source = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Only of this source or file: its name, path or id, or a unique part of these."),
]
Limit = Annotated[int | None, typer.Option(help="Most triples to list. (default: all)", min=1)]


def import_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON lines, or .csv or .tsv with a header: subject, predicate, object, confidence, source, quote, "
            "chunk.",
            show_default=False,
            callback=existing("file"),
        ),
    ],
    tenant: Tenant,
    bot: Bot,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be taken.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Take triples from a file of JSON lines, CSV or TSV, and find where each one is said.

    Each line names subject, predicate and object, and the source that says so; what else it may name is a confidence
    above 0 and up to 1, and the words that say so (quote) or the chunk in which it is said. Without these, the nearest
    mentions of subject and object are taken. A line that is wrong is told with its number and stops nothing; the exit
    code is 1 then. Triples go with the version of their source: after a change, import them again.
    """
    with ready_database() as database:
        report = import_triples(database, tenant, bot, file, dry_run=dry_run)
    payload = {
        "tenant": tenant, "bot": bot, "file": str(file), "dry_run": dry_run, "lines": report.lines,
        "written": report.written, "unchanged": report.unchanged,
        "errors": [{"line": line, "error": error} for line, error in report.errors],
    }  # fmt: skip
    return CommandResult(
        payload, lambda console: _show_import(console, report, dry_run), FAILED if report.errors else 0
    )


def list_command(
    tenant: Tenant,
    bot: Bot,
    source: Source = None,
    like: Annotated[str | None, typer.Option(metavar="WORDS", help="Only triples that hold these words.")] = None,
    limit: Limit = None,
    as_json: Json = False,
) -> CommandResult:
    """List a bot's triples, with where each one is said."""
    with ready_database() as database, database.work(tenant) as connection:
        (space, *_) = spaces_of(connection, tenant, bot)
        sources = _sources(connection, tenant, bot, source)
        found = list_triples(connection, space, sources=sources, like=like, limit=limit)
    return _listing({"tenant": tenant, "bot": bot}, found)


def show(
    entity: Annotated[str, typer.Argument(help="The subject or object, in any form of its words.", show_default=False)],
    tenant: Tenant,
    bot: Bot,
    limit: Limit = None,
    as_json: Json = False,
) -> CommandResult:
    """Show what is said of one entity, as subject and as object."""
    with ready_database() as database, database.work(tenant) as connection:
        (space, *_) = spaces_of(connection, tenant, bot)
        found = list_triples(connection, space, entity=entity, limit=limit)
        if not found:
            likely = alike(entity, entity_names(connection, space))
            hint = did_you_mean([shown_text(name) for name in likely]) if likely else "`rag graph list` lists what is"
            raise UsageError(f"no triple of {tenant}/{bot} has the subject or object {entity!r}; {hint}")
    return _listing({"tenant": tenant, "bot": bot, "entity": entity}, found)


def clear(
    tenant: Tenant,
    bot: Bot,
    source: Source = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell how many would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Delete a bot's triples, or those of one source. Chunks and texts stay.

    Those that a profile's model found come back when their source is published in another version.
    """
    check_asking(as_json, not (yes or dry_run), "clear")
    with ready_database() as database:
        with database.work(tenant) as connection:
            (space, *_) = spaces_of(connection, tenant, bot)
            sources = _sources(connection, tenant, bot, source)
            count = count_triples(connection, space, sources)
        if count and not (yes or dry_run):
            of = f"{tenant}/{bot}" if source is None else f"{source!r} of {tenant}/{bot}"
            if not confirmed(f"Delete {counted(count, 'triple')} of {of}? [y/N]", "clear"):
                return CommandResult({}, lambda console: console.print("nothing was deleted"))
        if not dry_run:
            with database.work(tenant, bot) as connection:
                count = clear_triples(connection, space, sources)
    payload = {"tenant": tenant, "bot": bot, "source": source, "dry_run": dry_run, "triples": count}
    verb = "would be deleted" if dry_run else "deleted"
    return CommandResult(payload, lambda console: console.print(f"{counted(count, 'triple')} {verb}", markup=False))


def _sources(connection: Connection, tenant: str, bot: str, name: str | None) -> list[UUID] | None:
    return None if name is None else [one.id for one in named_sources(connection, tenant, bot, name)]


def _listing(payload: dict[str, Any], found: Sequence[StoredTriple]) -> CommandResult:
    triples = [one.to_dict() for one in found]
    matching = found[0].matching if found else 0
    return CommandResult(
        {**payload, "matching": matching, "triples": triples}, lambda console: _show_triples(console, triples, matching)
    )


def _show_triples(console: Console, triples: Sequence[dict[str, Any]], matching: int) -> None:
    if not triples:
        console.print("no triples; they come from a file by `rag graph import FILE`, or from a profile's chat model")
        return
    table = Table("subject", "predicate", "object", "confidence", "source", "found by")
    table.columns[3].justify = "right"
    for one in triples:
        found_by = one["profile"] or "import"
        table.add_row(
            *(Text(printable(one[name])) for name in ("subject", "predicate", "object")),
            f"{one['confidence']:.2f}",
            Text(printable(one["source"])),
            Text(found_by if one["up_to_date"] else f"{found_by} (older version)"),
        )
    console.print(table)
    count = counted(len(triples), "triple")
    told = count if len(triples) == matching else f"{len(triples):,} of {counted(matching, 'triple')}"
    console.print(Text(told, style="dim"))


def _show_import(console: Console, report: ImportReport, dry_run: bool) -> None:
    for line, error in report.errors[:_SHOWN_ERRORS]:
        console.print(Text(f"line {line}: {printable(error)}", style="red"), soft_wrap=True)
    if len(report.errors) > _SHOWN_ERRORS:
        console.print(Text(f"and {counted(len(report.errors) - _SHOWN_ERRORS, 'line')} more", style="red"))
    verb = "would be taken" if dry_run else "taken"
    console.print(
        f"{counted(report.lines, 'line')}: {counted(report.written, 'triple')} {verb}, {report.unchanged:,} known "
        f"already, {counted(len(report.errors), 'line')} wrong",
        markup=False,
    )
