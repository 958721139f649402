"""Every command of `rag`, as a line that is right but for what a test changes in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from typer.core import TyperCommand

from rag_assets.commands.lazy import LazyCommand
from rag_assets.commands.listing import listed

_ENOUGH = {
    "file": __file__, "query": "x", "percent": "5", "provider": "google", "items": "3", "out": "report.md",
    "source": "x.md", "new": ".", "id": "x",
}  # fmt: skip
# Where one of several is needed, or all of them but for an option.
_NEEDED = {
    "tenant limit": ("provider", "items"),
    "root set": ("exclude",),
    "compare": ("first", "second"),
    "push": ("file",),
}


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Name and command of all."""
    for one in listed():
        for command in getattr(one, "commands", {one.name: one}).values():
            assert isinstance(command, LazyCommand)
            yield str(command.name if command is one else f"{one.name} {command.name}"), command.load()


def kind_of(parameter: click.Parameter, command: str) -> str | None:
    """What sort of name a parameter takes: of a tenant, of its bot, of a profile."""
    if parameter.name in ("tenant", "bot"):
        return parameter.name
    profile = parameter.name in ("profile", "profiles", "candidate", "baseline", "first", "second")
    return "profile" if profile or (parameter.name == "name" and command.startswith("profile")) else None


def words_of(
    name: str, command: TyperCommand, values: Mapping[str, str], also: click.Parameter | None = None
) -> list[str]:
    """A command line with what is required, tenant and bot, and the parameter `also`."""
    words = name.split()
    if "yes" in {parameter.name for parameter in command.params}:
        words.append("--yes")
    for parameter in command.params:
        kind = kind_of(parameter, name)
        needed = parameter.required or kind in ("tenant", "bot") or parameter is also
        needed = needed or str(parameter.name) in _NEEDED.get(name, ())
        value = values.get(kind or str(parameter.name)) or _ENOUGH.get(str(parameter.name), "x")
        if needed:
            words += [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]
    return words


def write_labelled(folder: Path) -> Path:
    """A labelled set of one document, as `rag eval import` takes it."""
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "x"}\n')
    (folder / "qrels.tsv").write_text("q\td\t1\n")
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "x"}\n')
    return folder
