"""Commands that are listed without being imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from rag_assets.errors import did_you_mean, unknown

MARKUP: Literal["markdown"] = "markdown"


# What other programs call such a command.
_ELSEWHERE = {
    "rm": ("remove", "forget", "erase", "retire"),
    "delete": ("remove", "forget", "erase", "retire"),
    "ls": ("list",),
    "mv": ("move",),
    "new": ("add",),
    "create": ("add",),
    "info": ("show",),
    "start": ("up",),
    "init": ("up",),
    "stop": ("down",),
    "query": ("search",),
}


class Group(TyperGroup):
    """Commands under one name; of one that is not among them it tells which was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See click's `Group.resolve_command`."""
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        meant = [other for other in _ELSEWHERE.get(name, ()) if other in self.commands]
        told = unknown("command", name, self.commands, of=f"of {ctx.command_path}")
        ctx.fail(f"no command {name!r} of {ctx.command_path}; {did_you_mean(meant)}" if meant else str(told))


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


def group(name: str, summary: str, *commands: LazyCommand) -> Group:
    """A group of commands, listed in the order given."""
    return Group(
        name=name,
        help=summary,
        commands=list(commands),
        no_args_is_help=True,
        rich_markup_mode=MARKUP,
    )
