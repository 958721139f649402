"""`rag forget`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rag_assets.commands.options import Bot, Json, Tenant
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, check_asking, confirmed, note, printable
from rag_assets.errors import UsageError
from rag_assets.ingest.forgetting import forget as forget_now
from rag_assets.printing import counted
from rag_assets.settings import Settings, load_settings
from rag_assets.sources.secrets import without_secrets
from rag_assets.store.database import Database
from rag_assets.store.forgetting import allow_sources
from rag_assets.store.source_life import NamedSource, named_sources
from rag_assets.store.tenants import spaces_of

_SHOWN = 10


def forget(
    source: Annotated[str, typer.Argument(help="Name, path or id of a source or file, or a unique part of these.")],
    tenant: Tenant,
    bot: Bot,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be forgotten.")] = False,
    purge_history: Annotated[
        bool, typer.Option("--purge-history", help="Delete the tenant's history of runs, too, which has previews.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Let what was forgotten be read again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> CommandResult:
    """Take one source out of all profiles of a bot now, and do not read it again until it changes.

    A file takes all of its records along. Once the command is done, no search finds them; their texts in every
    version, and cached vectors of texts that no other source has, are deleted. What stays, and where, is said at the
    end. With --undo, the next ingest reads them again.
    """
    check_asking(as_json, not (yes or dry_run or undo), "forget")
    settings = load_settings()
    with ready_database(settings) as database:
        with database.work(tenant) as connection:
            spaces_of(connection, tenant, bot)
            named = named_sources(connection, tenant, bot, source)
        found = [one for one in named if (one.status == "forgotten") == undo]
        payload = {
            "tenant": tenant,
            "bot": bot,
            "dry_run": dry_run,
            "undo": undo,
            "sources": [_row(one) for one in found],
        }
        if undo and not found:
            raise UsageError(f"{source!r} of {tenant}/{bot} was not forgotten: there is nothing to undo")
        if dry_run or not found:
            if not dry_run:  # an ingest that was under way when they were forgotten may have written them since
                payload |= _staged(settings, tenant, named)
            return CommandResult(
                payload, lambda console: _show_found(console, found, "would be" if dry_run else "already", payload)
            )
        if undo:
            return _undo(database, tenant, bot, found, payload)
        if not yes:
            _list(found)
            if not confirmed(f"Forget {_count(found)} of {tenant}/{bot}? Their texts are deleted. [y/N]", "forget"):
                return CommandResult({}, lambda console: console.print("nothing was forgotten"))
        done = forget_now(database, tenant, bot, [one.id for one in found])
        staged = _staged(settings, tenant, found)
        runs = _purge_history(settings, tenant) if purge_history else None
    payload |= {"chunks": dict(done.chunks), "versions": done.versions, "vectors": done.vectors}
    payload |= {"staged_files": staged["staged_files"], "dagster_runs": runs or 0}
    payload |= {"stays": [*_stays(settings, runs), *staged["stays"]]}
    return CommandResult(payload, lambda console: _show_done(console, found, payload))


def _undo(
    database: Database, tenant: str, bot: str, found: Sequence[NamedSource], payload: Mapping[str, Any]
) -> CommandResult:
    with database.work(tenant) as connection:
        allow_sources(connection, spaces_of(connection, tenant, bot)[0], [one.id for one in found])
    text = f"{_count(found)} may be read again: rag ingest --tenant {tenant} --bot {bot}"
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def _staged(settings: Settings, tenant: str, found: Sequence[NamedSource]) -> dict[str, Any]:
    """Take them out of the files between stages: of how many, and what cannot be looked into."""
    # loads Dagster and Arrow, for which a question need not wait
    from rag_assets.io_managers import drop_staged_sources, unfinished_files

    changed = drop_staged_sources(tenant, [str(one.id) for one in found], settings.storage)
    unfinished = unfinished_files(tenant, settings.storage)
    stays = (
        f"maybe in {counted(unfinished, 'file')} under {settings.storage} that an ingest is writing, or that one which "
        "was killed has left: forget it once more when no ingest runs; the rest goes with a later ingest, after a day"
    )
    return {"staged_files": changed, "stays": [stays] if unfinished else []}


def _purge_history(settings: Settings, tenant: str) -> int:
    from rag_assets.launch.instance import has_history, purge_dagster  # loads Dagster, as above

    return purge_dagster(settings, tenant, keep_partition=True) if has_history(settings) else 0


def _stays(settings: Settings, runs: int | None) -> list[str]:
    """What is left of forgotten sources, and where; `runs` of the history were deleted, None: it was left alone."""
    stays = [
        "in the database: their names and places with the status forgotten, a hash of their text, and a line of "
        "`rag events`",
        "in the embedding cache: vectors, without a text, of versions that were replaced before; "
        "`rag erase` takes them",
    ]
    if runs is None:
        stays.append(
            f"in Dagster's history of runs, {_place_of_history(settings)}: previews of the first chunks of up to five "
            "sources a run, and names of files that failed; --purge-history takes the tenant's"
        )
    return stays


def _place_of_history(settings: Settings) -> str:
    if settings.dagster_pg_url:
        return "the database of DAGSTER_PG_URL"
    return "the database _dagster beside that of DATABASE_URL" if settings.database_url else "the database dagster"


def _row(one: NamedSource) -> dict[str, Any]:
    row = {"source_id": one.id, "name": one.name, "file": one.file, "place": one.place}
    return without_secrets(row, one.external_id)


def _count(found: Sequence[NamedSource]) -> str:
    return found[0].label if len(found) == 1 else counted(len(found), "source")


def _list(found: Sequence[NamedSource]) -> None:
    for one in found[:_SHOWN]:
        note(f"to be forgotten: {one.label}")
    if len(found) > _SHOWN:
        note(f"and {len(found) - _SHOWN} more")


def _show_found(console: Console, found: Sequence[NamedSource], how: str, payload: Mapping[str, Any]) -> None:
    for one in found[:_SHOWN]:
        console.print(Text(printable(f"{how} forgotten: {one.label}")))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    console.print(f"{counted(len(found), 'source')}{more}" if found else "all of it is forgotten already", markup=False)
    if payload.get("staged_files"):
        console.print(f"it was in {counted(payload['staged_files'], 'staged file')}, and was taken out", markup=False)
    _show_stays(console, payload.get("stays", ()))


def _show_done(console: Console, found: Sequence[NamedSource], payload: Mapping[str, Any]) -> None:
    chunks = (
        ", ".join(f"{counted(count, 'chunk')} of {profile}" for profile, count in payload["chunks"].items())
        or "no chunks"
    )
    texts = f"{counted(payload['versions'], 'text')} and {counted(payload['vectors'], 'cached vector')}"
    console.print(
        f"{printable(_count(found))} {'is' if len(found) == 1 else 'are'} forgotten: {chunks}, {texts} deleted; "
        "nothing of it is found any more, and it is read again only when it changes",
        markup=False,
    )
    if payload["dagster_runs"]:
        console.print(f"{counted(payload['dagster_runs'], 'run')} of the history deleted", markup=False)
    _show_stays(console, payload["stays"])


def _show_stays(console: Console, stays: Sequence[str]) -> None:
    for one in stays:
        console.print(f"stays {printable(one)}", markup=False, soft_wrap=True)
