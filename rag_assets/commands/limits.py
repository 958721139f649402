"""`rag tenant limit` and `rag profile limit`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rag_assets.commands.options import Json, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult
from rag_assets.embedding.models import MODELS, batch_providers, model_info, usd
from rag_assets.errors import UsageError
from rag_assets.store.database import Database
from rag_assets.store.limits import (
    RateLimit,
    clear_rate_limit,
    profile_settings,
    rate_limits,
    set_profile_settings,
    set_rate_limit,
)
from rag_assets.store.profiles import get_spec
from rag_assets.store.tenants import spaces_of


class SubmitMode(StrEnum):
    """How documents are sent to a provider."""

    sync = "sync"
    batch = "batch"


def tenant_limit(
    tenant: Annotated[
        str | None, typer.Argument(help="Key of the tenant.", show_default=False, callback=key("tenant"))
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="The limit of the account, which all tenants share.")
    ] = False,
    provider: Annotated[
        str | None, typer.Option(help="Embedding provider, such as google.", show_default=False)
    ] = None,
    model: Annotated[str | None, typer.Option(help="Only this model. (default: all)", show_default=False)] = None,
    items: Annotated[
        int | None, typer.Option("--items-per-minute", help="Texts in any 60 s.", min=1, show_default=False)
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens-per-minute", help="Tokens in any 60 s.", min=1, show_default=False)
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the limit; with --all-tenants also a pause the provider asked for.")
    ] = False,
    as_json: Json = False,
) -> CommandResult:
    """Limit how fast a tenant, or all of them together, may embed; without a number, show the limits.

    A limit holds for all workers on all machines, and takes effect within 10 seconds. A provider counts each text of
    a request. Of texts and tokens, the one that is not given stays as it was.
    """
    if (tenant is None) != all_tenants:
        raise UsageError("name a tenant, or say --all-tenants for the limit of the account")
    changes = clear or items is not None or tokens is not None
    if changes and provider is None:
        raise UsageError("name the provider that is limited: --provider google")
    if clear and (items is not None or tokens is not None):
        raise UsageError("--clear removes both limits; set one afterwards")
    with ready_database() as database:
        if provider is not None and changes and not clear:
            _check_model(provider, model)
            set_rate_limit(database, RateLimit(tenant, provider, model, items, tokens))
        elif provider is not None and clear:
            clear_rate_limit(database, tenant, provider, model)
        payload = _limits(database, tenant, provider)
    return CommandResult(payload, lambda console: _show_limits(console, payload))


def _check_model(provider: str, model: str | None) -> None:
    if provider not in {info.provider for info in MODELS} or model is not None:
        try:
            model_info(provider, model or "")
        except ValueError as error:
            raise UsageError(str(error)) from error


def _limits(database: Database, tenant: str | None, provider: str | None) -> dict[str, Any]:
    with database.work(tenant) as connection:
        if tenant is not None:
            spaces_of(connection, tenant)
        found = [asdict(limit) for limit in rate_limits(connection, provider)]
    return {"tenant": tenant, "limits": found}


def _show_limits(console: Console, payload: dict[str, Any]) -> None:
    if not payload["limits"]:
        console.print("no rate limits are set")
        return
    table = Table("whose", "provider", "model", "items", "tokens", "in any")
    for limit in payload["limits"]:
        table.add_row(
            limit["tenant"] or "all tenants together",
            limit["provider"],
            limit["model"] or "all",
            *("–" if limit[name] is None else f"{limit[name]:,}" for name in ("items", "tokens")),
            f"{limit['per_seconds']} s",
        )
    console.print(table)


def profile_limit(
    name: Annotated[str, typer.Argument(help="Name of the profile.", callback=key("profile"))],
    max_cost_usd: Annotated[
        float | None,
        typer.Option(
            "--max-cost-usd", help="The most that it may cost each tenant, over all runs.", show_default=False
        ),
    ] = None,
    no_max_cost: Annotated[bool, typer.Option("--no-max-cost", help="Lift the ceiling.")] = False,
    mode: Annotated[
        SubmitMode | None,
        typer.Option(help="sync embeds at once; batch uses the provider's batch API, for half the price, in hours."),
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """Set what a profile may cost and how its documents are sent; without an option, show it.

    Nothing of this changes a vector, so it may be changed at any time.
    """
    with ready_database() as database:
        with database.work() as connection:
            spec = get_spec(connection, name)
        if mode is SubmitMode.batch and not spec.model_info.has_batch_api:
            known = f"providers with one: {batch_providers()}"
            raise UsageError(f"{spec.provider}/{spec.model} has no batch API; {known}")
        if mode is not None or max_cost_usd is not None or no_max_cost:
            set_profile_settings(
                database,
                name,
                max_cost_usd=max_cost_usd,
                no_max_cost=no_max_cost,
                mode=mode.value if mode else None,
            )
        with database.work() as connection:
            settings = profile_settings(connection, name)
    payload = {"profile": name, **asdict(settings)}
    return CommandResult(payload, lambda console: _show_settings(console, payload))


def _show_settings(console: Console, payload: dict[str, Any]) -> None:
    ceiling = payload["max_cost_usd"]
    limit = "no cost ceiling" if ceiling is None else f"at most {usd(ceiling)} for each tenant"
    console.print(f"profile {payload['profile']}: {limit}, mode {payload['mode']}", markup=False)
