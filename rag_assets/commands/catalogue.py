"""`rag tenant` and `rag profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rag_assets.commands.options import IndexKind, Json, Metric
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import Answer

if TYPE_CHECKING:
    from rag_assets.embedding.profiles import EmbeddingProfile

tenant_app = typer.Typer(no_args_is_help=True, help="Tenants and their bots.")
profile_app = typer.Typer(no_args_is_help=True, help="Embedding profiles: how text becomes vectors.")


@tenant_app.command("add")
def add_tenant(
    tenant: Annotated[str, typer.Argument(help="Key of the tenant: a-z, 0-9, '-' and '_'.")],
    bot: Annotated[str | None, typer.Option("--bot", help="Create this bot of the tenant as well.")] = None,
    as_json: Json = False,
) -> Answer:
    """Create a tenant, and a bot of it. Safe to repeat."""
    from rag_assets.keys import check_key
    from rag_assets.store import tenants

    check_key(tenant, "tenant")
    if bot is not None:
        check_key(bot, "bot")
    with ready_database() as database:
        created = tenants.add_tenant(database, tenant, bot)
    name = tenant if bot is None else f"{tenant}/{bot}"
    text = f"{name} {'created' if created else 'exists already'}"
    payload = {"tenant": tenant, "bot": bot, "created": created}
    return Answer(payload, lambda console: console.print(text, markup=False))


@tenant_app.command("list")
def list_tenants(as_json: Json = False) -> Answer:
    """List all tenants with their bots."""
    from rag_assets.store import tenants

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

    return Answer({"tenants": found}, show)


@profile_app.command("list")
def list_profiles(as_json: Json = False) -> Answer:
    """List the profiles that any bot may be ingested with."""
    from rag_assets.store.profiles import list_specs

    with ready_database() as database, database.transaction("ingest", {}) as connection:
        profiles = list_specs(connection)

    def show(console: Console) -> None:
        table = Table("profile", "model", "dimensions", "metric", "chunks", "language", "index")
        for profile in profiles:
            table.add_row(*_cells(profile))
        console.print(table)

    return Answer({"profiles": [_payload(profile) for profile in profiles]}, show)


@profile_app.command("show")
def show_profile(name: Annotated[str, typer.Argument(help="Name of the profile.")], as_json: Json = False) -> Answer:
    """Show everything that one profile fixes."""
    from rag_assets.keys import check_key
    from rag_assets.store.profiles import get_spec

    check_key(name, "profile")
    with ready_database() as database, database.transaction("ingest", {}) as connection:
        profile = get_spec(connection, name)
    return Answer(_payload(profile), lambda console: _show_profile(console, profile))


@profile_app.command("add")
def add_profile(
    name: Annotated[str, typer.Argument(help="Name of the new profile; a name never changes its meaning.")],
    provider: Annotated[str, typer.Option(help="Embedding provider, such as wordllama.", show_default=False)],
    model: Annotated[str, typer.Option(help="Model of that provider.", show_default=False)],
    dimensions: Annotated[int, typer.Option(help="Length of the vectors, at most 4000.", show_default=False)],
    metric: Annotated[Metric, typer.Option(help="Distance between vectors.")] = Metric.cosine,
    chunk_size: Annotated[
        int | None, typer.Option(help="Largest chunk, in characters. (default: 1200)", show_default=False)
    ] = None,
    chunk_overlap: Annotated[
        int | None,
        typer.Option(help="Characters that a chunk repeats of the one before. (default: 150)", show_default=False),
    ] = None,
    language: Annotated[str, typer.Option(help="Postgres text search configuration of the words.")] = "english",
    index: Annotated[
        IndexKind, typer.Option(help="auto builds an HNSW index once exact search would be slow.")
    ] = IndexKind.auto,
    exact_below: Annotated[
        int | None,
        typer.Option(help="With auto: search exactly below this many chunks. (default: by dimensions)"),
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Add a profile to the catalogue. It is built for a bot by: rag ingest --profile NAME."""
    from rag_assets.embedding.profiles import DEFAULT_CHUNKING, make_profile
    from rag_assets.store.profiles import add_spec, list_specs

    profile = make_profile(
        name=name,
        provider=provider,
        model=model,
        dimensions=dimensions,
        distance_metric=metric.value,
        chunking={
            "size": DEFAULT_CHUNKING.size if chunk_size is None else chunk_size,
            "overlap": DEFAULT_CHUNKING.overlap if chunk_overlap is None else chunk_overlap,
        },
        lexical={"language": language},
        index={"kind": index.value, "exact_below": exact_below},
    )
    with ready_database() as database:
        with database.transaction("ingest", {}) as connection:
            known = {spec.name for spec in list_specs(connection)}
        add_spec(database, profile)
    created = name not in known
    text = f"profile {name} {'added' if created else 'exists already, with the same specification'}"
    return Answer({**_payload(profile), "created": created}, lambda console: console.print(text, markup=False))


@profile_app.command("diff")
def diff_profiles(
    first: Annotated[str, typer.Argument(metavar="P", help="Name of a profile.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="Q", help="Name of another.", show_default=False)],
    as_json: Json = False,
) -> Answer:
    """Show in what two profiles differ. Without a difference their chunks, vectors and indexes are equal."""
    from rag_assets.keys import check_key
    from rag_assets.store.profiles import get_spec

    for name in (first, second):
        check_key(name, "profile")
    with ready_database() as database, database.transaction("ingest", {}) as connection:
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

    return Answer({"profiles": [first, second], "differences": found}, show)


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as `chunking.size`."""
    flat: dict[str, Any] = {}
    for name, item in value.items():
        flat |= _flat(item, f"{prefix}{name}.") if isinstance(item, dict) else {prefix + name: item}
    return flat


def _payload(profile: EmbeddingProfile) -> dict[str, Any]:
    return {**profile.model_dump(mode="json"), "spec_hash": profile.spec_hash}


def _cells(profile: EmbeddingProfile) -> tuple[str, ...]:
    return (
        profile.name,
        f"{profile.provider}/{profile.model}",
        str(profile.dimensions),
        profile.distance_metric,
        f"{profile.chunking.size}, overlap {profile.chunking.overlap}",
        profile.lexical.language,
        _index_text(profile),
    )


def _index_text(profile: EmbeddingProfile) -> str:
    if profile.index.kind != "auto":
        return profile.index.kind
    return f"hnsw from {profile.index.exact_rows(profile.dimensions):,} chunks"


def _show_profile(console: Console, profile: EmbeddingProfile) -> None:
    table = Table(show_header=False, box=None)
    names = ("profile", "model", "dimensions", "metric", "chunks", "language", "index")
    for name, cell in zip(names, _cells(profile), strict=True):
        table.add_row(name, cell)
    for kind, text in profile.task_instruction.items():
        table.add_row(f"{kind} instruction", text)
    table.add_row("spec hash", profile.spec_hash)
    console.print(table)
