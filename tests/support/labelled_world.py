"""A labelled collection of invented words, and two profiles of which one finds far more in it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec

DOCUMENTS = 40
COARSE, FINE = "coarse", "fine"  # so few dimensions that words collide, and enough that they do not
_DIMENSIONS = {COARSE: 8, FINE: 256}
_SYLLABLES = ("ba", "ke", "lo", "mi", "nu", "po", "ra", "se", "tu", "vi", "zo", "du")


def add_profiles(database: Database) -> None:
    """Put both into the catalogue; safe to repeat."""
    for name, dimensions in _DIMENSIONS.items():
        add_spec(database, make_profile(name=name, provider="hash", model="hash", dimensions=dimensions))


def texts() -> dict[str, str]:
    """Documents by id; each has twelve words of its own."""
    generator = random.Random(11)
    words = ["".join(generator.sample(_SYLLABLES, 4)) for _ in range(12 * DOCUMENTS)]
    return {f"d{n}": " ".join(words[12 * n : 12 * n + 12]) for n in range(DOCUMENTS)}


def write_collection(
    folder: Path,
    labels: Mapping[str, Mapping[str, int]] | None = None,
    critical: Iterable[str] = (),
) -> Path:
    """A folder in BEIR layout: query `q7` holds words of document `d7` and is labelled with it, if `labels` agrees."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = texts()
    write_corpus(folder, documents)
    queries = ({"_id": f"q{n}", "text": " ".join(text.split()[2:5])} for n, text in enumerate(documents.values()))
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    qrels = {f"q{n}": {f"d{n}": 1} for n in range(len(documents))} | dict(labels or {})
    rows = [f"{query}\t{document}\t{grade}\n" for query, grades in qrels.items() for document, grade in grades.items()]
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    (folder / "critical.txt").write_text("".join(f"{query}\n" for query in critical))
    return folder


def write_corpus(folder: Path, documents: Mapping[str, str]) -> None:
    """Make these the documents of the collection."""
    rows = (json.dumps({"_id": name, "title": "", "text": text}) for name, text in documents.items())
    (folder / "corpus.jsonl").write_text("".join(f"{row}\n" for row in rows))


def add_document(folder: Path, name: str = "late") -> None:
    """One more document than the collection had."""
    write_corpus(folder, {**texts(), name: "a document that came later"})


def labelled_bot(database: Database, tenant: str, folder: Path, profiles: Iterable[str] = (COARSE, FINE)) -> None:
    """Bot `b` of the tenant with the collection in the folder; the first profile is the active one."""
    from evals.runner import import_set

    add_profiles(database)
    import_set(database, tenant, "b", folder)
    for profile in profiles:
        ingest(database, tenant, "b", profile)
