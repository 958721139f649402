"""What readers make of the same files: words found, words that are too many, and the order they stand in.

Words are counted as multisets. Order is the F1 of runs of four words, as in ROUGE-N (Lin, "ROUGE: a package for
automatic evaluation of summaries", 2004): two texts with the same words in another order share few runs. `pdftotext` is
that of poppler (`apt-get install poppler-utils`), by itself and with `-layout`, which keeps lines as they stand on the
page; its time is that of a process for each file.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import REPOSITORY, peer, show
from rag_assets.documents.model import Record
from rag_assets.documents.registry import parse
from rag_assets.errors import UnsupportedFormat

OFFICE = (".docx", ".pptx", ".xlsx", ".xlsm", ".odt", ".odp", ".ods")
RUN = 4  # words
ROUNDS = 3  # of which the fastest counts, here as in bench/peers/markitdown_texts.py

_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ESCAPE = re.compile(r"\\([\\_*#\[\]{}()+.!|`<>~-])")
_COMMENTED = re.compile(r"\[author: ([^\],]*)[^\]]*\]:")  # keeps the author's name
_TARGET = re.compile(r"(?<=\])\([^()\s]*\)")


_DIVIDED = re.compile(r"(\w)-\n(?=\w)")
Words = tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """What a reader made of a file: its words in their order, the CPU seconds that took, and why it was not read."""

    path: Path
    words: Words
    seconds: float
    error: str = ""


def words(text: str) -> Words:
    """Words in lower case, in their order."""
    return tuple(_WORD.findall(text.lower()))


def runs(found: Words, length: int) -> Counter[Words]:
    """All runs of so many words, counted."""
    return Counter(tuple(found[start : start + length]) for start in range(len(found) - length + 1))


def plain(markdown: str) -> str:
    """Markdown without its own marks: no comments, link targets, escapes and entities."""
    text = _COMMENTED.sub(r"\1", _COMMENT.sub(" ", markdown))
    return html.unescape(_ESCAPE.sub(r"\1", _TARGET.sub(" ", text)))


def reference(path: Path) -> str | None:
    """The reference of a file without Markdown's own marks, or None."""
    for name in (f"{path.name}.md", f"{path.stem}.md"):
        file = path.parent / "expected" / name
        if file.exists():
            return plain(file.read_text(encoding="utf-8"))
    return None


def summary(records: Sequence[Record]) -> tuple[str, str, str]:
    """The best status of a file's records, the first error, and all text."""
    statuses = {record.status for record in records}
    status = next(status for status in ("ready", "no_text", "failed") if status in statuses)
    error = next((record.error for record in records if record.error), "") or ""
    texts = (f"{record.document.title}\n{record.document.text}" for record in records if record.document)
    return status, error, "\n".join(texts)


def product(path: Path) -> Reading:
    """What we read of a file."""
    answer, times = ("", "", ""), []
    for _ in range(ROUNDS):
        started = time.process_time()
        try:
            answer = summary(parse(path.read_bytes(), path.name))
        except UnsupportedFormat as failure:
            answer = ("unsupported", str(failure), "")
        times.append(time.process_time() - started)
    status, error, text = answer
    return Reading(path, words(plain(text)), min(times), "" if status == "ready" else error or status)


def products(files: Sequence[Path]) -> list[Reading]:
    return [product(path) for path in files]


def markitdown(files: Sequence[Path]) -> list[Reading]:
    """What markitdown reads of the files, in one process of the peers' environment."""
    answers = peer("markitdown_texts.py", *map(str, files))
    return [
        Reading(path, words(plain(answer["text"])), answer["seconds"], answer["error"])
        for path, answer in ((path, answers[str(path)]) for path in files)
    ]


