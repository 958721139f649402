"""`rag ingest`."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rag_assets.commands.bars import shown
from rag_assets.commands.options import (
    AllFolders,
    Batch,
    Bot,
    Encoding,
    Exclude,
    GitIgnore,
    Include,
    Json,
    NoIndex,
    Reread,
    RetryFailed,
    Tenant,
    User,
    Visibility,
    given_options,
    key,
)
from rag_assets.commands.plan import no_roots, plan_payload, price_payload, show_failures, show_plan
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import FAILED, CommandResult, note, printable
from rag_assets.embedding.profiles import DEFAULT_PROFILE
from rag_assets.errors import UsageError, alike, did_you_mean
from rag_assets.ingest.batch_api.backlog import require_batches
from rag_assets.ingest.plan import Demand, exists, make_plan, price_of
from rag_assets.ingest.roots import checked_options, forget_unread, refuse_moves
from rag_assets.ingest.start import start
from rag_assets.ingest.visibility import check_visibility, space_of, visible_to
from rag_assets.printing import counted, duration
from rag_assets.settings import Settings, load_settings
from rag_assets.sources.roots import resolve_roots
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profiles, get_spec
from rag_assets.store.refused import forget_refused_texts, try_again_now
from rag_assets.store.roots import list_roots
from rag_assets.store.source_life import count_failed_served
from rag_assets.store.sources import forget_unread_files, let_files_be_reread
from rag_assets.store.tenants import SHARED_BOT, list_bots, list_tenants, spaces_of

if TYPE_CHECKING:
    from rag_assets.launch.ingest import IngestOutcome

_REST = {
    "failed": ("failed", "failed"),
    "no_text": ("holds no text", "hold no text"),
    "deleted": ("is gone, and served no more", "are gone, and served no more"),
}


@dataclass(frozen=True)
class IngestFlags:
    """Through the provider's `batch` API; roots that look moved taken `as_new` ones; what is gone is so on purpose."""

    batch: bool = False
    as_new: bool = False
    confirm_loss: bool = False


DEFAULT_FLAGS = IngestFlags()


def ingest(
    tenant: Tenant,
    bot: Bot,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH|URL]...", help="Folders, files and addresses to remember as source roots."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile to build. (default: the bot's active one, else static-256)",
            show_default=False,
            callback=key("profile"),
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done; write nothing.")] = False,
    batch: Batch = False,
    retry_failed: RetryFailed = False,
    exclude: Exclude = None,
    include: Include = None,
    gitignore: GitIgnore = None,
    all_folders: AllFolders = None,
    noindex: NoIndex = None,
    encoding: Encoding = None,
    visibility: Visibility = None,
    user: User = None,
    as_new: Annotated[
        bool, typer.Option("--as-new", help="Take a PATH for a new root, though it looks like one that was moved.")
    ] = False,
    confirm_loss: Annotated[
        bool, typer.Option("--confirm-loss", help="What is gone has gone on purpose, however much it is.")
    ] = False,
    reread: Reread = False,
    as_json: Json = False,
) -> CommandResult:
    """Bring what a bot knows up to date with its sources.

    A PATH is remembered, with what it is told; without one, all remembered roots are scanned. An unknown tenant or bot
    is created when a PATH is given. A source that cannot be read is listed as failed and does not stop the others: the
    exit code stays 0. It is 1 where most of a root is gone at once: that is kept until it is back, or confirmed. And
    where a PATH that is new cannot be read, as it is not remembered.
    """
    roots = resolve_roots(paths or [])
    check_visibility(visibility, user)
    given = given_options(exclude, include, gitignore, all_folders, noindex, encoding)
    options = checked_options({**given, **visible_to(visibility, user)})
    if (options or visibility) and not roots:
        raise UsageError("options of a root go with a PATH; those of a remembered one are changed by: rag root set")
    settings = load_settings()
    with ready_database(settings, makes_home=bool(roots) and not dry_run) as database, shown(silent=as_json):
        if dry_run:
            bot = SHARED_BOT if visibility == "tenant" else bot
            return _dry_run(database, tenant, bot, roots, profile, options, as_new)
        bot = space_of(database, tenant, bot, visibility)
        _forget(database, tenant, bot, retry_failed, reread)
        flags = IngestFlags(batch, as_new, confirm_loss)
        name, outcome = ingest_roots(database, settings, tenant, bot, roots, profile, flags, options)
    payload = outcome_payload(tenant, bot, name, outcome)
    return CommandResult(payload, lambda console: show_outcome(console, payload), _exit_code(outcome))


def _exit_code(outcome: IngestOutcome) -> int:
    return FAILED if outcome.held or outcome.forgotten_roots else 0


