"""`rag plan`, and how every command shows what an ingest would take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.bars import shown
from rag_assets.commands.catalogue import needs_text
from rag_assets.commands.options import AnyBot, Json, Tenant, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.embedding.models import usd
from rag_assets.errors import UsageError
from rag_assets.ingest.plan import Demand, Plan, Price, make_plan, price_of
from rag_assets.printing import counted, rough_duration
from rag_assets.store.profiles import get_spec
from rag_assets.store.roots import list_roots
from rag_assets.store.tenants import spaces_of

SHOWN_FAILURES = 20


def plan(
    tenant: Tenant,
    profile: Annotated[str, typer.Option(help="Profile to build.", show_default=False, callback=key("profile"))],
    bot: AnyBot = None,
    as_json: Json = False,
) -> CommandResult:
    """Tell what building a profile would take and cost, before anything is paid; writes and sends nothing.

    Remembered roots are scanned. Up to 200 files are read to estimate the rest, and tokens of remote models are
    estimated, for English mostly up to 20 % too high; a provider's bill is the truth.
    """
    with ready_database() as database, shown(silent=as_json, kept="nothing was written"):
        with database.work(tenant) as connection:
            spec = get_spec(connection, profile)
            bots = [space.bot for space in spaces_of(connection, tenant, bot)]
            if bot is not None and not list_roots(connection, tenant, bot):
                raise no_roots(tenant, bot)
        demand = Demand(database, tenant, spec)
        plans = {name: make_plan(database, tenant, name, (), demand) for name in bots}
        total = Plan()
        for found in plans.values():
            total.add(found)
        price = price_of(database, tenant, spec, total.work)
    payload = {
        "tenant": tenant,
        "bot": bot,
        "profile": profile,
        **plan_payload(total),
        **price_payload(price),
        "missing_packages": spec.model_info.missing_packages(),
        "bots": [{"bot": name, **plan_payload(found)} for name, found in plans.items()],
    }
    return CommandResult(payload, lambda console: _show(console, payload))


def no_roots(tenant: str, bot: str) -> UsageError:
    """The error where there is nothing to look at."""
    return UsageError(
        f"bot {bot!r} of tenant {tenant!r} has no source roots yet. Name a folder, file or address: "
        f"rag ingest PATH --tenant {tenant} --bot {bot}"
    )


def plan_payload(found: Plan) -> dict[str, Any]:
    """What is to be done, as JSON."""
    return {
        "files": {name: getattr(found, name) for name in ("new", "changed", "unchanged", "gone", "skipped")},
        **vars(found.work),
        "held": found.held,
        "exact": found.exact,
        "unreadable": [{"source": name, "error": error} for name, error in found.unreadable],
    }


def price_payload(price: Price) -> dict[str, Any]:
    """What that would cost, as JSON. The batch API's own time is not known: Google's target is 24 hours."""
    return {
        "mode": price.mode,
        "cost_usd": {"sync": price.sync_usd, "batch": price.batch_usd},
        "triples_cost_usd": price.graph_usd,
        "seconds": {"sync": price.sync_seconds, "batch": None},
        "seconds_rest_on": price.seconds_rest_on,
        "ceiling": {
            "max_cost_usd": price.ceiling_usd,
            "spent_usd": price.spent_usd,
            "left_usd": price.left_usd,
            "fits": price.fits,
        },
    }


def _show(console: Console, payload: dict[str, Any]) -> None:
    whose = payload["tenant"] if payload["bot"] is None else f"{payload['tenant']}/{payload['bot']}"
    console.print(f"{whose}, profile {payload['profile']}: nothing was written or sent", markup=False)
    show_plan(console, payload)
    if len(payload["bots"]) > 1:
        table = Table("bot", "sources", "chunks", "to embed", "tokens of these")
        for entry in payload["bots"]:
            numbers = (entry[name] for name in ("sources", "chunks", "to_embed", "tokens_to_embed"))
            table.add_row(entry["bot"], *(f"{number:,}" for number in numbers))
        console.print(table)


def show_plan(console: Console, payload: dict[str, Any]) -> None:
    """Print what is in a plan's payload: files, work, price, and what cannot be read."""
    table = Table("files", "count")
    table.columns[1].justify = "right"
    for label, name in (
        ("new, to be read", "new"),
        ("changed, to be read again", "changed"),
        ("unchanged, kept", "unchanged"),
        ("gone, their sources to be deleted", "gone"),
        ("left out", "skipped"),
    ):
        table.add_row(label, str(payload["files"][name]))
    console.print(table)
    if payload["held"]:
        held = counted(payload["held"], "source")
        console.print(f"gone and to be kept, as so many at once look like a fault: {held}")
    about = "" if payload["exact"] else "about "
    work = ", ".join(counted(payload[f"{what}s"], what) for what in ("source", "chunk", "token"))
    console.print(f"to publish: {about}{work}")
    console.print(
        f"to embed: {about}{counted(payload['to_embed'], 'text')}, {counted(payload['tokens_to_embed'], 'token')}; "
        f"{counted(payload['cache_hits'], 'chunk is', 'chunks are')} in the cache"
    )
    _show_price(console, payload)
    if needs := needs_text(payload["profile"], payload["missing_packages"]):
        console.print(needs, markup=False, soft_wrap=True)
    unreadable = [(item["source"], item["error"]) for item in payload["unreadable"]]
    show_failures(console, "cannot be read", unreadable)


