"""`rag tenant` and `rag profile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.chunking import ChunkingSpec
from rag_assets.commands.options import Json, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.printing import counted
from rag_assets.store import tenants
from rag_assets.store.database import Database
from rag_assets.store.floors import floors_of
from rag_assets.store.profiles import BuiltProfile, built_profiles, get_spec, list_specs
from rag_assets.store.weights import FoundWeight, TunedWeight, found_weight, tuned_weight


def add_tenant(
    tenant: Annotated[str, typer.Argument(help="Key of the tenant: a-z, 0-9, '-' and '_'.", callback=key("tenant"))],
    bot: Annotated[
        str | None, typer.Option("--bot", help="Create this bot of the tenant as well.", callback=key("bot"))
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """Create a tenant, and a bot of it. Safe to repeat."""
    with ready_database(makes_home=True) as database:
        created = tenants.add_tenant(database, tenant, bot)
    name = tenant if bot is None else f"{tenant}/{bot}"
    text = f"{name} {'created' if created else 'exists already'}"
    payload = {"tenant": tenant, "bot": bot, "created": created}
    return CommandResult(payload, lambda console: console.print(text, markup=False))


def list_tenants(as_json: Json = False) -> CommandResult:
    """List all tenants with their bots."""
    with ready_database() as database:
        found = [{"tenant": name, "bots": tenants.list_bots(database, name)} for name in tenants.list_tenants(database)]

    def show(console: Console) -> None:
        if not found:
            console.print("no tenants yet; create one by ingesting: rag ingest PATH --tenant T --bot B")
            return
        table = Table("tenant", "bots")
        for entry in found:
            table.add_row(str(entry["tenant"]), ", ".join(entry["bots"]) or "none")
        console.print(table)

    return CommandResult({"tenants": found}, show)


def list_profiles(as_json: Json = False) -> CommandResult:
    """List the profiles that any bot may be ingested with."""
    with ready_database() as database:
        with database.work() as connection:
            profiles = list_specs(connection)
        errors = _last_errors(database)

    def show(console: Console) -> None:
        table = Table("profile", "model", "dimensions", "metric", "chunks", "language", "terms", "index")
        for profile in profiles:
            table.add_row(*_cells(profile))
        console.print(table)
        for profile in profiles:
            if needs := needs_text(profile.name, profile.model_info.missing_packages()):
                console.print(needs, markup=False, soft_wrap=True)
        for name, of_bots in errors.items():
            for one in of_bots:
                text = f"{name} could not be built for {one['tenant']}/{one['bot']}: {printable(one['error'])}"
                console.print(Text(text, style="red"), soft_wrap=True)

    return CommandResult({"profiles": [profile_payload(profile) for profile in profiles], "errors": errors}, show)


def _last_errors(database: Database) -> dict[str, list[dict[str, str]]]:
    """By profile: the bots for which its last run could not embed, and why."""
    found: dict[str, list[dict[str, str]]] = {}
    for tenant in tenants.list_tenants(database):
        with database.work(tenant) as connection:
            for built in built_profiles(connection, tenant):
                if built.last_error is not None:
                    one = {"tenant": tenant, "bot": built.bot, "error": built.last_error}
                    found.setdefault(built.profile.name, []).append(one)
    return found


def show_profile(
    name: Annotated[str, typer.Argument(help="Name of the profile.", callback=key("profile"))], as_json: Json = False
) -> CommandResult:
    """Show everything that one profile fixes, and for which bots its hybrid search was tuned.

    The weights of hybrid search that were found without labels are shown, too.
    """
    with ready_database() as database:
        with database.work() as connection:
            profile = get_spec(connection, name)
        weights, floors = _weights_of(database, name), _floors(database, name)
    payload = {**profile_payload(profile), **weights, "floors": floors}

    def show(console: Console) -> None:
        _show_profile(console, profile, weights)
        _show_floors(console, floors)

    return CommandResult(payload, show)


def _weights_of(database: Database, name: str) -> dict[str, list[dict[str, Any]]]:
    """For each bot of each tenant, and what they rest on."""
    tuned, found = [], []
    for tenant in tenants.list_tenants(database):
        with database.work(tenant) as connection:
            for built in built_profiles(connection, tenant, name=name):
                tuned += _told(built, tuned_weight(connection, built))
                found += _told(built, found_weight(connection, built))
    return {"tuned_weights": tuned, "found_weights": found}


def _told(built: BuiltProfile, weight: TunedWeight | FoundWeight | None) -> list[dict[str, Any]]:
    if weight is None:
        return []
    told = {"tenant": built.tenant, "bot": built.bot, **asdict(weight)}
    return [{**told, "created_at": weight.created_at.isoformat()}]


def _floors(database: Database, name: str) -> list[dict[str, Any]]:
    """The floors of a profile, for each bot that has any."""
    found = []
    for tenant in tenants.list_tenants(database):
        with database.work(tenant) as connection:
            for built in built_profiles(connection, tenant, name=name):
                for one in floors_of(connection, built):
                    row = {"tenant": tenant, "bot": built.bot, **asdict(one)}
                    found.append({**row, "created_at": one.created_at.isoformat()})
    return found


def _show_floors(console: Console, floors: list[dict[str, Any]]) -> None:
    """One line for each."""
    for one in floors:
        weight = "" if one["dense_weight"] is None else f" with the weight {one['dense_weight']:g}"
        said = f"floor of {one['mode']} search{weight} for {one['tenant']}/{one['bot']}: {one['floor']:.3f}"
        evidence = one["evidence"]
        told = f"refuses {evidence['refused']:.0%} of what nobody can answer, keeps {evidence['kept']:.0%} of the rest"
        console.print(f"{said} ({told}; {one['created_at'][:16]}, {one['actor']})", markup=False)


def diff_profiles(
    first: Annotated[
        str, typer.Argument(metavar="P", help="Name of a profile.", show_default=False, callback=key("profile"))
    ],
    second: Annotated[
        str, typer.Argument(metavar="Q", help="Name of another.", show_default=False, callback=key("profile"))
    ],
    as_json: Json = False,
) -> CommandResult:
    """Show in what two profiles differ. Without a difference their chunks, vectors and indexes are equal."""
    with ready_database() as database, database.work() as connection:
        one, other = (_flat(get_spec(connection, name).model_dump(mode="json")) for name in (first, second))
    found = {
        name: [one.get(name), other.get(name)]
        for name in sorted({*one, *other} - {"name"})
        if one.get(name) != other.get(name)
    }

    def show(console: Console) -> None:
        if not found:
            console.print(f"{first} and {second} are built alike", markup=False)
            return
        table = Table("part", first, second)
        for name, values in found.items():
            table.add_row(name, *("–" if value is None else str(value) for value in values))
        console.print(table)

    return CommandResult({"profiles": [first, second], "differences": found}, show)


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as `chunking.size`."""
    flat: dict[str, Any] = {}
    for name, item in value.items():
        flat |= _flat(item, f"{prefix}{name}.") if isinstance(item, dict) else {prefix + name: item}
    return flat