def _forget(database: Database, tenant: str, bot: str, failures: bool, times: bool) -> None:
    """Forget what failed or held no text, and when files were read: these are read again."""
    with database.work(tenant) as connection:
        if failures:
            forget_unread_files(connection, tenant, bot)
        if times:
            let_files_be_reread(connection, tenant, bot)
    if failures:
        forget_refused_texts(database, tenant)
        try_again_now(database, tenant, bot)


def ingest_roots(
    database: Database,
    settings: Settings,
    tenant: str,
    bot: str,
    roots: Sequence[str],
    profile: str | None = None,
    flags: IngestFlags = DEFAULT_FLAGS,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[str, IngestOutcome]:
    """Remember the roots and what they are told, enable the profile for the bot, and materialize both in Dagster.

    Returns the profile's name and what was done. A root that is new and cannot be read is not remembered.

    Raises:
        UnknownTenant, UnknownBot, UnknownProfile, UsageError, RootMoved: before anything is written.
        RagError: a run failed.
    """
    name = _checked_profile(database, tenant, bot, roots, profile)
    if flags.batch:
        _require_batches(database, name)
    is_new = not exists(database, tenant, bot)
    start(database, tenant, bot, name, roots, options, flags.as_new)
    if is_new:
        undo = f"rag erase --tenant {tenant}" + (f" --bot {bot}" if len(list_bots(database, tenant)) > 1 else "")
        note(_new_bot(database, tenant, bot, "was made", f" Take it away again with: {undo}"))
    gc.disable()
    try:
        from rag_assets.launch.ingest import materialize_ingest  # Dagster, which a dry run and a refusal do without
    finally:
        gc.freeze()  # what is loaded stays: the collector need not walk through it, now nor later, which takes 0.5 s
        gc.enable()
    outcome = materialize_ingest(database, settings, tenant, bot, name, flags.batch, flags.confirm_loss)
    forgotten = tuple(forget_unread(database, tenant, bot, roots))
    with database.work(tenant) as connection:
        served = count_failed_served(connection, tenant, bot, name)
    return name, replace(outcome, forgotten_roots=forgotten, failed_served=served)


def _new_bot(database: Database, tenant: str, bot: str, made: str, undo: str = "") -> str:
    """What is said of a bot that `was made`, or would be: it may have been meant for another. How to `undo` it."""
    tenants_now = list_tenants(database)
    others = [other for other in (list_bots(database, tenant) if tenant in tenants_now else []) if other != bot]
    named = [other for other in tenants_now if other != tenant and bot in list_bots(database, other)]
    tenants = [] if others else alike(tenant, named)
    likely = [f"{tenant}/{other}" for other in alike(bot, others)] or [f"{other}/{bot}" for other in tenants]
    said = f"{tenant}/{bot} is new, and {made}"
    return f"{said}; {did_you_mean(likely)}{undo}" if likely else said


def _require_batches(database: Database, name: str) -> None:
    with database.work() as connection:
        require_batches(get_spec(connection, name))


def _checked_profile(database: Database, tenant: str, bot: str, roots: Sequence[str], profile: str | None) -> str:
    """The profile to build, once it is known that the request can be carried out."""
    known = exists(database, tenant, bot)
    with database.work(tenant) as connection:
        if profile is not None:
            get_spec(connection, profile)
        active = None
        if known or not roots:
            active = spaces_of(connection, tenant, bot)[0].active_profile_id
        if not roots and not list_roots(connection, tenant, bot):
            raise no_roots(tenant, bot)
        if profile is None:
            names = {built.id: built.profile.name for built in built_profiles(connection, tenant, bot)}
            profile = names.get(active, DEFAULT_PROFILE) if active is not None else DEFAULT_PROFILE
        return get_spec(connection, profile).name


def _dry_run(
    database: Database,
    tenant: str,
    bot: str,
    roots: Sequence[str],
    profile: str | None,
    options: Mapping[str, Any],
    as_new: bool,
) -> CommandResult:
    name = _checked_profile(database, tenant, bot, roots, profile)
    if not exists(database, tenant, bot):
        note(_new_bot(database, tenant, bot, "would be made"))
    if not as_new:
        refuse_moves(database, tenant, bot, roots, options)
    with database.work() as connection:
        spec = get_spec(connection, name)
    plan = make_plan(database, tenant, bot, roots, Demand(database, tenant, spec), options)
    price = price_of(database, tenant, spec, plan.work)
    payload = {
        "dry_run": True,
        "tenant": tenant,
        "bot": bot,
        "profile": name,
        **plan_payload(plan),
        **price_payload(price),
        "missing_packages": spec.model_info.missing_packages(),
    }
    return CommandResult(payload, lambda console: _show_plan(console, payload))


def _show_plan(console: Console, payload: dict[str, Any]) -> None:
    whose = f"{payload['tenant']}/{payload['bot']}"
    console.print(f"dry run, {whose}, profile {payload['profile']}: nothing was written", markup=False)
    show_plan(console, payload)


def outcome_payload(tenant: str, bot: str, profile: str, outcome: IngestOutcome) -> dict[str, Any]:
    """What `rag ingest --json` prints."""
    states = ("ready", "unchanged", "failed", "no_text", "deleted")
    return {
        "tenant": tenant,
        "bot": bot,
        "profile": profile,
        "sources": {state: outcome.sources.get(state, 0) for state in states},
        "chunks_written": outcome.chunks_written,
        "embedded": outcome.embedded,
        "cache_hits": outcome.cache_hits,
        "triples": {name: getattr(outcome.extraction, name) for name in ("asked", "unanswered", "tokens", "cost_usd")},
        "pending_chunks": outcome.pending_chunks,
        "batch_jobs": outcome.batch_jobs,
        "seconds": round(outcome.seconds, 3),
        "startup_seconds": round(outcome.startup_seconds, 3),
        "run_ids": list(outcome.run_ids),
        "activated": outcome.activated,
        "failed_served": outcome.failed_served,
        "failures": [{"source": one.name, "error": one.error} for one in outcome.failures],
        "held": [
            {
                "root": one.root,
                "sources": one.held.sources,
                "of": one.held.of,
                "since": one.held.since.isoformat(),
                "message": str(one),
            }
            for one in outcome.held
        ],
        "skipped": dict(outcome.skipped),
        "unreadable_roots": [{"root": one.name, "error": one.error} for one in outcome.unreadable_roots],
        "forgotten_roots": list(outcome.forgotten_roots),
    }


def _show_triples(console: Console, payload: dict[str, Any]) -> None:
    """What the profile's chat model was asked, and what is still without an answer."""
    told = payload["triples"]
    if told["asked"]:
        took = f"{counted(told['tokens'], 'token')}, ${told['cost_usd']:.4f}"
        console.print(f"{counted(told['asked'], 'text')} asked about for triples: {took}", markup=False)
    if told["unanswered"]:
        now = f"rag ingest {_bot_of(payload)} --profile {payload['profile']}"
        console.print(
            f"{counted(told['unanswered'], 'text')} had no answer and no triples: asked about again later, or now by "
            f"`{now} --retry-failed`",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def served_line(sources: Mapping[str, int]) -> str:
    """`300 sources served (0 new or changed, 300 unchanged)`."""
    served = sources["ready"] + sources["unchanged"]
    count = f"{served:,} source{'' if served == 1 else 's'}"
    return f"{count} served ({sources['ready']:,} new or changed, {sources['unchanged']:,} unchanged)"


def _bot_of(payload: Mapping[str, Any]) -> str:
    return f"--tenant {payload['tenant']} --bot {payload['bot']}"


def show_outcome(console: Console, payload: dict[str, Any]) -> None:
    """Print what is served now, and what an ingest did for that."""
    console.print(f"{payload['tenant']}/{payload['bot']}, profile {payload['profile']}", markup=False)
    console.print(served_line(payload["sources"]), markup=False)
    for state, words in _REST.items():
        if count := payload["sources"][state]:
            served = payload["failed_served"] if state == "failed" else 0
            still = f"; what was served before of {served:,} still is" if served else ""
            which = f": rag sources {_bot_of(payload)} --status no_text" if state == "no_text" else ""
            style = "red" if state == "failed" else ""
            console.print(f"{counted(count, *words)}{still}{which}", style=style, markup=False, soft_wrap=True)
    console.print(
        f"{counted(payload['chunks_written'], 'chunk')} written, {payload['embedded']:,} embedded, "
        f"{payload['cache_hits']:,} from the cache, in {duration(payload['seconds'])}, "
        f"and {duration(payload['startup_seconds'])} for Dagster to start"
    )
    _show_triples(console, payload)
    if payload["pending_chunks"]:
        console.print(
            f"{counted(payload['pending_chunks'], 'chunk waits', 'chunks wait')} for a batch job; "
            "published by `rag dev` or the next `rag ingest`",
            markup=False,
        )
    if payload["activated"]:
        console.print(f"{payload['profile']} is now the active profile of this bot", markup=False)
    if payload["skipped"]:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in payload["skipped"].items())
        console.print(f"files that are not read: {reasons}", markup=False)
    failures = [(item["source"], item["error"]) for item in payload["failures"]]
    where = f"all of them: rag sources {_bot_of(payload)} --status failed"
    show_failures(console, "failed", failures, payload["sources"]["failed"], where)
    for root in payload["forgotten_roots"]:
        console.print(Text(f"{printable(root)} could not be read, and is not remembered", style="red"), soft_wrap=True)
    for held in payload["held"]:
        console.print(Text(f"held back: {printable(held['message'])}", style="bold red"), soft_wrap=True)
