"""The rooms as docs/architecture.md shows them are those of the code."""

from __future__ import annotations

import os
import re

from tests.support.imports import HOUSE
from tests.support.rooms import ground_imports, reachable, redrawn, room_imports

PAGE = HOUSE / "docs" / "architecture.md"


def test_no_room_imports_one_that_imports_it() -> None:
    graph = room_imports()
    assert [room for room in graph if room in reachable(graph, room)] == []


def test_what_every_room_may_import_imports_no_room() -> None:
    assert [name for name, others in ground_imports().items() if others] == []


def test_every_room_has_a_row_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|[^|]*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(room_imports())


def test_the_picture_and_the_table_show_what_imports_what() -> None:
    right = redrawn(PAGE.read_text(encoding="utf-8"))
    if os.environ.get("RAG_UPDATE_ROOMS"):
        PAGE.write_text(right, encoding="utf-8")
    hint = "look whether you want the new arrows, and run with RAG_UPDATE_ROOMS=1 if you do"
    assert PAGE.read_text(encoding="utf-8") == right, hint