def pdftotext(*options: str) -> Callable[[Sequence[Path]], list[Reading]]:
    """A reader of PDFs; words divided at the end of a line are put together, as it leaves them."""

    def read(path: Path) -> Reading:
        before = _children()
        done = subprocess.run(["pdftotext", *options, str(path), "-"], capture_output=True, check=False)
        text = _DIVIDED.sub(r"\1", done.stdout.decode("utf-8", "replace"))
        return Reading(path, words(text), _children() - before, done.stderr.decode("utf-8", "replace").strip())

    return lambda files: [read(path) for path in files]


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def readers(is_pdf: bool) -> Iterator[tuple[str, Callable[[Sequence[Path]], list[Reading]]]]:
    """The readers that are here, by name."""
    yield "rag-assets", products
    if (REPOSITORY / ".venv-bench").exists():
        yield "markitdown", markitdown
    if is_pdf and shutil.which("pdftotext"):
        yield "pdftotext", pdftotext()
        yield "pdftotext -layout", pdftotext("-layout")


def shares(readings: Sequence[Reading], length: int = 1) -> tuple[float, float, float]:
    """Recall, precision and F1 of runs of words over all files; one that was not read has lost all of its words."""
    wanted = [runs(words(reference(reading.path) or ""), length) for reading in readings]
    found = [runs(reading.words, length) for reading in readings]
    both = sum((one & other).total() for one, other in zip(wanted, found, strict=True))
    total, given = sum(one.total() for one in wanted), sum(one.total() for one in found)
    return both / (total or 1), both / (given or 1), 2 * both / (total + given or 1)


def comparison_row(name: str, readings: Sequence[Reading]) -> list[object]:
    """A line of the comparison, over all words of a kind."""
    halves = [f"{shares(readings[half::2], RUN)[2]:.3f}" for half in (0, 1)]
    return [
        *(name, len(readings), sum(not reading.words for reading in readings)),
        *(*shares(readings), shares(readings, RUN)[2], " ".join(halves)),
        f"{1000 * sum(reading.seconds for reading in readings) / len(readings):.1f}",
    ]


def compare(files_by_kind: dict[str, list[Path]]) -> None:
    """Print a table of all readers for the office files and PDFs that have a reference."""
    judged = {
        kind: [path for path in files if path.suffix.lower() in OFFICE and reference(path)]
        for kind, files in files_by_kind.items()
    }
    every = [path for files in files_by_kind.values() for path in files if path.suffix.lower() == ".pdf"]
    judged["pdf"] = [path for path in every if reference(path)]
    rows: list[list[object]] = []
    for kind, files in judged.items():
        for name, read in readers(kind == "pdf") if files else ():
            rows.append(comparison_row(f"{kind} {name}", read(files)))
    columns = "kind,files,not read,coverage,precision,F1,order,even odd,CPU ms"
    show("Words, and runs of four words, against docling's Markdown", columns.split(","), rows)
    compare_unjudged([path for path in every if not reference(path)])


def compare_unjudged(files: Sequence[Path]) -> None:
    """Print how much of what pdftotext reads of other PDFs is read, and where the most is missing."""
    if not files or not shutil.which("pdftotext"):
        return
    pairs = list(zip(products(files), pdftotext()(files), strict=True))
    alone = [ours.path.name for ours, theirs in pairs if theirs.words and not ours.words]
    both = sum((Counter(ours.words) & Counter(theirs.words)).total() for ours, theirs in pairs)
    ours_all, theirs_all = (sum(len(pair[side].words) for pair in pairs) for side in (0, 1))
    print(
        f"{len(files)} PDFs without a reference: {both:,} words in both, {ours_all:,} here, {theirs_all:,} by pdftotext"
    )
    print(f"read by pdftotext alone: {', '.join(alone) or 'none'}")
    for ours, theirs in pairs:
        missing = Counter(theirs.words) - Counter(ours.words)
        if missing and ours.words:
            few = " ".join(list(missing)[:8])
            print(f"  {missing.total():4} of {len(theirs.words):5,} not here: {ours.path.name}: {few}")
