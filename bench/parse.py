"""Main text of real web pages against what people marked, beside other extractors.

    python -m bench.parse --documents FOLDER

FOLDER/articles and FOLDER/readability hold pages as NAME.html.gz, and `ground-truth.json` with the text that was marked
in each. Every figure is given for both halves of a set, its even and its odd pages: what is chosen is chosen on the
halves of one kind, and counts on the others.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from unittest.mock import patch

import trafilatura
from lxml import etree  # type: ignore[import-untyped]

from bench.common import REPOSITORY, peer, show, verdict
from rag_assets.documents.parsers.html import content
from rag_assets.documents.parsers.html.page import parse_html

SETS = ("articles", "readability")
ROUNDS = 3
LOW = 0.8
NEVER = 2.0  # a share that nothing has
_WORD = re.compile(r"\w+")
_EXTRACTED = content._extracted


@dataclass(frozen=True)
class Result:
    """Per page: F1 of words (how often each occurs), and of runs of 4 words, which also sees their order."""

    words: Mapping[str, float]
    runs: Mapping[str, float]
    pages_per_second: float

    @property
    def halves(self) -> tuple[float, float]:
        """The mean F1 of words of the even pages and of the odd ones."""
        scores = list(self.words.values())
        return mean(scores[::2]), mean(scores[1::2])


@dataclass(frozen=True)
class Pages:
    """The pages of a set and their marked texts, by name."""

    folder: Path
    pages: Mapping[str, str]
    truth: Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """How articles may be read: by which of trafilatura's extractions, and from which share of the text on what
    stands beside it is of it too."""

    precise: bool
    siblings: float

    def __str__(self) -> str:
        beside = "" if self.siblings >= NEVER else f", siblings from {self.siblings:.0%}"
        return f"{'precise' if self.precise else 'balanced'}{beside}"


CHOICES = [Choice(*settings) for settings in product((True, False), (NEVER, 0.5, 0.3, 0.1, 0.05))]


def ours(page: str) -> str:
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


def measure(extract: Callable[[str], str], of: Pages, rounds: int = ROUNDS) -> Result:
    """Run over all pages; the time is the best of the rounds."""
    times = []
    texts: dict[str, str] = {}
    for _ in range(rounds):
        started = time.perf_counter()
        texts = {name: extract(page) for name, page in of.pages.items()}
        times.append(time.perf_counter() - started)
    return judged(texts, of, len(of.pages) / min(times))


def judged(texts: Mapping[str, str], of: Pages, pages_per_second: float) -> Result:
    """Compare texts with the marked ones."""
    return Result(
        {name: f1(texts.get(name, ""), truth) for name, truth in of.truth.items()},
        {name: f1(texts.get(name, ""), truth, 4) for name, truth in of.truth.items()},
        pages_per_second,
    )


def load(folder: Path) -> Pages:
    """Read a set."""
    marked = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    truth = {name: entry["articleBody"] for name, entry in sorted(marked.items())}
    pages = {}
    for name in truth:
        with gzip.open(folder / f"{name}.html.gz") as file:
            pages[name] = file.read().decode("utf-8", "replace")
    return Pages(folder, pages, truth)


def peers(of: Pages) -> Iterator[tuple[str, Result]]:
    """Run what else finds the main text of a page."""
    yield "trafilatura", measure(extractor, of)
    yield "trafilatura, no comments", measure(extractor_without_comments, of)
    if (REPOSITORY / ".venv-bench").exists():
        answer = peer("readability_texts.py", str(of.folder))
        yield "readability-lxml", judged(answer["texts"], of, answer["pages_per_second"])


@contextmanager
def reading(choice: Choice) -> Iterator[None]:
    """Read articles as `choice` says for a while."""

    def extracted(root: etree._Element, precise: bool) -> str:
        return _EXTRACTED(root, precise and choice.precise)

    with patch.object(content, "_extracted", extracted), patch.object(content, "_SIBLINGS", choice.siblings):
        yield


def chosen(sets: Sequence[Pages]) -> None:
    """Choose on the even pages of all sets, and count on the odd ones; then the other way round."""
    halves: dict[Choice, list[tuple[float, float]]] = {}
    for choice in CHOICES:
        with reading(choice):
            halves[choice] = [measure(ours, of, rounds=1).halves for of in sets]
    rows = []
    for half, name in enumerate(("even", "odd")):
        best = max(CHOICES, key=lambda choice: mean(means[half] for means in halves[choice]))
        there = [means[half] for means in halves[best]]
        rows.append((f"{name}: {best}", *there, *(means[1 - half] for means in halves[best])))
    names = [of.folder.name for of in sets]
    show("Chosen on one half of both sets", ("chosen on", *names, *(f"{name}, the other" for name in names)), rows)
    every = [(str(choice), *(score for means in halves[choice] for score in means)) for choice in CHOICES]
    show("All choices", ("", *(f"{name}, {half}" for name in names for half in ("even", "odd"))), every)


def row(name: str, result: Result) -> tuple[object, ...]:
    """A line of the table: all pages, both halves, the lowest, how many are below .80, and so on."""
    scores = list(result.words.values())
    low = sum(score < LOW for score in scores)
    return (
        *(name, mean(scores), *result.halves, min(scores), f"{low} ({low / len(scores):.1%})"),
        *(mean(result.runs.values()), f"{result.pages_per_second:.0f}"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True)
    arguments = parser.parse_args()
    logging.getLogger("trafilatura").setLevel(logging.ERROR)
    sets = [load(arguments.documents / name) for name in SETS]
    for of in sets:
        result = measure(ours, of)
        rows = [row("rag-assets", result), *(row(name, other) for name, other in peers(of))]
        columns = ("", "F1 words", "even pages", "odd pages", "lowest", f"below {LOW}", "F1 4-grams", "pages/s")
        show(f"{of.folder.name}: main text of {len(of.pages)} web pages", columns, rows)
        worst = sorted(result.words.items(), key=lambda item: item[1])[:8]
        show("Lowest of rag-assets", ("page", "F1 words"), [(name[:16], score) for name, score in worst])
        verdict("mean F1 of words", mean(result.words.values()), 0.965)
        verdict("lowest F1 of words", min(result.words.values()), 0.5)
        below = mean(score < LOW for score in result.words.values())
        verdict(f"share of pages below {LOW}", below, 0.03, at_least=False)
    chosen(sets)


if __name__ == "__main__":
    main()
