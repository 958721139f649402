"""Hybrid search beside itself reranked, and beside an agentic search, on five labelled collections.

python -m bench.rerankers --data DIR [--collections scifact ...] [--queries 100] [--k-in 50] [--timed 10]

The MiniLM is all-MiniLM-L6-v2 as a bi-encoder; it needs `make install-local`, and its rows are left out without it. A
passage is embedded once for all queries, and its vector kept under `.bench`: quality is measured so, and not how long
it takes. That is measured on `--timed` queries with the product's own reranker, which embeds every candidate for each
query, and has to agree about the order; with its defaults too, of which a limit of 3 s is one. The chat server of the
agentic search is a stand-in on this machine.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import HOME, environment, percentile, rag, show
from bench.stand_in import chat_server, is_never_content, wants_every_word
from evals.datasets import EvalSet, load_evalset
from evals.labels import Labels
from evals.metrics import evaluate
from evals.naming import labels_of
from evals.runs import RetrievalRun
from rag_assets.chat.openai import OpenAIChat
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.registry import embedder_for
from rag_assets.retrieval import (
    AgenticRetriever,
    HybridRetriever,
    RerankedRetriever,
    Retrieval,
    RetrievalScope,
    Retriever,
    open_scope,
)
from rag_assets.retrieval.rerankers.bi_encoder import BiEncoderReranker
from rag_assets.retrieval.rerankers.protocol import Scores
from rag_assets.store.database import Database

COLLECTIONS = ("scifact", "stackfaq", "cosqa", "icecat-chorus", "cranfield")
MINILM = {"provider": "sentence-transformers", "model": "all-MiniLM-L6-v2", "dimensions": 384}
SMALL = "static-64"
SEED = 7
_SHOWN = ("ndcg@10", "recall@5", "mrr@10")


class Remembering:
    """The scores of a bi-encoder, with the vector of each passage kept."""

    name = "remembering"

    def __init__(self, file: Path) -> None:
        self._embedder = embedder_for(make_profile(name="remembering", **MINILM))
        self._file = file
        self._vectors: dict[str, NDArray[np.float32]] = dict(np.load(file)) if file.exists() else {}

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        """See `Reranker.score`."""
        keys = [blake2b(text.encode(), digest_size=16).hexdigest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors and text.strip()}
        if new:
            vectors = self._embedder.embed_documents(list(new.values())).vectors
            self._vectors.update(zip(new, vectors, strict=True))
        asked = self._embedder.embed_query(query).vectors[0]
        known = [(index, self._vectors[key]) for index, key in enumerate(keys) if key in self._vectors]
        return Scores([(index, float(np.clip(vector @ asked, 0, 1))) for index, vector in known])

    def save(self) -> None:
        """Keep the vectors for the next run."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._file, **self._vectors)  # type: ignore[arg-type]


@dataclass
class Way:
    """A retriever with what it answered: chunks and milliseconds by query, and what its last stage said of each."""

    name: str
    retriever: Retriever
    top_k: int
    is_timed: bool = True
    chunks: dict[str, list[tuple[object, float]]] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    told: list[Mapping[str, Any]] = field(default_factory=list)
    degraded: int = 0

    def ask(self, query: str, text: str, scope: RetrievalScope, relevant: Mapping[str, int], labels: Labels) -> None:
        found: Retrieval = self.retriever.search(text, scope, self.top_k)
        self.chunks[query] = [(name, one.score) for one in found for name in labels.documents_of(one, relevant)]
        self.times[query] = found.timings_ms["total"]
        self.told.append({**(found.trace[0] if found.trace else {}), "results": len(found)})
        self.degraded += found.degraded is not None

    def mean(self, what: str) -> float:
        """The mean of a number that the traces tell."""
        values = [one[what] if isinstance(one[what], int) else len(one[what]) for one in self.told if what in one]
        return sum(values) / max(1, len(values))

    @property
    def says(self) -> str:
        if "rounds" in (self.told[0] if self.told else {}):
            return f"{self.mean('rounds'):.1f} rounds, {self.mean('tokens'):.0f} tokens"
        return f"{self.mean('results'):.1f} results"

    @property
    def milliseconds(self) -> list[object]:
        """Median and 95th percentile."""
        return (
            ["", ""]
            if not self.is_timed
            else [f"{percentile(self.times.values(), share):,.0f}" for share in (0.5, 0.95)]
        )


