"""A small world of triples for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rag_assets.ingest.triples import ImportReport, import_triples
from rag_assets.store.database import Database

FILES = {
    "valve.md": "# Brimble valve\n\nThe Brimble valve is made by Corrin Works. It closes in four seconds.\n",
    "corrin.md": "# Corrin Works\n\nCorrin Works was founded in 1931 and has its seat in Harrowfen.\n",
    "harrowfen.md": "# Harrowfen\n\nHarrowfen lies on the river Osk. Its mayor is Tamsin Orle.\n",
    "pump.md": "# Pumps\n\nA pump moves water. Valves close pipes, and makers make them in many a town.\n",
    "town.md": "# Towns\n\nA town has a market, a mayor and a river, and a maker of valves in the better case.\n",
}
TRIPLES = (
    {"subject": "Brimble valve", "predicate": "is made by", "object": "Corrin Works", "source": "valve.md"},
    {"subject": "Corrin Works", "predicate": "has its seat in", "object": "Harrowfen", "source": "corrin.md"},
    {"subject": "Harrowfen", "predicate": "lies on the river", "object": "Osk", "source": "harrowfen.md"},
    {"subject": "Harrowfen", "predicate": "has the mayor", "object": "Tamsin Orle", "source": "harrowfen.md"},
)


def triples_file(folder: Path, triples: Iterable[Mapping[str, Any]], name: str = "triples.jsonl") -> Path:
    """A file of JSON lines."""
    path = folder / name
    path.write_text("".join(json.dumps(one) + "\n" for one in triples), encoding="utf-8")
    return path


def imported(
    database: Database,
    folder: Path,
    tenant: str,
    triples: Iterable[Mapping[str, Any]] = TRIPLES,
    bot: str = "support",
) -> ImportReport:
    """Triples, taken from a file in a folder that is no root."""
    return import_triples(database, tenant, bot, triples_file(folder, triples))
