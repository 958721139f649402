"""Many clients at once: hybrid search in process and through `rag serve`, beside LlamaIndex and langchain-postgres.

python -m bench.clients --data DIR [--clients 1 8 32] [--rounds 3]

Each client asks the next query when it has its answer; query embedding is included on all sides, and all have the same
texts, the same model, HNSW with the same parameters and a full-text index. The peers get a connection for each client.
All but the server are asked by threads and by tasks of an event loop, and the better of the two is compared. Of each
way the median of the rounds counts, in which all ways take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench.common import Collection, environment, load_collection, median, peer, rag, score, serving, show, verdict
from bench.ingest import PROFILE, prepare
from bench.peers.many_clients import by_tasks, by_threads

TENANT, BOT, TOP_K = "clients", "bench", 10
TARGET = 3.0  # times the searches a second of each peer, in process
_Answer = dict[str, Any]  # numbers by the way of asking and the number of clients; documents by text under `found`


def in_process(texts: list[str], counts: list[int]) -> _Answer:
    """The library itself, by threads and by tasks; a scope for each request, as an application opens it."""
    import rag_assets

    database = rag_assets.Database.from_settings()
    retriever = rag_assets.HybridRetriever(database)

    def search(text: str) -> rag_assets.Retrieval:
        scope = rag_assets.open_scope(database, TENANT, BOT, PROFILE)
        return retriever.search(text, scope, TOP_K)

    async def asearch(text: str) -> object:
        scope = await rag_assets.aopen_scope(database, TENANT, BOT, PROFILE)
        return await retriever.asearch(text, scope, TOP_K)

    answer: _Answer = {"found": {text: [str(hit.citation["document"]) for hit in search(text)] for text in texts}}
    answer |= {f"threads {clients}": by_threads(search, texts, clients) for clients in counts}

    async def tasks() -> None:
        for clients in counts:
            answer[f"tasks {clients}"] = await by_tasks(asearch, texts, clients)
        await database.aclose()

    asyncio.run(tasks())
    database.close()
    return answer


def through_serve(address: str, token: str, texts: list[str], counts: list[int]) -> _Answer:
    """The same searches over HTTP, by tasks of one client process, over connections that are kept."""

    async def tasks() -> _Answer:
        limits = httpx.Limits(max_connections=max(counts), max_keepalive_connections=max(counts))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, limits=limits, timeout=60) as client:

            async def search(text: str) -> None:
                response = await client.post("/search", json={"query": text, "top_k": TOP_K})
                response.raise_for_status()

            return {f"tasks {clients}": await by_tasks(search, texts, clients) for clients in counts}

    return asyncio.run(tasks())


def peers_of(collection: Collection, url: str, counts: list[int]) -> dict[str, Callable[[], _Answer]]:
    """Fill the tables of the peers; what asks each of them."""
    peer("llamaindex_ingest.py", "--dsn", url, "--corpus", str(collection.corpus), "--table", "scifact",
         "--hnsw", "--replace")  # fmt: skip
    common = ["--dsn", url, "--queries", str(collection.queries_file), "--qrels", str(collection.qrels_file),
              "--k", str(TOP_K), "--clients", *map(str, counts)]  # fmt: skip
    langchain = [*common, "--table", "scifact_langchain"]
    peer("langchain_clients.py", *langchain, "--corpus", str(collection.corpus))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE) scifact_langchain")
    return {
        "LlamaIndex hybrid": lambda: peer("llamaindex_clients.py", *common, "--table", "scifact"),
        "langchain-postgres hybrid": lambda: peer("langchain_clients.py", *langchain),
    }


def measured(
    ways: Mapping[str, Callable[[], _Answer]], rounds: int
) -> tuple[dict[tuple[str, str], dict[str, float]], dict[str, dict[str, list[str]]]]:
    """The median of the rounds, by who was asked and how; and what each found, by text."""
    heard: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    found: dict[str, dict[str, list[str]]] = {}
    for _ in range(rounds):
        for who, ask in ways.items():
            answer = ask()
            found |= {who: answer.pop("found")} if "found" in answer else {}
            for how, numbers in answer.items():
                heard[who, how].append(numbers)
    medians = {key: {name: median(one[name] for one in all_) for name in all_[0]} for key, all_ in heard.items()}
    return medians, found


def quality(collection: Collection, found: Mapping[str, list[str]]) -> float:
    """nDCG@10 of the documents of each query, each at the place of its first chunk."""
    run = {query: list(dict.fromkeys(found[text])) for query, text in collection.queries.items()}
    return score(collection, run)["ndcg@10"]


def compare(collection: Collection, url: str, counts: list[int], rounds: int) -> None:
    """Fill, ask, and print the table and what is promised of it."""
    from rag_assets.store.database import Database
    from rag_assets.store.partitions import partition_name

    rag("ingest", str(collection.corpus.resolve()), "--tenant", TENANT, "--bot", BOT, "--profile", PROFILE)
    database = Database.from_settings()
    scope = _scope(database)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) rag.{partition_name(scope.profile_id)}")
    database.close()
    texts = list(collection.queries.values())
    others = peers_of(collection, url, counts)
    with serving({TENANT: BOT}, max(counts)) as served:
        ways = {
            "rag-assets hybrid": lambda: in_process(texts, counts),
            "rag serve": lambda: through_serve(served.address, served.tokens[TENANT], texts, counts),
            **others,
        }
        found, documents = measured(ways, rounds)
    ndcg = {who: quality(collection, by_text) for who, by_text in documents.items()}
    rows = [
        [who, how, numbers["p50_ms"], numbers["p95_ms"], numbers["qps"], ndcg.get(who, "")]
        for (who, how), numbers in found.items()
    ]
    columns = ["", "clients", "p50 ms", "p95 ms", "searches/s", "nDCG@10"]
    show(f"SciFact, top {TOP_K}, {rounds} rounds", columns, rows)
    for clients in counts:
        best = {who: max(found[who, f"{how} {clients}"]["qps"] for how in ("threads", "tasks"))
                for who in ("rag-assets hybrid", *others)}  # fmt: skip
        for who in others:
            verdict(f"{clients} clients, searches/s, times {who}", best["rag-assets hybrid"] / best[who], TARGET)
        through = found["rag serve", f"tasks {clients}"]["qps"]
        share = through / best["rag-assets hybrid"]
        print(f"     {clients} clients, through rag serve, searches/s as a share of in process: {share:.3f}")


def _scope(database: Any) -> Any:
    from rag_assets.retrieval import open_scope

    return open_scope(database, TENANT, BOT, PROFILE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(environment())
    compare(load_collection(options.data / "scifact"), prepare(), options.clients, options.rounds)


if __name__ == "__main__":
    main()