def _show_price(console: Console, payload: dict[str, Any]) -> None:
    sync, batch, ceiling = payload["cost_usd"]["sync"], payload["cost_usd"]["batch"], payload["ceiling"]
    if payload["to_ask"]:
        _show_questions(console, payload)
    if sync or batch is not None:
        through_batch = "" if batch is None else f", or ${batch:.4f} through the batch API"
        console.print(
            f"price{' of embedding' if payload['to_ask'] else ''}: about ${sync:.4f}{through_batch}; {_mode(payload)}"
        )
    if not payload["to_embed"]:
        pass  # there is no time to tell
    elif payload["seconds"]["sync"] is not None:
        at_limits = " at the rate limits" if payload["seconds_rest_on"].startswith("the rate limit") else ""
        about = rough_duration(payload["seconds"]["sync"])
        console.print(f"time{at_limits}: about {about}, by {payload['seconds_rest_on']}", markup=False)
    else:
        console.print("time: not known, since nothing was embedded with this model yet, and no rate limit is set")
    if ceiling["max_cost_usd"] is not None:
        text = (
            f"ceiling: {usd(ceiling['max_cost_usd'])}, of which ${ceiling['spent_usd']:.4f} are spent "
            f"and ${ceiling['left_usd']:.4f} are left"
        )
        if ceiling["fits"]:
            console.print(text)
        else:
            raise_it = f"rag profile limit {payload['profile']} --max-cost-usd N"
            console.print(Text(f"{text}: that is not enough, and a run will stop there. {raise_it}", style="red"))


def _show_questions(console: Console, payload: dict[str, Any]) -> None:
    """What the chat model that finds triples would be asked, and for how much."""
    about, cost = "" if payload["exact"] else "about ", payload["triples_cost_usd"]
    price = "its price is not known here, and no ceiling holds for it" if cost is None else f"about ${cost:.4f}"
    console.print(
        f"to find triples in: {about}{counted(payload['to_ask'], 'text')}, by a chat model that reads about "
        f"{counted(payload['tokens_to_read'], 'token')} and writes about {payload['tokens_to_write']:,}: {price}",
        markup=False,
    )


def _mode(payload: dict[str, Any]) -> str:
    if payload["mode"] == "batch" and payload["cost_usd"]["batch"] is None:
        return "the profile is set to batch, and its model has no batch API: it is embedded at once, at this price"
    return f"the profile is set to {payload['mode']}"


def show_failures(
    console: Console,
    what: str,
    failures: Sequence[tuple[str, str]],
    total: int = 0,
    rest: str = "all of them with --json",
) -> None:
    """Print the first of a list of names and reasons; `total` is how many there are if the list is not all of them, and
    `rest` says where the others are found."""
    for name, error in failures[:SHOWN_FAILURES]:
        console.print(Text(f"{what}: {printable(_with_name(name, error))}", style="red"), soft_wrap=True)
    more = max(total, len(failures)) - min(len(failures), SHOWN_FAILURES)
    if more > 0:
        console.print(Text(f"and {more:,} more; {rest}", style="red"), soft_wrap=True)


def _with_name(name: str, error: str) -> str:
    """Both, without what the error repeats of the name: all of it, or the line that it ends with."""
    if error.startswith(name):
        return error
    place = re.search(r"(?:line|item) \d+$", name)
    if place and re.match(rf"{place[0]}\b", error):
        return name.removesuffix(place[0]) + error
    return f"{name}: {error}"
