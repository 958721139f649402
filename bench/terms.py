"""Lexical search by version of terms, on labelled collections, by turns in one run.

python -m bench.terms --data DIR [--collections scifact xquad-multi ...] [--versions 1 2] [--native] [--queries N]

A collection with `qrels/test.LANG.tsv` is judged language by language, each as a tenant of its own. Vectors play no
part: they are made by hashing. What lies in `.bench` already is not read again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bench.common import Collection, environment, median, rag, score, show, verdict
from bench.weights import COLLECTIONS, distinct, first, parts
from rag_assets.embedding.profiles import make_profile
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.terms import TermsVersion, versions

SLOWER = 1.1  # than the oldest version
NATIVE = {
    "ar": "arabic", "de": "german", "el": "greek", "en": "english", "es": "spanish", "hi": "hindi", "ro": "romanian",
    "ru": "russian", "tr": "turkish",
}  # fmt: skip


def profile_for(database: Database, version: TermsVersion, language: str) -> str:
    """The name of a profile with these terms, in the catalogue."""
    name = f"terms-{version}-{language}"
    fields = {"name": name, "provider": "hash", "model": "hash", "dimensions": 8, "index": {"kind": "exact"}}
    add_spec(database, make_profile(**fields, lexical={"language": language}, terms=version))
    return name


def measure(
    database: Database, tenant: str, collection: Collection, profiles: Sequence[str]
) -> list[tuple[float, float, float]]:
    """Recall@5, nDCG@10 and p50 in ms under each profile; each query is put to one after the other."""
    scopes = [open_scope(database, tenant, "bench", profile) for profile in profiles]
    retriever = LexicalRetriever(database)
    runs: list[dict[str, list[str]]] = [{} for _ in profiles]
    times: list[list[float]] = [[] for _ in profiles]
    for warm in (True, False):
        for query, text in list(collection.queries.items())[: 20 if warm else None]:
            for scope, run, took in zip(scopes, runs, times, strict=True):
                found = retriever.search(text, scope, top_k=20)
                run[query] = distinct([hit.citation["document"] for hit in found])
                if not warm:
                    took.append(found.timings_ms["search"])
    scored = [score(collection, run) for run in runs]
    return [(one["recall@5"], one["ndcg@10"], median(took)) for one, took in zip(scored, times, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the collections")
    parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS))
    parser.add_argument("--versions", nargs="+", type=int, choices=versions(), default=list(versions()))
    parser.add_argument("--native", action="store_true", help="stem each language by its own rules, not as English")
    parser.add_argument("--queries", type=int, help="only so many of each, the first")
    options = parser.parse_args()
    os.environ.update(environment())
    rag("up")
    database = Database.from_settings()
    rows: list[list[object]] = []
    for folder in options.collections:
        for tenant, collection in parts(options.data / folder):
            code = tenant.rpartition("-")[2]
            language = NATIVE.get(code, "simple") if options.native and tenant != folder else "english"
            profiles = [profile_for(database, version, language) for version in options.versions]
            for profile in profiles:
                rag("ingest", str(collection.corpus), "--tenant", tenant, "--bot", "bench", "--profile", profile)
            found = measure(database, tenant, first(collection, options.queries), profiles)
            for version, (recall, ndcg, p50) in zip(options.versions, found, strict=True):
                rows.append([tenant, language, version, recall, ndcg, p50, p50 / found[0][2]])
                print(*[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in rows[-1]], flush=True)
    database.close()
    show("Lexical search", ["collection", "stemmer", "terms", "Recall@5", "nDCG@10", "p50 ms", "times"], rows)
    ratios = [float(str(row[-1])) for row in rows if row[2] == options.versions[-1]]
    verdict("p50 of the last version, median over collections", median(ratios), SLOWER, at_least=False)


if __name__ == "__main__":
    main()
