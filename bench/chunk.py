"""Speed of every chunker beside langchain-text-splitters, semantic-text-splitter and chonkie, in the same run.

python -m bench.chunk --data DIR [--repeat 5]
python -m bench.chunk --pathological [--megabytes 100]

Ours make chunks with offsets, pages and headings; the peers make strings, with offsets where they have them. Counting
words and marks of each chunk, which the peers do not, is a row of its own. Parsing is not part of any figure but that
of the row that says so. Both sides run in turns and the best of all turns counts, so that a busy machine hits both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.chunk_inputs import Case, pathological
from bench.common import peer, show, verdict
from rag_assets.chunking import STRATEGIES, ChunkingSpec, chunk_document
from rag_assets.documents.building import paragraphs
from rag_assets.documents.model import Document
from rag_assets.documents.parsers.markdown_blocks import markdown_blocks

SIZE, OVERLAP = 800, 100  # characters
TOKENS, TOKEN_OVERLAP = 200, 25
GROUP = 20  # source documents to one text
SHORT = 0.3  # seconds
GROWTH = 4  # a pathological input is also cut at this part of its length
TURNS = 2  # the faster one counts, so that a busy machine is not taken for a slow chunker
LINEAR = 2.5  # how much longer than in proportion the whole may take: caches, the garbage collector; by square it is 4

Work = Callable[[Document], object]


def spec_of(strategy: str) -> ChunkingSpec:
    size, overlap = (TOKENS, TOKEN_OVERLAP) if strategy == "token" else (SIZE, OVERLAP)
    return ChunkingSpec.model_validate({"strategy": strategy, "size": size, "overlap": overlap})


def corpora(data: Path) -> dict[str, list[Document]]:
    """The same collections as people have them: short texts, articles with headings, one long text, code."""
    prose = [row for name in ("scifact", "stackfaq") for row in read_corpus(data / name)]
    abstracts = [f"{title}\n\n{text}" for title, text in prose]
    articles = ["\n\n".join(f"## {title}\n\n{text}" for title, text in group) for group in grouped(prose)]
    code = ["\n\n\n".join(text for _, text in group) for group in grouped(read_corpus(data / "cosqa"))]
    return {
        "abstracts": [Document(text, blocks=paragraphs(text)) for text in abstracts],
        "articles": [parsed(text, "text/markdown")[0] for text in articles],
        "one text": [Document("\n\n".join(abstracts))],
        "code": [Document(text, content_type="text/x-python", blocks=paragraphs(text, "code")) for text in code],
    }


def read_corpus(folder: Path) -> list[tuple[str, str]]:
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        return [(row.get("title", ""), row["text"]) for row in map(json.loads, lines)]


def grouped(rows: Sequence[tuple[str, str]]) -> Iterable[Sequence[tuple[str, str]]]:
    return (rows[start : start + GROUP] for start in range(0, len(rows), GROUP))


def works(corpus: str) -> dict[str, Work]:
    """What of ours is measured on a corpus, by name; the first word is that of the peers' like."""
    recursive = spec_of("recursive")
    headed = recursive.model_copy(update={"context_header": True})
    found: dict[str, Work] = {
        "recursive": lambda document: chunk_document(document, recursive),
        "recursive, tokens counted": lambda document: [c.token_count for c in chunk_document(document, recursive)],
    }
    if corpus == "one text":
        return found
    if corpus == "articles":
        found["recursive, context"] = lambda document: chunk_document(document, headed)
        found["(parsing the Markdown)"] = lambda document: list(markdown_blocks(document.text))
    for strategy in (
        ("code",) if corpus == "code" else [name for name in STRATEGIES if name not in ("recursive", "code")]
    ):
        found[strategy] = work_of(spec_of(strategy))
    return found


def work_of(spec: ChunkingSpec) -> Work:
    return lambda document: chunk_document(document, spec)


def timed(work: Work, documents: Sequence[Document]) -> float:
    """Seconds over all documents, the best of three where that takes no time; bench/peers/chunkers.py does the same."""
    best = once(work, documents)
    return min(best, once(work, documents), once(work, documents)) if best < SHORT else best


