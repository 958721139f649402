"""`rag usage`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from rag_assets.commands.options import AnyBot, Json, Tenant
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult
from rag_assets.printing import counted
from rag_assets.store.cache import TRIPLES, usage_of


def usage(
    tenant: Tenant,
    bot: AnyBot = None,
    as_json: Json = False,
) -> CommandResult:
    """Show what embedding has cost a tenant, and how much of it the cache has saved.

    Where a profile's chat model finds triples, the role is triples: texts that it was asked about are misses, and those
    that it had answered before are hits. The total counts vectors, but tokens and cost of all.
    """
    with ready_database() as database:
        found, parts = usage_of(database, tenant, bot)
    vectors = [entry for entry in found if entry.role != TRIPLES]
    hits, embedded = (sum(getattr(entry, name) for entry in vectors) for name in ("cache_hits", "embedded"))
    payload = {
        "tenant": tenant,
        "bot": bot,
        "usage": [{**asdict(entry), "misses": entry.embedded, "hit_rate": entry.hit_rate} for entry in found],
        "cache": {"entries": sum(part.entries for part in parts), "bytes": sum(part.bytes for part in parts)},
        "total": {
            "cache_hits": hits,
            "misses": embedded,
            "hit_rate": hits / (hits + embedded) if hits + embedded else None,
            "embedded": embedded,
            "tokens": sum(entry.tokens for entry in found),
            "cost_usd": sum(entry.cost_usd for entry in found),
        },
    }
    return CommandResult(payload, lambda console: _show(console, payload))


def _show(console: Console, payload: dict[str, Any]) -> None:
    whose = payload["tenant"] if payload["bot"] is None else f"{payload['tenant']}/{payload['bot']}"
    if not payload["usage"]:
        console.print(f"{whose}: nothing was embedded yet", markup=False)
        return
    table = Table("profile", "model", "role", "cached", "size", "hits", "misses", "hit rate", "tokens", "cost")
    for column in table.columns[3:]:
        column.justify = "right"
    for entry in payload["usage"]:
        counts = (f"{entry[name]:,}" for name in ("cache_hits", "misses"))
        table.add_row(
            entry["profile"],
            entry["model_key"].rpartition(":")[0],
            entry["role"],
            *(("", "") if entry["role"] == TRIPLES else (f"{entry['entries']:,}", _size(entry["bytes"]))),
            *counts,
            _percent(entry["hit_rate"]),
            f"{entry['tokens']:,}",
            f"${entry['cost_usd']:.4f}",
        )
    console.print(table)
    total, cache = payload["total"], payload["cache"]
    console.print(
        f"{whose}: {counted(cache['entries'], 'vector')} in the cache ({_size(cache['bytes'])}), hit rate "
        f"{_percent(total['hit_rate'])}, {counted(total['tokens'], 'token')}, ${total['cost_usd']:.4f}",
        markup=False,
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _size(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
