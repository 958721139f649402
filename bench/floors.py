"""The floor that `rag eval tune --floor` finds, and what it does to questions that nobody can answer.

python -m bench.floors --data DIR [--profile static-256] [--questions 300]

Half of the documents that answer a query are taken out: what is asked of them is about the same things as what is left,
and nobody can answer it. Beside these, the queries of another collection, which is about other things.
Shares are those of the half of the queries and questions that did not choose the floor.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bench.common import HOME, Collection, environment, load_collection, rag, show
from bench.weights import parts

OTHERS = {"scifact": ("stackfaq", "cranfield"), "xquad-multi-de": ("stackfaq", "scifact")}


@dataclass(frozen=True)
class Halved:
    """A folder with the answerable half as a labelled set, and files of questions that nobody can answer, by name."""

    name: str
    folder: Path
    unanswerable: dict[str, Path]


def halved(name: str, collection: Collection, data: Path, count: int) -> Halved:
    """Take half of the documents that answer a query out of a collection. A query that keeps some of its documents and
    loses others is neither answerable nor not, and left out."""
    answers = {document for labels in collection.qrels.values() for document in labels}
    gone = {document for document in answers if blake2b(document.encode()).digest()[0] % 2}
    out = [query for query, labels in collection.qrels.items() if labels.keys() <= gone]
    left = [query for query, labels in collection.qrels.items() if not labels.keys() & gone]
    folder = HOME / "floors" / name
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    lines = collection.corpus.read_text(encoding="utf-8").splitlines()
    _write(folder / "corpus.jsonl", [line for line in lines if json.loads(line)["_id"] not in gone])
    _write(folder / "queries.jsonl", [json.dumps({"_id": q, "text": collection.queries[q]}) for q in left[:count]])
    labels = [f"{q}\t{document}\t{grade}" for q in left[:count] for document, grade in collection.qrels[q].items()]
    _write(folder / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *labels])
    questions = {"its own, documents taken out": [collection.queries[query] for query in out]}
    for other in OTHERS[name]:
        questions[f"of {other}"] = list(load_collection(data / other).queries.values())
    files = {}
    for number, (what, texts) in enumerate(questions.items()):
        files[what] = folder / f"unanswerable-{number}.txt"
        _write(files[what], [" ".join(text.split()) for text in texts[:count]])
    return Halved(name, folder, files)


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def found(one: Halved, profile: str) -> Iterator[list[object]]:
    """A row for each kind of question and mode."""
    where = ("--tenant", f"floors-{one.name}", "--bot", "bench", "--profile", profile)
    rag("eval", "import", str(one.folder), *where[:4])
    rag("ingest", *where)
    for what, file in one.unanswerable.items():
        answer, _ = rag("eval", "tune", *where, "--floor", "--unanswerable", str(file))
        floors: Any = answer["floors"]
        for floor in floors:
            held: dict[str, Any] = floor["held_out"]
            counts = (f"{held['refused']:.1%} of {held['unanswerable']}", f"{held['kept']:.1%} of {held['answerable']}")
            proven = f"p = {held['p_value']:.3f}" if floor["is_proven"] else f"no, p = {held['p_value']:.3f}"
            yield [one.name, what, floor["mode"], floor["floor"], *counts, proven]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--profile", default="static-256")
    parser.add_argument("--questions", type=int, default=300, help="of each kind, at most")
    options = parser.parse_args()
    os.environ.update(environment())
    rows: list[list[object]] = []
    for folder in ("scifact", "xquad-multi"):
        for name, collection in parts(options.data / folder):
            if name in OTHERS:
                rows += found(halved(name, collection, options.data, options.questions), options.profile)
    columns = ["collection", "unanswerable", "mode", "floor", "refused", "let through", "proven"]
    show(f"Floors, {options.profile}, on the other half", columns, rows)


if __name__ == "__main__":
    main()
