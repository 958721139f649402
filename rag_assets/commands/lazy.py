"""Commands that are listed without being imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

MARKUP: Literal["markdown"] = "markdown"


class LazyCommand(TyperCommand):
    """A command of which the listing of its group knows name and summary: its module is imported when the command
    is run or asked for its help.

    `target` is `module:function` below `rag_assets.commands`; `summary` repeats the first paragraph of the function's
    docstring.
    """

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary, rich_markup_mode=MARKUP)
        self.target = target

    def load(self) -> TyperCommand:
        """The command itself."""
        module, _, function = self.target.partition(":")
        app = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
        app.command(self.name)(getattr(import_module(f"rag_assets.commands.{module}"), function))
        command = get_command(app)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Where every way into a command begins."""
        return self.load().make_context(info_name, args, parent, **extra)


def group(name: str, summary: str, *commands: LazyCommand) -> TyperGroup:
    """A group of commands, listed in the order given."""
    return TyperGroup(
        name=name,
        help=summary,
        commands=list(commands),
        no_args_is_help=True,
        rich_markup_mode=MARKUP,
    )
