"""Main text of real web pages, beside trafilatura on its own.

    python -m bench.parse --documents FOLDER

FOLDER/articles holds pages as NAME.html.gz, and `ground-truth.json` with the text that a person marked in each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import trafilatura

from bench.common import show, verdict
from rag_assets.documents.parsers.html.page import parse_html

ROUNDS = 3
LOW = 0.8
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Result:
    """Per page: F1 of words (how often each occurs), and of runs of 4 words, which also sees their order."""

    words: Mapping[str, float]
    runs: Mapping[str, float]
    pages_per_second: float


def product(page: str) -> str:
    """The text of the document that the product stores."""
    document = parse_html(page.encode(), "page.html", "text/html; charset=utf-8")[0].document
    return document.text if document else ""


def extractor(page: str) -> str:
    """trafilatura as it comes."""
    return trafilatura.extract(page) or ""


def extractor_without_comments(page: str) -> str:
    """trafilatura without readers' comments, which the marked text does not hold either."""
    return trafilatura.extract(page, include_comments=False) or ""


def f1(text: str, truth: str, n: int = 1) -> float:
    """Return the harmonic mean of precision and recall over runs of `n` words, each counted as often as it occurs."""
    found, wanted = _runs(text, n), _runs(truth, n)
    shared = sum((found & wanted).values())
    total = sum(found.values()) + sum(wanted.values())
    return 2 * shared / total if total else 1.0


def _runs(text: str, n: int) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    starts = range(max(1, len(words) - n + 1)) if words else range(0)
    return Counter(tuple(words[start : start + n]) for start in starts)


def measure(extract: Callable[[str], str], pages: Mapping[str, str], truth: Mapping[str, str]) -> Result:
    """Run over all pages; the time is the best of three rounds."""
    times = []
    texts: dict[str, str] = {}
    for _ in range(ROUNDS):
        started = time.perf_counter()
        texts = {name: extract(page) for name, page in pages.items()}
        times.append(time.perf_counter() - started)
    return Result(
        {name: f1(text, truth[name]) for name, text in texts.items()},
        {name: f1(text, truth[name], 4) for name, text in texts.items()},
        len(pages) / min(times),
    )


def load(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the pages and their marked texts by name."""
    marked = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    truth = {name: entry["articleBody"] for name, entry in sorted(marked.items())}
    pages = {}
    for name in truth:
        with gzip.open(folder / f"{name}.html.gz") as file:
            pages[name] = file.read().decode("utf-8", "replace")
    return pages, truth


def row(name: str, result: Result) -> tuple[object, ...]:
    """A line of the table: all pages, every second page, the others, the lowest, how many below .80, and so on."""
    scores = list(result.words.values())
    return (
        *(name, mean(scores), mean(scores[::2]), mean(scores[1::2]), min(scores)),
        *(sum(score < LOW for score in scores), mean(result.runs.values()), f"{result.pages_per_second:.0f}"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True)
    arguments = parser.parse_args()
    logging.getLogger("trafilatura").setLevel(logging.ERROR)
    pages, truth = load(arguments.documents / "articles")
    ours = measure(product, pages, truth)
    rows = [
        row("rag-assets", ours),
        row("trafilatura", measure(extractor, pages, truth)),
        row("trafilatura, no comments", measure(extractor_without_comments, pages, truth)),
    ]
    columns = ("", "F1 words", "even pages", "odd pages", "lowest", f"below {LOW}", "F1 4-grams", "pages/s")
    show(f"Main text of {len(pages)} web pages", columns, rows)
    worst = sorted(ours.words.items(), key=lambda item: item[1])[:8]
    show("Lowest of rag-assets", ("page", "F1 words"), [(name[:16], score) for name, score in worst])
    verdict("mean F1 of words", mean(ours.words.values()), 0.97)
    verdict("lowest F1 of words", min(ours.words.values()), LOW)


if __name__ == "__main__":
    main()
