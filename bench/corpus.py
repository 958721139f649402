"""A large corpus of real text, made of Debian's documentation packages: a BEIR folder without duplicates.

python -m bench.corpus --chunks 1000000 --out DIR [--packages DIR]

Needs `apt-get` with package lists (`apt-get update`), `dpkg-deb`, a mirror of Debian 12 and 1.6 GB for the packages,
which stay in `--packages`; no root. Memory is bounded. The same versions of the same packages give the same corpus:
`packages.tsv` tells them, with what each gave.

A document is a page, a node or a manual page, of at most 50,000 characters. A paragraph that stood in an earlier
document is left out, and a document of which less than half is left too; their order is that of a hash, so that the
first N chunks are the same mixture as all. `chunks.tsv` has the number of chunks that the profile `static-256` makes of
each document, to within a few per cent: one in eight is cut.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import tarfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from bench.corpus_questions import KINDS, questions_of
from bench.corpus_texts import MAX_FILE_BYTES, MIN_TEXT, Text, texts_of, wanted
from rag_assets.chunking import chunk_document
from rag_assets.documents.registry import parse
from rag_assets.embedding.profiles import DEFAULT_CHUNKING

_PACKAGES = Path(__file__).with_name("corpus_packages.txt")
_BUCKETS = 64
_BATCH_BYTES = 1_000_000
_ONE_CHUNK = 1000  # characters of a document that is one
_CUT_EVERY = 8  # longer documents: cutting all takes four times as long as all else
_MARGIN = 1.01  # so that there are enough
_PARAGRAPH = 60  # characters: shorter ones may repeat
_QUESTIONS = 200  # of each kind
_ASKED_CHUNKS = 10_000  # of these first ones is asked, so that each part of the corpus has the answers
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Found = list[tuple[int, str]]  # chunks of a document, and its line


@dataclass
class Seen:
    """Which paragraphs there were: a Bloom filter of 64 MiB. Of ten million it takes less than ten for others."""

    bits: bytearray = field(default_factory=lambda: bytearray(64 << 20))

    def add(self, text: str) -> bool:
        """Whether it was there already; it is from now on."""
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=32).digest()
        known = True
        for start in range(0, 32, 4):
            place = int.from_bytes(digest[start : start + 4]) % (len(self.bits) * 8)
            byte, bit = place >> 3, 1 << (place & 7)
            known = known and bool(self.bits[byte] & bit)
            self.bits[byte] |= bit
        return known

    def fresh(self, text: Text) -> str | None:
        """What is new of a document; None where that is less than half of it, or little."""
        paragraphs = text.text.split("\n\n")
        kept = [one for one in paragraphs if len(one) < _PARAGRAPH or not self.add(one)]
        left = "\n\n".join(kept).strip()
        told = sum(len(one) for one in kept if len(one) >= _PARAGRAPH)
        return left if told >= MIN_TEXT and len(left) * 2 >= len(text.text) else None


@dataclass
class Gained:
    """What a package gave."""

    name: str
    version: str
    documents: int = 0
    chunks: int = 0
    characters: int = 0


def package_names() -> list[str]:
    """The packages, in the order in which they are read."""
    lines = _PACKAGES.read_text(encoding="utf-8").splitlines()
    return [name for line in lines if not line.startswith("#") for name in line.split()]


def downloaded(name: str, folder: Path) -> Path | None:
    """The file of a package, downloaded unless it is there; None where no mirror has it."""
    found = sorted(folder.glob(f"{name}_*.deb"))
    if not found:
        subprocess.run(["apt-get", "download", "-qq", name], cwd=folder, check=False, stderr=subprocess.DEVNULL)
        found = sorted(folder.glob(f"{name}_*.deb"))
    return found[-1] if found else None


def files_of(package: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a package that are read, unpacked one after the other."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                if member.isreg() and member.size <= MAX_FILE_BYTES and wanted(member.name):
                    stream = archive.extractfile(member)
                    assert stream is not None
                    yield member.name, stream.read()
        process.kill()


def _batches(package: Path) -> Iterator[list[tuple[str, bytes]]]:
    batch, size = [], 0
    for name, data in files_of(package):
        batch.append((name, data))
        size += len(data) * (8 if name.endswith(".gz") else 1)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read(batch: Sequence[tuple[str, bytes]]) -> list[Text]:
    return [text for name, data in batch for text in texts_of(name, data) if len(text.text) >= MIN_TEXT]


def _count(lines: Sequence[str]) -> _Found:
    """The lines of documents, each with its chunks: cut are some, and the others are taken to be as dense."""
    records = [json.loads(line) for line in lines]
    sizes = [len(record["title"]) + len(record["text"]) for record in records]
    longer = [number for number, size in enumerate(sizes) if size > _ONE_CHUNK]
    cut = longer[::_CUT_EVERY]
    documents = parse("".join(lines[number] for number in cut).encode(), "corpus.jsonl") if cut else []
    made = sum(len(chunk_document(one.document, DEFAULT_CHUNKING)) for one in documents if one.document is not None)
    density = made / sum(sizes[number] for number in cut) if cut else 0.0
    return [
        (1 if size <= _ONE_CHUNK else max(1, round(size * density)), line)
        for size, line in zip(sizes, lines, strict=True)
    ]


def _ahead(
    pool: ProcessPoolExecutor, work: Callable[[_Item], _Result], items: Iterable[_Item], most: int
) -> Iterator[_Result]:
    """What other processes make of each item, in order, a few items ahead."""
    begun: deque[Future[_Result]] = deque()
    for item in items:
        begun.append(pool.submit(work, item))
        if len(begun) >= most:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


class Builder:
    """Collects documents until there are enough chunks, and puts them in the order of their hashes."""

    def __init__(self, out: Path, packages: Path, chunks: int) -> None:
        self._out, self._packages, self._wanted = out, packages, int(chunks * _MARGIN)
        self._parts = out / "parts"
        self._seen = Seen()
        self.gained: list[Gained] = []

    @property
    def chunks(self) -> int:
        return sum(one.chunks for one in self.gained)

    def collect(self, workers: int) -> None:
        """Read package after package; each is told as soon as it is read."""
        self._parts.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            pool = stack.enter_context(ProcessPoolExecutor(workers))
            parts = [
                stack.enter_context((self._parts / f"{number:02}").open("w", encoding="utf-8"))
                for number in range(_BUCKETS)
            ]
            for name in package_names():
                if self.chunks >= self._wanted:
                    break
                package = downloaded(name, self._packages)
                if package is None:
                    print(f"{name}: not available, left out", flush=True)
                    continue
                self.gained.append(Gained(name, package.name.split("_")[1].replace("%3a", ":")))
                self._take(package, self.gained[-1], pool, parts, workers)

    def _take(
        self, package: Path, gained: Gained, pool: ProcessPoolExecutor, parts: Sequence[IO[str]], workers: int
    ) -> None:
        texts = _ahead(pool, _read, _batches(package), 2 * workers)
        lines = ([self._line(gained.name, text, left) for text, left in self._new(batch)] for batch in texts)
        for found in _ahead(pool, _count, filter(None, lines), 2 * workers):
            for chunks, line in found:
                if self.chunks >= self._wanted:
                    break
                key = json.loads(line)["_id"]
                parts[_hash(key)[0] % _BUCKETS].write(f"{chunks}\t{line}")
                gained.documents += 1
                gained.chunks += chunks
                gained.characters += len(line)
        told = f"{gained.documents:,} documents, {gained.chunks:,} chunks"
        print(f"{gained.name} {gained.version}: {told}; {self.chunks:,} in all", flush=True)

    def _new(self, texts: Iterable[Text]) -> Iterator[tuple[Text, str]]:
        for text in texts:
            if (left := self._seen.fresh(text)) is not None:
                yield text, left

    @staticmethod
    def _line(package: str, text: Text, left: str) -> str:
        # Characters that no database takes: halves of surrogate pairs.
        title, left = (part.encode("utf-8", "replace").decode() for part in (text.title, left))
        record = {"_id": f"{package}/{text.key}", "title": title, "text": left}
        return json.dumps(record, ensure_ascii=False) + "\n"

    def merge(self) -> Counter[bytes]:
        """Write corpus.jsonl and chunks.tsv; returns how often each title stands there, by its hash."""
        titles: Counter[bytes] = Counter()
        with (
            (self._out / "corpus.jsonl").open("w", encoding="utf-8") as corpus,
            (self._out / "chunks.tsv").open("w", encoding="utf-8") as counts,
        ):
            for number in range(_BUCKETS):
                part = self._parts / f"{number:02}"
                lines = part.read_text(encoding="utf-8").split("\n")[:-1]
                rows = [(json.loads(line.partition("\t")[2]), line) for line in lines]
                for record, line in sorted(rows, key=lambda row: _hash(row[0]["_id"])):
                    chunks, _, rest = line.partition("\t")
                    corpus.write(rest + "\n")
                    counts.write(f"{record['_id']}\t{chunks}\n")
                    titles[_hash(record["title"])] += 1
                part.unlink()
        self._parts.rmdir()
        with (self._out / "packages.tsv").open("w", encoding="utf-8") as told:
            told.writelines(
                f"{one.name}\t{one.version}\t{one.documents}\t{one.chunks}\t{one.characters}\n" for one in self.gained
            )
        return titles


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def write_questions(out: Path, titles: Counter[bytes]) -> dict[str, int]:
    """Write queries.jsonl and qrels/test.tsv for the first documents; how many there are of each kind."""
    made = dict.fromkeys(KINDS, 0)
    (out / "qrels").mkdir(exist_ok=True)
    with (
        (out / "corpus.jsonl").open(encoding="utf-8") as corpus,
        (out / "chunks.tsv").open(encoding="utf-8") as counts,
        (out / "queries.jsonl").open("w", encoding="utf-8") as queries,
        (out / "qrels" / "test.tsv").open("w", encoding="utf-8") as qrels,
    ):
        qrels.write("query-id\tcorpus-id\tscore\n")
        seen = 0
        for line, count in zip(corpus, counts, strict=True):
            seen += int(count.rsplit("\t", 1)[1])
            if seen > _ASKED_CHUNKS:
                break
            record = json.loads(line)
            for kind, text in questions_of(record, titles[_hash(record["title"])] == 1):
                if made[kind] < _QUESTIONS:
                    made[kind] += 1
                    key = f"{kind}-{made[kind]:03}"
                    queries.write(json.dumps({"_id": key, "text": text}, ensure_ascii=False) + "\n")
                    qrels.write(f"{key}\t{record['_id']}\t1\n")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packages", type=Path, help="where packages are kept; default: OUT/packages")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    packages = options.packages or options.out / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    builder = Builder(options.out, packages, options.chunks)
    builder.collect(options.workers)
    made = write_questions(options.out, builder.merge())
    documents = sum(one.documents for one in builder.gained)
    size = (options.out / "corpus.jsonl").stat().st_size
    print(f"{len(builder.gained)} packages, {documents:,} documents, {builder.chunks:,} chunks, {size:,} bytes")
    print(f"questions: {made}; {time.monotonic() - began:.0f} s")
    if builder.chunks < options.chunks:
        raise SystemExit(f"only {builder.chunks:,} of {options.chunks:,} chunks")


if __name__ == "__main__":
    main()
