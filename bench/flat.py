"""Whether search stays flat: latency by size of the profile and length of the query, and what bounded reading costs.

python -m bench.flat --data DIR [--sizes 10000 130000] [--queries 100]

DIR is a BEIR folder, or holds several. A size is a number of documents: those of all collections, chosen by chance, and
where they are too few, texts made of halves of two of them. Bounded and exhaustive search alternate in one run, kind by
kind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.common import HOME, Collection, environment, load_collection, median, percentile, rag, score, show, verdict
from bench.ingest import PROFILE, prepare
from rag_assets.retrieval import RetrievalScope, open_scope
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.partitions import partition_name
from rag_assets.store.search import Mode

BOT, TOP_K = "bench", 10
_SHORT = 10  # words of a question; what is longer is a claim
_PARAGRAPH = range(60, 201)  # words of a text that is asked as a whole
_TARGETS = {130_000: 40.0, 1_000_000: 100.0}  # p95 of hybrid search in milliseconds, up to so many documents
_ANY_WORD = (
    "CREATE OR REPLACE FUNCTION rag.essential_words(query rag.lexical_query, budget float8) RETURNS tsquery "
    "LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN query.every_term; END $$"
)


@dataclass
class Asked:
    """Queries of one kind by id, and what was found: milliseconds, and the documents by mode and way."""

    texts: Mapping[str, str]
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    runs: dict[tuple[str, str], dict[str, list[str]]] = field(default_factory=dict)


def collections_in(data: Path) -> dict[str, Collection]:
    """By name; labels are none where a folder has no test split."""
    folders = (
        [data] if (data / "corpus.jsonl").exists() else sorted(path.parent for path in data.glob("*/corpus.jsonl"))
    )
    found = {}
    for folder in folders:
        if (folder / "qrels" / "test.tsv").exists():
            found[folder.name] = load_collection(folder)
        else:
            found[folder.name] = Collection(folder / "corpus.jsonl", folder / "-", folder / "-", {}, {})
    return found


def documents(collections: Mapping[str, Collection], size: int) -> Iterator[dict[str, str]]:
    """So many documents; the ids of what is in a collection begin with its name."""
    rows = []
    for name, collection in collections.items():
        with collection.corpus.open(encoding="utf-8") as lines:
            rows += [{**row, "_id": f"{name}:{row['_id']}"} for row in map(json.loads, lines)]
    draw = random.Random(size)
    draw.shuffle(rows)
    for row in rows[:size]:
        yield {"_id": row["_id"], "title": row.get("title", ""), "text": row["text"]}
    sentences = [re.split(r"(?<=[.!?。])\s+", row["text"]) for row in rows]
    for number in range(size - len(rows)):
        one, other = draw.choice(sentences), draw.choice(sentences)
        parts = draw.sample(one, (len(one) + 1) // 2) + draw.sample(other, (len(other) + 1) // 2)
        yield {"_id": f"mixed:{number}", "title": "", "text": f"{' '.join(parts)} {number}"}


def written(collections: Mapping[str, Collection], size: int) -> Path:
    """The corpus of a size as a file."""
    path = HOME / "flat" / str(size) / "corpus.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in documents(collections, size))
    return path


def kinds(collections: Mapping[str, Collection], corpus: Path, how_many: int) -> dict[str, Asked]:
    """Short questions, claims and paragraphs, so many of each as there are."""
    texts = {f"{name}:{query}": text for name, one in collections.items() for query, text in one.queries.items()}
    with corpus.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(50_000), strict=False)]
    paragraphs = {row["_id"]: row["text"] for row in rows if len(row["text"].split()) in _PARAGRAPH}
    found = {
        "questions": {query: text for query, text in texts.items() if len(text.split()) <= _SHORT},
        "claims": {query: text for query, text in texts.items() if len(text.split()) > _SHORT},
        "paragraphs": paragraphs,
    }
    draw = random.Random(1)
    return {
        kind: Asked({query: some[query] for query in draw.sample(sorted(some), min(how_many, len(some)))})
        for kind, some in found.items()
        if some
    }


@contextmanager
def exhaustive(connection: psycopg.Connection) -> Iterator[None]:
    """Chunks with any of the words are read meanwhile, by every search of this server."""
    row = connection.execute(
        "SELECT pg_get_functiondef('rag.essential_words(rag.lexical_query, float8)'::regprocedure)"
    ).fetchone()
    assert row is not None
    connection.execute(_ANY_WORD)
    try:
        yield
    finally:
        connection.execute(row[0])


def measure(database: Database, scope: RetrievalScope, asked: Asked, way: str, modes: Sequence[Mode]) -> None:
    """Ask all of a kind; what is found first, to warm up, is not timed."""
    for mode in modes:
        retriever = RETRIEVERS[mode](database)
        times, run = asked.times.setdefault((mode, way), []), asked.runs.setdefault((mode, way), {})
        for text in list(asked.texts.values())[:10]:
            retriever.search(text, scope, TOP_K)
        for query, text in asked.texts.items():
            started = time.perf_counter()
            found = retriever.search(text, scope, TOP_K)
            times.append(1000 * (time.perf_counter() - started))
            run[query] = list(dict.fromkeys(str(result.citation["document"]) for result in found))


def overlap(asked: Asked, mode: str) -> float:
    """How much of what exhaustive search finds first the bounded one does, too."""
    bounded, whole = asked.runs[mode, "bounded"], asked.runs[mode, "exhaustive"]
    shares = [len(set(bounded[query]) & set(found)) / len(found) for query, found in whole.items() if found]
    return sum(shares) / len(shares)


def losses(collections: Mapping[str, Collection], kinds: Mapping[str, Asked]) -> list[list[object]]:
    """nDCG@10 of both ways by collection and mode, over the labelled queries that were asked."""
    rows: list[list[object]] = []
    for name, one in collections.items():
        for mode in ("lexical", "hybrid"):
            runs = {}
            for way in ("bounded", "exhaustive"):
                found = {query: run for asked in kinds.values() for query, run in asked.runs[mode, way].items()}
                labels = {f"{name}:{query}": {f"{name}:{document}": grade for document, grade in grades.items()}
                          for query, grades in one.qrels.items() if f"{name}:{query}" in found}  # fmt: skip
                if labels:
                    some = Collection(one.corpus, one.queries_file, one.qrels_file, {}, labels)
                    runs[way] = score(some, found)["ndcg@10"]
            if runs:
                rows.append([name, mode, runs["bounded"], runs["exhaustive"], runs["bounded"] - runs["exhaustive"]])
    return rows


def of_size(collections: Mapping[str, Collection], size: int, how_many: int) -> dict[str, Asked]:
    """Ingest so many documents, ask, and print."""
    corpus, tenant = written(collections, size), f"flat-{size}"
    rag("ingest", str(corpus.resolve()), "--tenant", tenant, "--bot", BOT, "--profile", PROFILE)
    database = Database.from_settings()
    scope = open_scope(database, tenant, BOT, PROFILE)
    asked_by_kind = kinds(collections, corpus, how_many)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) rag.{partition_name(scope.profile_id)}")
        chunks = connection.execute(f"SELECT count(*) FROM rag.{partition_name(scope.profile_id)}").fetchone()
        for asked in asked_by_kind.values():
            measure(database, scope, asked, "bounded", tuple(RETRIEVERS))
            with exhaustive(connection):
                measure(database, scope, asked, "exhaustive", ("lexical", "hybrid"))
    database.close()
    rows: list[list[object]] = []
    for kind, asked in asked_by_kind.items():
        for mode in RETRIEVERS:
            times, slow = asked.times[mode, "bounded"], asked.times.get((mode, "exhaustive"))
            row: list[object] = [kind, mode, len(times), median(times), percentile(times, 0.95)]
            row += [median(slow), percentile(slow, 0.95), overlap(asked, mode)] if slow else ["", "", ""]
            rows.append(row)
    columns = ["", "", "queries", "p50 ms", "p95 ms", "exhaustive p50", "exhaustive p95", "overlap@10"]
    show(f"{size} documents, {chunks[0] if chunks else 0} chunks", columns, rows)
    columns = ["collection", "", "nDCG@10", "exhaustive", "difference"]
    show("What bounded reading costs, over the queries that were asked", columns, losses(collections, asked_by_kind))
    return asked_by_kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a BEIR folder, or one that holds some")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 130_000], help="numbers of documents")
    parser.add_argument("--queries", type=int, default=100, help="how many of each kind")
    options = parser.parse_args()
    os.environ.update(environment())
    prepare()
    collections = collections_in(options.data)
    for size in sorted(options.sizes):
        asked_by_kind = of_size(collections, size, options.queries)
        target = next((limit for most, limit in sorted(_TARGETS.items()) if size <= most), None)
        for kind, asked in asked_by_kind.items():
            if target is not None:
                p95 = percentile(asked.times["hybrid", "bounded"], 0.95)
                verdict(f"{size} documents, {kind}: p95 of hybrid, ms", p95, target, at_least=False)


if __name__ == "__main__":
    main()
