"""What the parsers make of real files of every kind, beside the Markdown that another converter made of them.

python -m bench.coverage --documents DIR [--kind KIND ...] [--lowest N]

`DIR/docling/KIND/` holds files, and `expected/NAME.md` the reference for some of them. Coverage is the share of the
reference's words that our text has too, as multisets: it finds what was lost, and not what was added. Every file is
parsed in a process of its own with a limit of 30 seconds and 1 GiB, so that a crash counts as one. `pypdf/` and
`articles/` have no reference of this kind and are counted by status.
"""

from __future__ import annotations

import argparse
import gzip
import html
import os
import pickle
import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import show
from rag_assets.documents.model import Record
from rag_assets.documents.registry import parse
from rag_assets.errors import UnsupportedFormat

SECONDS = 30
MEMORY = 2**30  # bytes of address space beyond what the bench itself has mapped

_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ESCAPE = re.compile(r"\\([\\_*#\[\]{}()+.!|`<>~-])")
_COMMENTED = re.compile(r"\[author: ([^\],]*)[^\]]*\]:")  # keeps the author's name
_TARGET = re.compile(r"(?<=\])\([^()\s]*\)")


@dataclass(frozen=True)
class Outcome:
    """One file: its status, what was said about it, and its coverage (0 to 1) where there is a reference."""

    path: Path
    status: str
    error: str
    coverage: float | None
    expected_words: int
    seconds: float
    peak: float  # MiB


def words(text: str) -> Counter[str]:
    """Words in lower case, counted."""
    return Counter(word for word in _WORD.findall(text.lower()))


def reference(path: Path) -> str | None:
    """The reference of a file without Markdown's own marks, or None."""
    for name in (f"{path.name}.md", f"{path.stem}.md"):
        file = path.parent / "expected" / name
        if file.exists():
            plain = _COMMENTED.sub(r"\1", _COMMENT.sub(" ", file.read_text(encoding="utf-8")))
            return html.unescape(_ESCAPE.sub(r"\1", _TARGET.sub(" ", plain)))
    return None


def measure(path: Path) -> Outcome:
    """Parse one file in a child process."""
    reading, writing = os.pipe()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as channel:
            _child(path, channel.write)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as channel:
        answer = channel.read()
    _, state, usage = os.wait4(child, 0)
    seconds, code = time.perf_counter() - began, os.waitstatus_to_exitcode(state)
    status, error, text = pickle.loads(answer) if answer and code == 0 else ("crashed", f"exit {code}", "")
    expected = words(reference(path) or "")
    total = expected.total()
    coverage = (expected & words(text)).total() / total if total and status != "crashed" else None
    return Outcome(path, status, error, coverage, total, seconds, usage.ru_maxrss / 1024)


def _child(path: Path, send: object) -> None:
    signal.alarm(SECONDS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
    data = path.read_bytes()
    name = path.name
    if name.endswith(".gz"):
        data, name = gzip.decompress(data), name.removesuffix(".gz")
    try:
        answer = _summary(parse(data, name))
    except UnsupportedFormat as error:
        answer = ("unsupported", str(error), "")
    assert callable(send)
    send(pickle.dumps(answer))


def _summary(records: Sequence[Record]) -> tuple[str, str, str]:
    """The best status of a file's records, the first error, and all text."""
    statuses = {record.status for record in records}
    status = next(status for status in ("ready", "no_text", "failed") if status in statuses)
    error = next((record.error for record in records if record.error), "") or ""
    texts = (f"{record.document.title}\n{record.document.text}" for record in records if record.document)
    return status, error, "\n".join(texts)


def kinds(documents: Path, wanted: Sequence[str]) -> dict[str, list[Path]]:
    """The files of each kind."""
    folders = [*sorted((documents / "docling").iterdir()), documents / "pypdf", documents / "articles"]
    found = {}
    for folder in folders:
        if folder.is_dir() and (not wanted or folder.name in wanted):
            files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "README.md")
            found[folder.name] = [path for path in files if path.name not in ("ground-truth.json", "LICENSE")]
    return found


def row(kind: str, outcomes: Iterable[Outcome]) -> list[object]:
    """A line of the table; coverage is over all words of the kind."""
    outcomes = list(outcomes)
    statuses = Counter(outcome.status for outcome in outcomes)
    judged = [outcome for outcome in outcomes if outcome.coverage is not None]
    total = sum(outcome.expected_words for outcome in judged)
    found = sum((outcome.coverage or 0.0) * outcome.expected_words for outcome in judged)
    return [
        kind,
        len(outcomes),
        *(statuses[status] for status in ("ready", "no_text", "failed", "unsupported", "crashed")),
        len(judged),
        found / total if total else "-",
        min((outcome.coverage for outcome in judged if outcome.coverage is not None), default="-"),
        sum(outcome.seconds for outcome in outcomes),
        max((outcome.seconds for outcome in outcomes), default=0.0),
        max((round(outcome.peak) for outcome in outcomes), default=0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True, help="the folder with docling/, pypdf/, articles/")
    parser.add_argument("--kind", nargs="*", default=[], help="only these folders")
    parser.add_argument("--lowest", type=int, default=10, help="how many files of low coverage to list")
    options = parser.parse_args()
    # Once in the parent, so that no child's time contains the import of a parser library.
    for sample in (b"<p>Warm</p>", b"%PDF-1.4", b"PK\x03\x04"):
        parse(sample, "warm.html")
    outcomes = {
        kind: [measure(path) for path in files] for kind, files in kinds(options.documents, options.kind).items()
    }
    columns = "kind,files,ready,no_text,failed,unsup.,crash,judged,words,lowest,s,max s,MiB"
    show(
        "Statuses; share of the reference's words that was found; seconds and peak memory of a process",
        columns.split(","),
        [row(kind, found) for kind, found in outcomes.items()],
    )
    every = [outcome for found in outcomes.values() for outcome in found]
    judged = sorted((o for o in every if o.coverage is not None), key=lambda o: o.coverage or 0.0)
    for outcome in judged[: options.lowest]:
        place = f"{outcome.path.parent.name}/{outcome.path.name}"
        print(f"{outcome.coverage:.3f} of {outcome.expected_words:6,} words  {place}")
    for outcome in every:
        if outcome.status != "ready":
            print(f"{outcome.status:11} {outcome.path.parent.name}/{outcome.path.name}: {outcome.error[:160]}")


if __name__ == "__main__":
    main()
