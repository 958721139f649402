"""Texts that are small for a person and endless for a chunker."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from rag_assets.chunking import STRATEGIES

FAST = tuple(name for name in STRATEGIES if name != "token")  # tokenising 100 MB takes minutes, whoever does it
WORDS = ("the", "of", "retrieval", "a", "document", "passage", "index", "and", "vector", "tenant", "in", "query", "is")


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    kind: str
    strategies: tuple[str, ...] = STRATEGIES


def pathological(megabytes: int) -> Iterator[Case]:
    """Yield the cases, the longest last; every random one is the same in every run."""
    plain, markdown, python = "text/plain", "text/markdown", "text/x-python"
    yield Case("600,000 line feeds", "a" + "\n" * 600_000 + "b", plain)
    yield Case("one line of 5 MB", "no end " * 714_285, plain)
    yield Case("one word of 5 MB", "x" * 5_000_000, plain, FAST)
    yield Case("600,000 paragraphs of one word", "word\n\n" * 600_000, markdown, FAST)
    yield Case("200,000 headings", "".join(f"{'#' * (i % 6 + 1)} h\n\nt\n\n" for i in range(200_000)), markdown, FAST)
    yield Case("a list of 300,000 items", "- item\n" * 300_000, markdown, FAST)
    yield Case("a table of 300,000 rows", "|a|b|\n|-|-|\n" + "|1|2|\n" * 300_000, markdown, FAST)
    yield Case("100,000 comments that never end", "<!-- open\n\n" * 100_000, markdown, FAST)
    yield Case("one character of 600,000 marks", "e" + "\u0301" * 600_000, plain, FAST)
    yield Case("300,000 flags", "🇩🇪" * 300_000, plain, FAST)
    yield Case("2 MB of full stops", "." * 2_000_000, plain, FAST)
    yield Case("100,000 functions", "def f(x):\n    return x\n\n\n" * 100_000, python, FAST)
    yield Case("parentheses that never close", "x = " + "(" * 1_000_000, python, FAST)
    yield Case(f"{megabytes} MB of prose", prose(megabytes * 1_000_000), plain, FAST)


def prose(length: int) -> str:
    """Return sentences and paragraphs of `length` characters."""
    draw = random.Random(1)
    page = []
    for _ in range(5_000):
        sentence = " ".join(draw.choices(WORDS, k=draw.randint(5, 30))).capitalize()
        page.append(sentence + draw.choice([". ", ". ", ". ", "? ", ".\n\n"]))
    once = "".join(page)
    return (once * (length // len(once) + 1))[:length]
