"""Filters on the command line: `--filter key=value`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from rag_assets.commands.session import unless_away
from rag_assets.errors import InvalidArgument, UsageError, alike, did_you_mean
from rag_assets.retrieval.filters import check_filters
from rag_assets.store.database import Database
from rag_assets.store.sources import filter_values, metadata_keys

# Names of what every source has; any other key is one of its metadata.
NAMES = {
    "source": "source_names", "id": "source_ids", "type": "source_types", "locale": "locales",
    "content_type": "content_types", "root": "roots", "path": "path_prefixes", "tag": "tags",
}  # fmt: skip
_LOOKED_UP = ("source", "type", "locale", "content_type", "tag")
_COMPARISONS = {">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}
_FORM = re.compile(r"(?P<key>[^=<>!]+?)\s*(?P<sign>>=|<=|=|>|<)\s*(?P<value>.*)", re.DOTALL)
_META = "meta."

Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="Only sources with this source, id, type, locale, content_type, root, path (a prefix) or tag, or this key "
        "of their metadata: key=value, key>=5, key<2026-01-31, key (it has one), !key (it has none). Of several values "
        "of a key any will do; of several keys all must hold.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Only sources dated then or later: by themselves, else by their last change."),
]
Until = Annotated[str | None, typer.Option(metavar="DATE", help="Only sources dated before then.")]


def parse_filters(words: Sequence[str], since: str | None, until: str | None) -> dict[str, Any]:
    """The filters of a search.

    Raises:
        UsageError, InvalidArgument: one that says nothing certain.
    """
    filters: dict[str, Any] = {}
    for word in words:
        _add(filters, word)
        alone: dict[str, Any] = {}
        _add(alone, word)
        _check(alone, f"--filter {word}")
    dates = {name: date for name, date in (("since", since), ("until", until)) if date is not None}
    for name, date in dates.items():
        _check({name: date}, f"--{name} {date}")
    return dict(check_filters(filters | dates))


def _check(filters: Mapping[str, Any], typed: str) -> None:
    """Refuse what one option says in the words in which it was typed."""
    try:
        check_filters(filters)
    except InvalidArgument as error:
        raise UsageError(f"{typed}: {str(error).removeprefix('filters: ')}") from error


def unknown_values(database: Database, tenant: str, bot: str, filters: Mapping[str, Any]) -> list[str]:
    """What may be misspelt in filters that let nothing through: values that no source of the bot has, with those that
    look like them."""
    asked = [(key, value) for key in _LOOKED_UP for value in filters.get(NAMES[key], ())]
    if not asked:
        return []
    said: list[str] = []
    known = None
    with unless_away(database), database.work(tenant) as connection:
        known = filter_values(connection, tenant, bot)
    if known is None:
        return said
    for key, value in asked:
        values = known.get(key, [])
        if value not in values:
            likely = alike(value, values)
            has = f"; {did_you_mean(likely)}" if likely else f"; there are: {', '.join(values[:20]) or 'none'}"
            said.append(f"--filter {key}={value}: no source of this bot has that{has}")
    return said


def require_keys(database: Database, tenant: str, bot: str, filters: Mapping[str, Any]) -> None:
    """Refuse keys of metadata that no source has: they are misspelt, and nothing would be found.

    Raises:
        UsageError: names the key, and those that look like it.
    """
    asked = [key for key, wanted in filters.get("where", {}).items() if wanted.get("exists") is not False]
    if not asked:
        return
    known = None
    with unless_away(database), database.work(tenant) as connection:
        known = metadata_keys(connection, tenant, bot)
    for key in asked:
        if known is not None and key not in known:
            raise _unknown_key(key, known)


def _unknown_key(key: str, known: Sequence[str]) -> UsageError:
    likely = alike(key, [*NAMES, *known])
    meant = f"; {did_you_mean(likely)}" if likely else "."
    has = f" Their keys are: {', '.join(known[:20])}" if known else " They have none"
    return UsageError(f"--filter: no source of this bot has {key!r} in its metadata{meant}{has}")


def _add(filters: dict[str, Any], word: str) -> None:
    found = _FORM.fullmatch(word)
    if found is None:
        absent, key = word.startswith("!"), word.removeprefix("!").removeprefix(_META).strip()
        if not key or key in NAMES or set("=<>!") & set(key):
            raise UsageError(f"--filter {word}: write key=value, key>=value, key or !key")
        _condition(filters, key, "exists", not absent, word)
        return
    key, sign, value = found["key"].strip(), found["sign"], found["value"].strip()
    if key in NAMES:
        if sign != "=":
            raise UsageError(f"--filter {word}: {key} has no order; write {key}=value")
        filters.setdefault(NAMES[key], []).append(value)
    elif sign == "=":
        wanted = filters.setdefault("where", {}).setdefault(key.removeprefix(_META), {})
        wanted.setdefault("in", []).append(value)
    else:
        _condition(filters, key.removeprefix(_META), _COMPARISONS[sign], _number(value), word)


def _condition(filters: dict[str, Any], key: str, operator: str, value: Any, word: str) -> None:
    wanted = filters.setdefault("where", {}).setdefault(key, {})
    if wanted.setdefault(operator, value) != value:
        raise UsageError(f"--filter {word}: {key} is compared so twice")


def _number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
