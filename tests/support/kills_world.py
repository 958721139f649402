"""Files of which every chunk says what it is a part of, and readers that notice when one is missing."""

from __future__ import annotations

import hashlib
import random
import re
import threading
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.documents.registry import parse
from rag_assets.embedding.profiles import IndexSpec, make_profile
from rag_assets.errors import DatabaseUnavailable
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, RetrievalResult, open_scope
from rag_assets.store.database import Database

PROFILE = make_profile(
    name="hash-64-graph",
    provider="hash",
    model="hash",
    dimensions=64,
    chunking=ChunkingSpec(size=300, overlap=30),
    index=IndexSpec(exact_below=100),  # so that an HNSW graph goes through every crash, too
)
PERMANENT = 40  # files below this number are changed, but never deleted
_LABEL = re.compile(r"\b(zq[a-z]{2}x) release (\d+)\b")
_WORDS = ["amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "inlet", "jetty", "kiln"]


def marker(number: int) -> str:
    """The word that is in every chunk of this file, and in no other file."""
    return f"zq{chr(97 + number // 26)}{chr(97 + number % 26)}x"


def file_name(number: int) -> str:
    return f"part{number % 4}/{marker(number)}.{'md' if number % 3 else 'txt'}"


@cache
def text_of(number: int, version: int) -> str:
    """About 6 to 12 chunks; another version has another length, too."""
    rng = random.Random(f"{number} {version}")
    label = f"{marker(number)} release {version}"
    sentences = [f"{label}, line {line}: {' '.join(rng.choices(_WORDS, k=5))}." for line in range(rng.randint(28, 56))]
    return "\n\n".join(" ".join(sentences[start : start + 3]) for start in range(0, len(sentences), 3)) + "\n"


@cache
def chunks_of(number: int, version: int) -> tuple[str, ...]:
    """What the file is cut into, in order."""
    (record,) = parse(text_of(number, version).encode(), file_name(number))
    assert record.document is not None
    return tuple(chunk.content for chunk in chunk_document(record.document, PROFILE.chunking))


class Corpus:
    """The files under a root, and the version that each of them has."""

    def __init__(self, root: Path, rng: random.Random, files: int) -> None:
        self.root, self._rng = root, rng
        self.versions: dict[int, int] = {}
        self._next_number = files
        for number in range(files):
            self.write(number, 1)

    def write(self, number: int, version: int) -> None:
        path = self.root / file_name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(number, version))
        self.versions[number] = version

    def change(self, share: float) -> None:
        """Change a share of the files, mostly forward and at times back; delete one or two and add as many."""
        for number in self._rng.sample(sorted(self.versions), round(share * len(self.versions))):
            back = self.versions[number] > 1 and self._rng.random() < 0.2
            self.write(number, self.versions[number] + (-1 if back else 1))
        for _ in range(self._rng.randint(1, 2)):
            gone = self._rng.choice([number for number in self.versions if number >= PERMANENT])
            (self.root / file_name(gone)).unlink()
            del self.versions[gone]
            self.write(self._next_number, 1)
            self._next_number += 1

    def chunks(self) -> list[tuple[str, int, str]]:
        """(file, chunk index, content) of all that ought to be served, sorted."""
        return sorted(
            (file_name(number), index, content)
            for number, version in self.versions.items()
            for index, content in enumerate(chunks_of(number, version))
        )

    def hashes(self) -> set[bytes]:
        """Content hashes as in the embedding cache."""
        return {hashlib.sha256(content.encode()).digest() for _, _, content in self.chunks()}


def fault(asked: int, results: list[RetrievalResult], *, only: bool) -> str | None:
    """What is wrong with the answer to a search for the marker of file `asked`; None if nothing is.

    `only`: the search was by words, so no other file may answer.
    """
    seen: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        labels = set(_LABEL.findall(result.content))
        if len(labels) != 1:
            return f"a chunk of {len(labels)} versions: {result.content!r}"
        ((word, version),) = labels
        seen[word][int(version)].append(result.content)
    mixed = {word: sorted(versions) for word, versions in seen.items() if len(versions) > 1}
    if mixed:
        return f"two versions of one file: {mixed}"
    others = set(seen) - {marker(asked)}
    if only and others:
        return f"searched for {marker(asked)} and found {sorted(others)}"
    if marker(asked) not in seen:
        return f"nothing of {marker(asked)}" if asked < PERMANENT else None
    ((version, found),) = seen[marker(asked)].items()
    wanted = chunks_of(asked, version)
    if sorted(found) != sorted(wanted):
        return f"{len(found)} of {len(wanted)} chunks of {marker(asked)} release {version}"
    return None


class Reader(threading.Thread):
    """Searches without pause until it is stopped; an unreachable server is counted and tried again."""

    def __init__(self, database: Database, tenant: str, bot: str, seed: int) -> None:
        super().__init__(name=f"reader {seed}", daemon=True)
        scope = open_scope(database, tenant, bot)
        self._scope = scope
        self._lexical, self._hybrid = LexicalRetriever(database), HybridRetriever(database)
        self._rng = random.Random(seed)
        self._stopped = threading.Event()
        self.numbers = list(range(PERMANENT))
        self.searches = self.unavailable = 0
        self.longest_s = 0.0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                self._look()
            except DatabaseUnavailable:
                self.unavailable += 1
            except Exception as error:  # any other is what an application would see, and so a fault
                self.faults.append(f"{type(error).__name__}: {error}")
            self.longest_s = max(self.longest_s, time.monotonic() - started)

    def _look(self) -> None:
        asked, by_words = self._rng.choice(self.numbers), self._rng.random() < 0.7
        retriever = self._lexical if by_words else self._hybrid
        answer = retriever.search(marker(asked), self._scope, top_k=1000)
        self.searches += 1
        wrong = fault(asked, list(answer), only=by_words)
        if wrong:
            self.faults.append(f"{retriever.mode}: {wrong}")

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=120)
        if self.is_alive():
            self.faults.append("a search did not return within 120 s")
