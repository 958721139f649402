"""`rag config`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from rag_assets.addresses import masked
from rag_assets.commands.options import Json
from rag_assets.commands.session import unknown_variable
from rag_assets.commands.shell import WRONG_USE, CommandResult, note, printable
from rag_assets.homes import why_this
from rag_assets.settings import Settings, faults_of, read_variable, unknown_variables, variables
from rag_assets.settings_page import Variable

_WIDE = 120  # columns from which all fits on one line


def config(as_json: Json = False) -> CommandResult:
    """Show every setting: what it is now, where that comes from, and what it means. Needs no database.

    Settings are environment variables; one that is named like them and is none, such as a misspelt one, is told. Of a
    key only whether it is set is told, and passwords in addresses are masked. With a value that is not allowed the exit
    code is 2.
    """
    settings, faults = _as_far_as_right()
    rows = [_row(variable, settings, faults.get(variable.name)) for variable in variables()]
    unknown = unknown_variables()
    for name, meant in unknown.items():
        note(unknown_variable(name, meant), "yellow")
    payload = {"settings": rows, "unknown": unknown}
    return CommandResult(payload, lambda console: _show(console, rows), WRONG_USE if faults else 0)


def _as_far_as_right() -> tuple[Settings, dict[str, str]]:
    """The settings with defaults in place of wrong values, and what is wrong, by variable."""
    fields = {variable.name: variable.field for variable in variables()}
    faults: dict[str, str] = {}
    # What the default of another may follow from; it is not shown where a value is wrong.
    above = {"home": Settings.model_fields["home"].get_default(call_default_factory=True, validated_data={})}
    while True:
        defaults = {
            fields[name]: Settings.model_fields[fields[name]].get_default(
                call_default_factory=True, validated_data=above
            )
            for name in faults
        }
        try:
            return Settings(**defaults), faults
        except ValidationError as error:  # with the first faults away, what follows from them may come out
            faults |= faults_of(error)


def _row(variable: Variable, settings: Settings, fault: str | None) -> dict[str, Any]:
    text = read_variable(variable.name)
    held = _plain(getattr(settings, variable.field))
    source = "environment" if text is not None else "derived" if variable.derived else "default"
    return {
        "name": variable.name,
        "value": ("set" if text else "not set") if variable.secret else _wrong(variable, text) if fault else held,
        "source": source,
        "note": None if fault else _note(variable, settings, text),
        "meaning": variable.meaning.replace("`", ""),
        "group": variable.group,
        "default": variable.default.replace("`", ""),
        "allowed": variable.allowed,
        "secret": variable.secret,
        "error": fault,
    }


def _note(variable: Variable, settings: Settings, text: str | None) -> str | None:
    """What else is to be known of a value."""
    if variable.name == "RAG_HOME":
        return why_this(settings.home, is_named=text is not None)
    return "under RAG_HOME" if variable.derived and text is None else None


def _wrong(variable: Variable, text: str | None) -> str:
    """A wrong value; of a wrong address nobody knows which part is the password."""
    return "***" if Settings.model_fields[variable.field].repr is False else str(text)


def _plain(value: Any) -> Any:
    if isinstance(value, str | Path):
        return masked(str(value))
    return list(value) if isinstance(value, tuple) else value


def _show(console: Console, rows: list[dict[str, Any]]) -> None:
    names = max(len(row["name"]) for row in rows)
    for group, members in groupby(rows, key=lambda row: row["group"]):
        console.print(Text(group, style="bold"))
        table = Table.grid(Column(width=names), Column(ratio=2, overflow="fold"), padding=(0, 2, 0, 0), expand=True)
        wide = console.width >= _WIDE
        if wide:
            table.add_column(width=len("environment"))
            table.add_column(ratio=3)
        for row in members:
            table.add_row(row["name"], *(_columns(row) if wide else [_in_one_column(row)]))
        console.print(Padding(table, (0, 0, 1, 2)))


def _columns(row: dict[str, Any]) -> list[Text]:
    value = Text(printable(_words(row)), style="bold red" if row["error"] else "")
    if row["error"]:
        value.append(f"\nhas to be {row['allowed']}" if row["allowed"] else f"\n{row['error']}", style="red")
    if row["note"]:
        value.append(f"\n{row['note']}", style="dim")
    return [value, Text(row["source"]), Text(row["meaning"], style="dim")]


def _in_one_column(row: dict[str, Any]) -> Text:
    value, source, meaning = _columns(row)
    return Text.assemble(value, f" · {source}\n", meaning)


def _words(row: dict[str, Any]) -> str:
    value = row["value"]
    if value is None or value == []:
        return str(row["default"])
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, bool | float) else str(value)
