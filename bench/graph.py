"""Search along triples, and an agentic search, beside the retriever that they complete, on the bundled questions of one
and two hops.

python -m bench.graph [--profile static-256]

Recall@5 counts the passage with the answer and the one that leads to it; MRR the answer alone. The rule by which the
lists are put together was chosen on the even half of the questions.

The judge of the agentic search is a rule behind a stand-in server: it reads the triples, and asks for each name to
which one leads from what the question names, once a passage has told it. A model would have to find it by reading.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.common import REPOSITORY, environment, median, rag, show
from bench.stand_in import Judge, chat_server
from rag_assets.chat.openai import OpenAIChat
from rag_assets.ingest.triples import import_triples
from rag_assets.retrieval import (
    AgenticRetriever,
    GraphRetriever,
    HybridRetriever,
    RetrievalScope,
    Retriever,
    open_scope,
)
from rag_assets.store.database import Database

DATA = REPOSITORY / "evals" / "data" / "tellmarsh"
TENANT, BOT = "tellmarsh", "bench"
DEPTH = 10


def read_questions(folder: Path) -> tuple[list[Mapping[str, str]], dict[str, dict[str, int]]]:
    """The questions, and by id the grades of the documents that answer them."""
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        grades.setdefault(query, {})[document] = int(grade)
    return [json.loads(line) for line in lines], grades


def measure(
    retriever: Retriever,
    scope: RetrievalScope,
    questions: list[Mapping[str, str]],
    grades: Mapping[str, Mapping[str, int]],
) -> tuple[float, float, float]:
    """Mean Recall@5 and MRR@10, and the median of what a search took, in ms."""
    recalls, ranks, times = [], [], []
    for question in questions:
        wanted = grades[question["_id"]]
        found = retriever.search(question["text"], scope, DEPTH)
        documents = list(dict.fromkeys(str(one.citation["document"]) for one in found))
        recalls.append(len(wanted.keys() & set(documents[:5])) / len(wanted))
        ranks.append(next((1 / rank for rank, name in enumerate(documents, 1) if wanted.get(name) == 2), 0.0))
        times.append(found.timings_ms["total"])
    return sum(recalls) / len(recalls), sum(ranks) / len(ranks), median(times)


def follows_names(triples: Sequence[Mapping[str, str]]) -> Judge:
    """Asks for the names that passages tell and the triples lead to; content when there is no new one."""

    def judge(question: str, queries: Sequence[str], passages: Sequence[str]) -> list[str]:
        told = "\n".join(passages)
        steps = [one for one in triples if one["subject"].casefold() in question.casefold()]
        names = dict.fromkeys(one["object"] for one in steps if one["object"] in told)
        return [name for name in names if name not in queries]

    return judge


def table(database: Database, profile: str, chat: OpenAIChat) -> list[list[object]]:
    """One row for each retriever, kind of question and half."""
    questions, grades = read_questions(DATA)
    scope = open_scope(database, TENANT, BOT, profile)
    hybrid = HybridRetriever(database)
    retrievers: dict[str, Retriever] = {
        "hybrid": hybrid,
        "graph over hybrid": GraphRetriever(hybrid),
        "agentic over hybrid": AgenticRetriever(hybrid, chat),
    }
    rows: list[list[object]] = []
    for kind in ("two-hop", "one-hop"):
        for half, name in enumerate(("even", "odd")):
            chosen = [one for one in questions if one["kind"] == kind and int(one["_id"][-3:]) % 2 == half]
            for label, retriever in retrievers.items():
                rows.append([label, kind, name, len(chosen), *measure(retriever, scope, chosen, grades)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="static-256")
    options = parser.parse_args()
    os.environ.update(environment())
    rag("ingest", str(DATA / "sources"), "--tenant", TENANT, "--bot", BOT, "--profile", options.profile)
    database = Database.from_settings()
    import_triples(database, TENANT, BOT, DATA / "triples.jsonl")
    columns = ["retriever", "questions", "half", "n", "Recall@5", "MRR@10", "p50 ms"]
    triples = [json.loads(line) for line in (DATA / "triples.jsonl").read_text(encoding="utf-8").splitlines()]
    with chat_server(follows_names(triples)) as url:
        chat = OpenAIChat("stand-in", base_url=url)
        show(f"Along triples, {options.profile}", columns, table(database, options.profile, chat))
        chat.close()
    database.close()


if __name__ == "__main__":
    main()
