"""The table of settings in words, and as a page: docs/configuration.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from rag_assets.addresses import ROOT_VARIABLES
from rag_assets.errors import alike

_INTRODUCTION = """\
# Configuration

Everything is set by environment variables, and nothing has to be. `rag config` shows what holds and where it comes
from. A variable is read when it is needed, and one that is blank counts as not set. A value that is not allowed ends
a command with exit code 2 and the name of the variable, and a variable whose name looks like one of these is told on
stderr. Keys are written nowhere; a profile may name a variable of its own for its key
(`rag profile add --option key_env=NAME`).

This page is made by `python -m rag_assets.settings > docs/configuration.md`.
"""


@dataclass(frozen=True)
class Variable:
    """One row of the table, in words.

    Attributes:
        field: of `Settings`.
        meaning: one sentence without its full stop, in Markdown.
        default: what holds while the variable is not set, in Markdown.
        allowed: what a value may be; None: any text.
        derived: the default follows from another variable.
    """

    name: str
    field: str
    group: str
    meaning: str
    default: str
    allowed: str | None
    secret: bool
    derived: bool


def described(name: str, field: FieldInfo) -> Variable:
    """A field of `Settings` in words."""
    assert isinstance(field.json_schema_extra, dict)
    extra: dict[str, Any] = field.json_schema_extra
    default = "1" if field.default is True else "0" if field.default is False else field.default
    text = f"{default:.0f}" if isinstance(default, int | float) else default
    secret = SecretStr in get_args(field.annotation)
    return Variable(
        name=variable_of(field),
        field=name,
        group=extra["group"],
        meaning=field.description or "",
        default=extra["unset"] or ("not set" if default is None else f"`{text}`"),
        allowed=extra["allowed"] or _allowed(field),
        secret=secret,
        derived=field.default_factory is not None,
    )


def variable_of(field: FieldInfo) -> str:
    """The name of the variable that a field is read from."""
    return str(field.validation_alias)


def _allowed(field: FieldInfo) -> str | None:
    types = {field.annotation, *get_args(field.annotation)}
    if bool in types:
        return "0 or 1"
    if not types & {int, float}:
        return None
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    bounds = (
        f"{words[name]} {getattr(part, name):,.0f}" for part in field.metadata for name in words if hasattr(part, name)
    )
    return f"{'a whole number' if int in types else 'a number'} {' and '.join(bounds)}"


def strangers(names: Iterable[str], known: Sequence[str], referred: Iterable[str]) -> dict[str, str | None]:
    """Those of the names of variables that begin as ours do and are not `known`, each with the known one that it looks
    like. What a setting has `referred` to, or the address of a root may, is no mistake."""
    allowed = {*known, *(name.strip() for name in referred)}
    ours = (name for name in sorted(names) if name.upper().startswith("RAG_") and not name.startswith(ROOT_VARIABLES))
    return {name: next(iter(alike(name.upper(), known)), None) for name in ours if name not in allowed}


def page_of(variables: Sequence[Variable]) -> str:
    """The page, a table for each group of variables, in their order."""
    lines = [_INTRODUCTION]
    for group, rows in groupby(variables, key=lambda variable: variable.group):
        lines += [f"## {group}", "", "| variable | default | meaning |", "|---|---|---|"]
        lines += [f"| `{row.name}` | {row.default} | {_sentence(row)} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _sentence(row: Variable) -> str:
    allowed = f" ({row.allowed})" if row.allowed else ""
    return f"{row.meaning}{allowed}." + (" Secret: never printed." if row.secret else "")
