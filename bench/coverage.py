"""What the parsers make of real files of every kind, beside the Markdown that another converter made of them.

python -m bench.coverage --documents DIR [--kind KIND ...] [--lowest N]

`DIR/docling/KIND/` holds files, and `expected/NAME.md` the reference for some of them. Coverage is the share of the
reference's words that our text has too, as multisets: it finds what was lost, and not what was added. Every file is
parsed in a process of its own with a limit of 30 seconds and 1 GiB, so that a crash counts as one. `pypdf/` and
`articles/` have no reference of this kind and are counted by status.

Office files are read by markitdown too, where the peers are installed: the same files, the same words, with precision
beside coverage, so that nobody wins by keeping everything.
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

from bench.common import REPOSITORY, peer, show
from rag_assets.documents.model import Record
from rag_assets.documents.registry import parse
from rag_assets.errors import UnsupportedFormat

SECONDS = 30
MEMORY = 2**30  # bytes of address space beyond what the bench itself has mapped
OFFICE = (".docx", ".pptx", ".xlsx", ".xlsm", ".odt", ".odp", ".ods")

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


@dataclass(frozen=True)
class Reading:
    """What a reader made of a file: its words, the CPU seconds that took, and why it was not read."""

    path: Path
    found: Counter[str]
    seconds: float
    error: str


def words(text: str) -> Counter[str]:
    """Words in lower case, counted."""
    return Counter(word for word in _WORD.findall(text.lower()))


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


def product(path: Path) -> Reading:
    """What we read of a file; the best of three rounds, here as in bench/peers/markitdown_texts.py."""
    answer, times = ("", "", ""), []
    for _ in range(3):
        started = time.process_time()
        try:
            answer = _summary(parse(path.read_bytes(), path.name))
        except UnsupportedFormat as failure:
            answer = ("unsupported", str(failure), "")
        times.append(time.process_time() - started)
    status, error, text = answer
    return Reading(path, words(plain(text)), min(times), "" if status == "ready" else error or status)


def markitdown(files: Sequence[Path]) -> list[Reading]:
    """What markitdown reads of the files, in one process of the peers' environment."""
    answers = peer("markitdown_texts.py", *map(str, files))
    return [
        Reading(path, words(plain(answer["text"])), answer["seconds"], answer["error"])
        for path, answer in ((path, answers[str(path)]) for path in files)
    ]


def shared(reading: Reading) -> int:
    """How many of the reference's words were found."""
    return (words(reference(reading.path) or "") & reading.found).total()


def comparison_row(name: str, readings: Sequence[Reading]) -> list[object]:
    """A line of the comparison, over all words of a kind; a file that was not read has lost all of its words."""
    wanted = sum(words(reference(reading.path) or "").total() for reading in readings)
    found = sum(reading.found.total() for reading in readings)
    both = sum(map(shared, readings))
    return [
        *(name, len(readings), sum(bool(reading.error) for reading in readings)),
        *(both / wanted, both / found if found else "-", 2 * both / (found + wanted)),
        f"{1000 * sum(reading.seconds for reading in readings) / len(readings):.1f}",
    ]


def show_beside_markitdown(files_by_kind: dict[str, list[Path]]) -> None:
    """Compare both readers on the office files that have a reference, and name those of which markitdown finds more."""
    rows, behind = [], []
    for kind, files in files_by_kind.items():
        office = [path for path in files if path.suffix.lower() in OFFICE and reference(path)]
        if office:
            ours, theirs = [product(path) for path in office], markitdown(office)
            rows += [comparison_row(f"{kind} rag-assets", ours), comparison_row(f"{kind} markitdown", theirs)]
            pairs = [(shared(our), shared(their), our.path) for our, their in zip(ours, theirs, strict=True)]
            behind += [f"{kind}/{path.name} {our} and {their}" for our, their, path in pairs if our < their]
    if rows:
        columns = "kind,files,not read,coverage,precision,F1,CPU ms"
        show("Words of office files against docling's Markdown, beside markitdown", columns.split(","), rows)
        print(f"markitdown finds more words of {len(behind)} files: {'; '.join(behind)}")


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
    if (REPOSITORY / ".venv-bench").exists():
        show_beside_markitdown(files_by_kind)
    else:
        print("not compared with markitdown: the peers are not installed (make bench-install)")


if __name__ == "__main__":
    main()
