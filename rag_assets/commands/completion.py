"""`rag completion`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from typer._completion_shared import get_completion_script, install

from rag_assets.commands.options import Json
from rag_assets.commands.shell import CommandResult


class Shell(StrEnum):
    """A shell that commands can be completed in."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.")],
    to_install: Annotated[
        bool, typer.Option("--install", help="Write it to where the shell finds it when it starts.")
    ] = False,
    as_json: Json = False,
) -> CommandResult:
    """Print, or install, what makes a shell complete commands and options with the tab key.

    For the running shell alone: eval "$(rag completion bash)". No database is asked or started.
    """
    script = get_completion_script(prog_name="rag", complete_var="_RAG_COMPLETE", shell=shell.value)  # nosec B604
    # `shell` is the name of one, and nothing is run.
    where = install(shell=shell.value, prog_name="rag", complete_var="_RAG_COMPLETE") if to_install else None  # nosec B604
    path = str(where[1]) if where else None
    payload = {"shell": shell.value, "script": script, "path": path}

    def show(console: Console) -> None:
        if path is None:
            print(script)
        else:
            console.print(f"installed in {path}: start {shell.value} anew", markup=False, soft_wrap=True)

    return CommandResult(payload, show)
