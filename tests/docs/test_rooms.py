"""The rooms as docs/architecture.md shows them are those of the code."""

from __future__ import annotations

import re

from tests.support.rooms import REPOSITORY, ground_imports, imports, reachable, shortest

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def drawn() -> set[tuple[str, str]]:
    """The arrows of the picture."""
    return set(re.findall(r"^    (\w+) --> (\w+)$", PAGE, re.MULTILINE))


def listed() -> dict[str, set[str]]:
    """The table: what each room imports."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", PAGE, re.MULTILINE)
    return {room: set(re.findall(r"\w+", others)) for room, others in rows}


def test_no_room_imports_one_that_imports_it() -> None:
    graph = imports()
    assert [room for room in graph if room in reachable(graph, room)] == []


def test_the_table_lists_what_each_room_imports() -> None:
    assert listed() == imports()


def test_the_picture_has_the_arrows_that_do_not_follow_from_others() -> None:
    assert drawn() == shortest(imports())


def test_what_every_room_may_import_imports_no_room() -> None:
    assert [name for name, others in ground_imports().items() if others] == []