def profile_payload(profile: EmbeddingProfile) -> dict[str, Any]:
    missing = profile.model_info.missing_packages()
    return {**profile.model_dump(mode="json"), "spec_hash": profile.spec_hash, "missing_packages": missing}


def needs_text(profile: str, missing: Sequence[str]) -> str:
    """What has to be installed before a profile can be used here; empty where nothing is `missing`."""
    return f"{profile} can be used after: pip install {' '.join(missing)}" if missing else ""


def _cells(profile: EmbeddingProfile) -> tuple[str, ...]:
    return (
        profile.name,
        f"{profile.provider}/{profile.model}",
        str(profile.dimensions),
        profile.distance_metric,
        _chunking_text(profile.chunking),
        profile.lexical.language,
        str(profile.terms),
        _index_text(profile),
    )


def _chunking_text(chunking: ChunkingSpec) -> str:
    words = [chunking.strategy, f"{chunking.size} {chunking.unit}, overlap {chunking.overlap}"]
    return " ".join(words) + (", context header" if chunking.context_header else "")


def _index_text(profile: EmbeddingProfile) -> str:
    if profile.index.kind == "exact":
        return "exact"
    if profile.index.kind == "hnsw":
        return f"hnsw, {profile.index.storage}"
    return f"hnsw from {counted(profile.index.exact_rows(profile.dimensions), 'chunk')}, {profile.index.storage}"


def _show_profile(
    console: Console, profile: EmbeddingProfile, weights: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    table = Table(show_header=False, box=None)
    names = ("profile", "model", "dimensions", "metric", "chunks", "language", "terms", "index")
    for name, cell in zip(names, _cells(profile), strict=True):
        table.add_row(name, cell)
    for kind, text in profile.task_instruction.items():
        table.add_row(f"{kind} instruction", text)
    for option, value in profile.options.model_dump(mode="json", exclude_defaults=True).items():
        table.add_row(option.replace("_", " "), str(value))
    table.add_row("spec hash", profile.spec_hash)
    for one in weights["found_weights"]:
        whose, weight = f"{one['tenant']}/{one['bot']}", one["dense_weight"]
        told = f"none for {whose}: {one['evidence']['reason']}" if weight is None else f"{weight:g} for {whose}"
        table.add_row("found weight", printable(told))
    for one in weights["tuned_weights"]:
        when = f"since {one['created_at'][:10]}, by {one['actor']}"
        table.add_row("tuned weight", f"{one['dense_weight']:g} for {one['tenant']}/{one['bot']}, {when}")
    console.print(table)
    if needs := needs_text(profile.name, profile.model_info.missing_packages()):
        console.print(needs, markup=False, soft_wrap=True)
