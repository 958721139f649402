"""What it costs a search, and opening a scope, that scopes are signed and verified.

python -m bench.signed --data DIR [--rounds 3]

The same searches with signing off and on take turns of ten within one run, each over one connection; where it is off,
nothing is signed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import rag_assets
from bench.common import environment, load_collection, median, rag, show, verdict
from bench.ingest import PROFILE, prepare
from rag_assets.signing import new_key
from rag_assets.store.scope_keys import add_scope_key, require_signed_scopes, retire_scope_key, take_unsigned_scopes

TENANT, BOT, TOP_K, BLOCK = "signed", "bench", 8, 10
Work = Callable[[str], object]


def works(database: rag_assets.Database) -> dict[str, Work]:
    """What is measured, by name, each for one question."""
    scope = rag_assets.open_scope(database, TENANT, BOT, PROFILE)
    retrievers = {
        "dense": rag_assets.DenseRetriever(database),
        "lexical": rag_assets.LexicalRetriever(database),
        "hybrid": rag_assets.HybridRetriever(database),
        "hybrid, expanded": rag_assets.ExpandedRetriever(rag_assets.HybridRetriever(database), neighbours=1),
    }

    def search(retriever: rag_assets.Retriever) -> Work:
        return lambda text: retriever.search(text, scope, TOP_K)

    return {
        "open a scope": lambda text: rag_assets.open_scope(database, TENANT, BOT, PROFILE),
        **{name: search(retriever) for name, retriever in retrievers.items()},
    }


def timed(work: Work, texts: list[str]) -> list[float]:
    """Milliseconds of each call; the first of them is made twice, and counted once."""
    work(texts[0])
    times = []
    for text in texts:
        started = time.perf_counter()
        work(text)
        times.append(1000 * (time.perf_counter() - started))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds scifact/")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(environment())
    collection = load_collection(options.data / "scifact")
    prepare()
    rag("ingest", str(collection.corpus.resolve()), "--tenant", TENANT, "--bot", BOT, "--profile", PROFILE)
    operator = rag_assets.Database.from_settings(operator=True)
    key = new_key()
    add_scope_key(operator, key)
    texts = list(collection.queries.values())
    databases = {
        signed: rag_assets.Database(operator.url, operator.app_url, 1, scope_key=key if signed else None)
        for signed in (False, True)
    }
    measured: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
    try:
        ways = {signed: works(database) for signed, database in databases.items()}
        for start in range(0, options.rounds * len(texts), BLOCK):
            block = [texts[number % len(texts)] for number in range(start, start + BLOCK)]
            for signed in (False, True):
                (require_signed_scopes if signed else take_unsigned_scopes)(operator)
                for name, work in ways[signed].items():
                    measured[signed].setdefault(name, []).extend(timed(work, block))
    finally:
        take_unsigned_scopes(operator)
        retire_scope_key(operator, key.id)
        for database in (*databases.values(), operator):
            database.close()
    rows = [(name, median(off), median(measured[True][name])) for name, off in measured[False].items()]
    show(
        f"median of {options.rounds} rounds of {len(texts)} questions",
        ["", "unsigned ms", "signed ms", "signed / unsigned"],
        [[name, off, on, on / off] for name, off, on in rows],
    )
    for name, off, on in rows[1:]:
        verdict(f"{name}: signed, times unsigned", on / off, 1.25, at_least=False)


if __name__ == "__main__":
    main()
