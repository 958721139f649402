"""The table of settings as a page: docs/configuration.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_INTRODUCTION = """\
# Configuration

Everything is set by environment variables, and nothing has to be. `rag config` shows what holds and where it comes
from. A variable is read when it is needed, and one that is blank counts as not set. A value that is not allowed ends
a command with exit code 2 and the name of the variable. Keys are written nowhere; a profile may name a variable of its
own for its key (`rag profile add --key-env NAME`).

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
