"""Filters on what is known of a source, as Postgres means them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag_assets.vector_stores.protocol import StoredSource

# `tags` and `metadata` ask the source's metadata. What asks dates, places or comparisons is Postgres' alone.
MATCHED = frozenset(
    {"source_ids", "source_names", "source_types", "locales", "content_types", "tags", "metadata"}
)  # fmt: skip


def lets_through(source: StoredSource, user_id: str | None, filters: Mapping[str, Any]) -> bool:
    """Whether the user may see a source, and every filter lets it through."""
    if source.user_id is not None and source.user_id != user_id:
        return False
    known = {
        "source_ids": str(source.id),
        "source_names": source.name,
        "source_types": source.source_type,
        "locales": source.locale,
        "content_types": source.content_type,
    }
    for name, wanted in filters.items():
        if name == "metadata":
            lets = contains(source.metadata, wanted)
        elif name == "tags":
            lets = not _texts(source.metadata.get("tags")).isdisjoint(wanted)
        else:
            lets = known[name] in wanted
        if not lets:
            return False
    return True


def contains(value: Any, wanted: Any) -> bool:
    """Whether a JSON value contains another, as `@>` of Postgres means it inside of an object: objects key by key,
    lists element by element whatever their order and number, and values where they are equal."""
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and all(
            key in value and contains(value[key], inner) for key, inner in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and all(any(contains(one, inner) for one in value) for inner in wanted)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted  # 1 is no true
    return bool(value == wanted)


def _texts(value: Any) -> set[str]:
    """The values of a list, or the one value, as texts."""
    values = value if isinstance(value, list) else [value]
    plain = [one for one in values if isinstance(one, str | int | float)]
    return {one if isinstance(one, str) else json.dumps(one) for one in plain}
