"""Search latency beside LlamaIndex, and lexical search beside `ts_rank` over the same GIN index.

python -m bench.search --data DIR

Query embedding is included on both sides. Both tables are vacuumed first, and each side warms up.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import psycopg

from bench.common import Collection, environment, load_collection, median, peer, percentile, rag, score, show, verdict
from bench.ingest import PROFILE, prepare

TOP_K = 10


def ours(collection: Collection) -> dict[str, tuple[list[float], list[float], dict[str, float]]]:
    """Total and embedding milliseconds, and quality, by mode; `ts_rank` and `ts_rank_cd` the usual way."""
    from rag_assets.retrieval import open_scope
    from rag_assets.retrieval.retrievers import RETRIEVERS
    from rag_assets.store.database import Database
    from rag_assets.store.partitions import partition_name

    database = Database.from_settings()
    scope = open_scope(database, "search", "bench", PROFILE)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) rag.{partition_name(scope.profile_id)}")
    answers = {}
    for mode, kind in RETRIEVERS.items():
        retriever = kind(database)
        for text in list(collection.queries.values())[:20]:
            retriever.search(text, scope, TOP_K)
        run, total, embed = {}, [], []
        for query, text in collection.queries.items():
            found = retriever.search(text, scope, TOP_K)
            total.append(found.timings_ms["total"])
            embed.append(found.timings_ms["embed"])
            run[query] = list(dict.fromkeys(result.citation["document"] for result in found))
        answers[f"rag-assets {mode}"] = (total, embed, score(collection, run))
    answers |= text_ranks(collection, database.url, partition_name(scope.profile_id))
    database.close()
    return answers


def text_ranks(
    collection: Collection, url: str, partition: str
) -> dict[str, tuple[list[float], list[float], dict[str, float]]]:
    """Any word, ordered by ts_rank(…, 1), over the product's own tsvector and GIN index, as superuser."""
    from rag_assets.terms import NEWEST, prepare

    statement = (
        "WITH q AS (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS words "
        "           FROM unnest(to_tsvector('english', %(text)s))) "
        "SELECT s.metadata ->> 'doc_id', c.content FROM (SELECT source_id, content, ts_rank(fts, q.words, 1) AS r "
        f"FROM rag.{partition}, q WHERE fts @@ q.words ORDER BY r DESC LIMIT {TOP_K}) c "
        "JOIN rag.knowledge_sources s ON s.id = c.source_id ORDER BY c.r DESC"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")  # the GIN index, as for our own
        run, total = {}, []
        for warm in (True, False):
            for query, text in list(collection.queries.items())[: 20 if warm else None]:
                started = time.perf_counter()
                rows = connection.execute(statement, {"text": prepare(text, NEWEST)}).fetchall()
                if not warm:
                    total.append(1000 * (time.perf_counter() - started))
                    run[query] = list(dict.fromkeys(row[0] for row in rows))
    return {"ts_rank, any word": (total, [0.0], score(collection, run))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    options = parser.parse_args()
    os.environ.update(environment())
    collection = load_collection(options.data / "scifact")
    url = prepare()
    rag("ingest", str(collection.corpus.resolve()), "--tenant", "search", "--bot", "bench", "--profile", PROFILE)
    peer("llamaindex_ingest.py", "--dsn", url, "--corpus", str(collection.corpus), "--table", "scifact",
         "--hnsw", "--replace")  # fmt: skip
    answers = ours(collection)
    rows: list[list[object]] = [
        [name, median(total), percentile(total, 0.95), median(embed), quality["ndcg@10"], quality["recall@5"]]
        for name, (total, embed, quality) in answers.items()
    ]
    p50 = {name: median(total) for name, (total, _, _) in answers.items()}
    for mode in ("default", "sparse", "hybrid", "fusion"):
        answer = peer(
            "llamaindex_search.py", "--dsn", url, "--table", "scifact", "--queries", str(collection.queries_file),
            "--qrels", str(collection.qrels_file), "--mode", mode, "--k", str(TOP_K),
        )  # fmt: skip
        p50[f"LlamaIndex {mode}"] = answer["p50_ms"]
        rows.append([f"LlamaIndex {mode}", answer["p50_ms"], answer["p95_ms"], answer["embed_p50_ms"], "", ""])
    show(f"SciFact, top {TOP_K}", ["", "p50 ms", "p95 ms", "embed p50 ms", "nDCG@10", "Recall@5"], rows)
    verdict(
        "hybrid p50, share of LlamaIndex hybrid",
        p50["rag-assets hybrid"] / p50["LlamaIndex hybrid"],
        0.5,
        at_least=False,
    )
    verdict(
        "hybrid p50, share of LlamaIndex fusion",
        p50["rag-assets hybrid"] / p50["LlamaIndex fusion"],
        0.5,
        at_least=False,
    )
    verdict("ts_rank p50, times lexical", p50["ts_rank, any word"] / p50["rag-assets lexical"], 2.0)


if __name__ == "__main__":
    main()
