"""What the parsers make of real files of every kind, beside the Markdown that another converter made of them.

python -m bench.coverage --documents DIR [--kind KIND ...] [--lowest N]

`DIR/docling/KIND/` holds files, and `expected/NAME.md` the reference for some of them. Coverage is the share of the
reference's words that our text has too, as multisets: it finds what was lost, and not what was added. Every file is
parsed in a process of its own with a limit of 30 seconds and 1 GiB, so that a crash counts as one. The other folders of
DIR have no reference of this kind and are counted by status.

Office files and PDFs are read by others too, where they are installed: the same files, the same words, with precision
beside coverage, so that nobody wins by keeping everything, and with the order of words (bench/coverage_readers.py).
"""

from __future__ import annotations

import argparse
import gzip
import os
import pickle
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import show
from bench.coverage_readers import compare, reference, summary, words
from rag_assets.documents.registry import parse
from rag_assets.errors import UnsupportedFormat

SECONDS = 30
MEMORY = 2**30  # bytes of address space beyond what the bench itself has mapped


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
    expected = Counter(words(reference(path) or ""))
    total = expected.total()
    coverage = (expected & Counter(words(text))).total() / total if total and status != "crashed" else None
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
        answer = summary(parse(data, name))
    except UnsupportedFormat as error:
        answer = ("unsupported", str(error), "")
    assert callable(send)
    send(pickle.dumps(answer))


def kinds(documents: Path, wanted: Sequence[str]) -> dict[str, list[Path]]:
    """The files of each kind."""
    others = [folder for folder in sorted(documents.iterdir()) if folder.is_dir() and folder.name != "docling"]
    folders = [*sorted((documents / "docling").iterdir()), *others]
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
    files_by_kind = kinds(options.documents, options.kind)
    outcomes = {kind: [measure(path) for path in files] for kind, files in files_by_kind.items()}
    every = [outcome for found in outcomes.values() for outcome in found]
    columns = "kind,files,ready,no_text,failed,unsup.,crash,judged,words,lowest,s,max s,MiB"
    show(
        "Statuses; share of the reference's words that was found; seconds and peak memory of a process",
        columns.split(","),
        [*(row(kind, found) for kind, found in outcomes.items()), row("all", every)],
    )
    judged = sorted((o for o in every if o.coverage is not None), key=lambda o: o.coverage or 0.0)
    for outcome in judged[: options.lowest]:
        place = f"{outcome.path.parent.name}/{outcome.path.name}"
        print(f"{outcome.coverage:.3f} of {outcome.expected_words:6,} words  {place}")
    for outcome in every:
        if outcome.status != "ready":
            print(f"{outcome.status:11} {outcome.path.parent.name}/{outcome.path.name}: {outcome.error[:160]}")
    compare(files_by_kind)


if __name__ == "__main__":
    main()