def once(work: Work, documents: Sequence[Document]) -> float:
    started = time.perf_counter()
    for document in documents:
        work(document)
    return time.perf_counter() - started


def speeds(corpus: str, documents: list[Document], repeat: int) -> dict[str, float]:
    """MB/s of ours and of the peers by name, the best of `repeat` turns."""
    megabytes = sum(len(document.text.encode()) for document in documents) / 1e6
    mine = works(corpus)
    only = ",".join({name.split()[0].rstrip(",") for name in mine})
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.json"
        texts.write_text(json.dumps([document.text for document in documents]), encoding="utf-8")
        for _ in range(repeat):
            turn = {f"{name} rag-assets": megabytes / timed(work, documents) for name, work in mine.items()}
            turn |= peer(
                "chunkers.py", "--texts", str(texts), "--only", only, "--size", str(SIZE), "--overlap", str(OVERLAP),
                "--tokens", str(TOKENS), "--token-overlap", str(TOKEN_OVERLAP),
            )  # fmt: skip
            best = {name: max(speed, best.get(name, 0.0)) for name, speed in turn.items()}
    return dict(sorted(best.items()))


def compare(data: Path, repeat: int) -> None:
    for corpus, documents in corpora(data).items():
        measured = speeds(corpus, documents, repeat)
        size = sum(len(document.text.encode()) for document in documents) / 1e6
        show(
            f"{corpus}: {len(documents):,} texts, {size:.1f} MB; {SIZE} characters, overlap {OVERLAP}",
            ["", "MB/s"],
            [(name, f"{speed:.1f}") for name, speed in measured.items()],
        )
        peers = {name: speed for name, speed in measured.items() if name.startswith("recursive ") and "rag" not in name}
        fastest = max(peers, key=lambda name: peers[name])
        ratio = measured["recursive rag-assets"] / peers[fastest]
        verdict(f"{corpus}: recursive, times {fastest.split()[1]}'s speed", ratio, 1.0)


def stress(megabytes: int) -> None:
    """Time every chunker on inputs that break others, whole and at a quarter of their length."""
    for case in pathological(megabytes):
        part, whole = stressed(case, case.text[: len(case.text) // GROWTH]), stressed(case, case.text)
        millions = len(case.text) / 1e6
        show(
            f"{case.name}: {millions:.1f} million characters",
            ["", "s at a quarter", "s", "million characters/s"],
            [(name, part[name], whole[name], f"{millions / max(whole[name], 1e-6):.1f}") for name in whole],
        )
        # What takes no time grows as noise does.
        growth = max([whole[name] / part[name] / GROWTH for name in whole if whole[name] > 0.5], default=0.0)
        verdict(f"{case.name}: growth of the time, times that of the length", growth, LINEAR, at_least=False)


def stressed(case: Case, text: str) -> dict[str, float]:
    """Seconds of each chunker, and of parsing, over one text."""
    best: dict[str, float] = {}
    for _ in range(TURNS):
        document, seconds = parsed(text, case.kind)
        turn = {"parsing": seconds}
        turn |= {strategy: timed(work_of(spec_of(strategy)), [document]) for strategy in case.strategies}
        best = {name: min(taken, best.get(name, taken)) for name, taken in turn.items()}
    return best


def parsed(text: str, kind: str) -> tuple[Document, float]:
    started = time.perf_counter()
    blocks = tuple(markdown_blocks(text)) if kind == "text/markdown" else paragraphs(text)
    return Document(text, content_type=kind, blocks=blocks), time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds scifact/, stackfaq/ and cosqa/")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--pathological", action="store_true", help="time the inputs that break others instead")
    parser.add_argument("--megabytes", type=int, default=100, help="length of the longest of them")
    options = parser.parse_args()
    if options.pathological:
        stress(options.megabytes)
    elif options.data:
        compare(options.data, options.repeat)
    else:
        parser.error("give --data or --pathological")


if __name__ == "__main__":
    main()
