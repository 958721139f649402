"""Which packages import which, read from the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.support.imports import HOUSE, imported_names, name_of, python_files

Imports = Mapping[str, set[str]]

# Modules at the top of rag_assets belong to a room that is there, or to one that is named after them all.
_ROOM_OF = {
    "cli": "commands",
    "demo": "commands",
    "io_managers": "resources",
}
# Every room may import these, and they import no room.
GROUND = {
    "addresses",
    "bearer",
    "children",
    "errors",
    "faults",
    "homes",
    "hosts",
    "keys",
    "marks",
    "printing",
    "private",
    "processors",
    "progress",
    "settings",
    "settings_page",
    "settings_places",
    "settings_scope",
    "settings_serve",
    "settings_values",
    "signing",
}
_FRONT_DOOR = "__init__"  # names what it offers, and loads it when it is asked for


def room_of(module: str) -> str:
    """The room of a module of `rag_assets` or `evals`, by its dotted name."""
    package, *rest = module.split(".")
    if package == "evals":
        return package
    top = rest[0] if rest else _FRONT_DOOR
    return _ROOM_OF.get(top, top)


def room_imports() -> dict[str, set[str]]:
    """The rooms that each room imports, at the top of a file or within a function, the ground left out."""
    found: dict[str, set[str]] = {}
    for path in python_files("rag_assets", "evals"):
        room = room_of(name_of(path))
        if room not in GROUND | {_FRONT_DOOR}:
            found.setdefault(room, set()).update(_rooms_below(path) - GROUND - {room})
    return found


def ground_imports() -> dict[str, set[str]]:
    """The rooms that the ground imports: none."""
    return {name: _rooms_below(HOUSE / "rag_assets" / f"{name}.py") - GROUND for name in GROUND}


def _rooms_below(path: Path) -> set[str]:
    """The rooms of what a file imports of the product, wherever in it."""
    return {room_of(name) for name in imported_names(path) if name.split(".")[0] in ("rag_assets", "evals")}


def shortest(graph: Imports) -> set[tuple[str, str]]:
    """The arrows of an acyclic graph that do not follow from others."""
    below = {room: set().union(*(reachable(graph, other) for other in graph[room])) for room in graph}
    return {(room, other) for room, others in graph.items() for other in others - below[room]}


def reachable(graph: Imports, room: str) -> set[str]:
    """All rooms below one, by any number of arrows."""
    found: set[str] = set()
    waiting = [room]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def redrawn(page: str) -> str:
    """A page whose arrows, and whose third column of the table of rooms, are those of the code."""
    graph = room_imports()
    # The more a room stands on, the higher it is drawn.
    arrows = sorted(shortest(graph), key=lambda arrow: (-len(reachable(graph, arrow[0])), *arrow))
    picture = "".join(f"    {room} --> {other}\n" for room, other in arrows)
    page = re.sub(r"(?:^    \w+ --> \w+\n)+", picture, page, count=1, flags=re.MULTILINE)

    def row(match: re.Match[str]) -> str:
        others = ", ".join(sorted(graph.get(match[2], ())))
        return f"{match[1]} {others} |" if others else f"{match[1]} |"

    return re.sub(r"^(\| `(\w+)` \| [^|]+ \|)[^|]*\|$", row, page, flags=re.MULTILINE)