@contextmanager
def ways(database: Database, minilm: Remembering | None, k_in: int) -> Iterator[list[Way]]:
    """Hybrid search, and what is made of it. Of a reranker: all candidates in its order, and what its defaults keep."""
    hybrid = HybridRetriever(database)
    found = [Way("hybrid", hybrid, k_in)]
    rerankers: dict[str, Any] = {"MiniLM": minilm, SMALL: BiEncoderReranker(SMALL)}
    for name, reranker in rerankers.items():
        if reranker is not None:
            every = RerankedRetriever(hybrid, reranker, k_in=k_in, k_out=k_in, tau=0, limit_s=3600)
            found.append(Way(f"{name}, tau 0", every, k_in, is_timed=reranker is not minilm))
            usual = RerankedRetriever(hybrid, reranker, k_in=k_in, limit_s=3600)
            found.append(Way(f"{name}, tau .32, at most 8", usual, 8, is_timed=reranker is not minilm))
    with ExitStack() as stack:
        for name, judge in {"wants every word": wants_every_word, "never content": is_never_content}.items():
            chat = OpenAIChat("stand-in", base_url=stack.enter_context(chat_server(judge)))
            stack.callback(chat.close)
            found.append(Way(f"agentic, {name}", AgenticRetriever(hybrid, chat), 10))
        yield found


def asked(evalset: EvalSet, count: int) -> EvalSet:
    """So many of the judged queries, always the same."""
    judged = sorted(evalset.judged)
    return evalset.subset(random.Random(SEED).sample(judged, min(count, len(judged))))


def row(evalset: EvalSet, way: Way, more: str = "") -> list[object]:
    means = evaluate(evalset, RetrievalRun.from_chunks(way.chunks)).means
    quality = [means[metric] for metric in _SHOWN]
    return [way.name, len(evalset.queries), *quality, *way.milliseconds, way.says + more]


def timed(
    database: Database, scope: RetrievalScope, evalset: EvalSet, labels: Labels, remembered: Way, k_in: int
) -> list[list[object]]:
    """What the MiniLM takes where it embeds every candidate for each query, and what its defaults make of it."""
    hybrid, reranker = HybridRetriever(database), BiEncoderReranker(MINILM)
    every = RerankedRetriever(hybrid, reranker, k_in=k_in, k_out=k_in, tau=0, limit_s=3600)
    whole, usual = Way("MiniLM, tau 0", every, k_in), Way("MiniLM, defaults", RerankedRetriever(hybrid, reranker), 8)
    for query in evalset.queries:
        for way in (whole, usual):
            way.ask(query.id, query.text, scope, evalset.qrels[query.id], labels)
    agree = sum(whole.chunks[query.id][:10] == remembered.chunks[query.id][:10] for query in evalset.queries)
    return [
        row(evalset, whole, f"; {agree} times the ten of the kept vectors"),
        row(evalset, usual, f"; {usual.degraded} times the order before"),
    ]


def measure(options: argparse.Namespace, name: str) -> list[list[object]]:
    """The rows of one collection."""
    minilm = Remembering(HOME / "rerankers" / f"{name}.npz") if find_spec("sentence_transformers") else None
    folder = options.data / name
    corpus = str((folder / "corpus.jsonl").resolve())
    rag("ingest", corpus, "--tenant", name, "--bot", "bench", "--profile", options.profile)
    database = Database.from_settings()
    scope = open_scope(database, name, "bench", options.profile)
    evalset = asked(load_evalset(folder, split="test"), options.queries)
    labels = labels_of(database, name, "bench", evalset)
    with ways(database, minilm, options.k_in) as every:
        for way in every:  # models are loaded, and caches filled
            way.retriever.search("warm up", scope)
        for number, query in enumerate(evalset.queries):
            for way in every:
                way.ask(query.id, query.text, scope, evalset.qrels[query.id], labels)
            if minilm is not None and number % 10 == 9:
                minilm.save()
        rows = [row(evalset, way) for way in every]
        if minilm is not None:
            minilm.save()
            few = asked(evalset, options.timed)
            rows += timed(database, scope, few, labels, every[1], options.k_in) if few.queries else []
    database.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS))
    parser.add_argument("--queries", type=int, default=100, help="of each collection, by a fixed seed")
    parser.add_argument("--k-in", type=int, default=50, help="candidates that are reranked")
    parser.add_argument("--timed", type=int, default=10, help="of these, how many the MiniLM is timed with")
    parser.add_argument("--profile", default="static-256")
    options = parser.parse_args()
    os.environ.update(environment())
    if find_spec("sentence_transformers") is None:
        print("the MiniLM is left out: make install-local")
    columns = ["retriever", "queries", *_SHOWN, "p50 ms", "p95 ms", ""]
    for name in options.collections:
        show(f"{name}, {options.profile}, {options.k_in} candidates", columns, measure(options, name))


if __name__ == "__main__":
    main()
