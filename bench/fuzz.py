"""Damaged files of every kind, given to the parsers: each must be read or refused, and none may do harm.

python -m bench.fuzz [--inputs 20000] [--documents FOLDER] [--seed 0] [--keep FOLDER]

Every input goes to a parser process, also those that the product parses in its own. The table counts outcomes by
format; "exception" are refused inputs whose error is that of a library, not of the parser. A crash of that process,
more than 30 s or 1 GiB, an exception that leaves `parse_file`, and a record that breaks a promise of the document
model are failures: with --keep the inputs that caused them are written to a folder.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.common import show
from bench.mutations import mutated
from bench.seeds import SEEDS
from rag_assets.documents import isolated
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.registry import choose
from rag_assets.errors import SourceError

MAX_SEED_BYTES = 150_000
_PLAUSIBLE, _PLAUSIBLE_RATIO = 200_000, 100  # characters of a file, and for each of its bytes
_PROGRESS = 1000  # inputs between two lines that tell how far it is
_OUTCOMES = ("ready", "no_text", "failed")
_UNEXPECTED = "exception"  # refused, but by an exception that the parser did not foresee
_HARM = ("crash", "hang", "memory", "broken")


@dataclass
class Tally:
    """What became of the inputs, by format and outcome."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)  # seconds, by format
    harm: list[tuple[str, str]] = field(default_factory=list)  # format, and what happened


def load_seeds(folder: Path | None) -> dict[str, bytes]:
    """The literal seeds, and the small files of a folder."""
    seeds = dict(SEEDS)
    files = sorted(folder.rglob("*")) if folder else []
    for path in files:
        if path.is_file() and "expected" not in path.parts and path.stat().st_size <= MAX_SEED_BYTES:
            seeds[str(path)] = path.read_bytes()
    return seeds


def format_of(data: bytes, name: str) -> str:
    """The format by which an input is counted; that of a seed is its own, whatever the damage has made of it."""
    try:
        return choose(data, name).name
    except SourceError:
        return "unsupported"


def outcome(records: list[Record], size: int) -> tuple[str, str]:
    """The outcome of one input of `size` bytes, and the message where it is harm."""
    for record in records:
        error = record.error or ""
        if "the parser process" in error:
            return "crash", error
        if "reading it took more than" in error:
            return "hang", error
        if "more memory than" in error:  # an error may quote the file, which may speak of memory itself
            return "memory", error
        reason = broken_promise(record)
        if reason:
            return "broken", reason
    characters = sum(len(record.document.text) for record in records if record.document)
    if characters > max(_PLAUSIBLE, _PLAUSIBLE_RATIO * size):
        return "broken", f"{characters:,} characters come out of {size:,} bytes"
    if any("parser failed:" in (record.error or "") for record in records):
        return _UNEXPECTED, ""
    statuses = {record.status for record in records}
    return next(status for status in _OUTCOMES if status in statuses), ""


def broken_promise(record: Record) -> str | None:
    """What a record does not keep of the promises of the document model, if any."""
    document = record.document
    if (record.status == "ready") != (document is not None):
        return f"status {record.status} with document {document is not None}"
    if document is None:
        return None if record.error else "no reason given"
    if not document.text.strip():
        return "ready without text"
    if normalize(document.text) != document.text or normalize(document.title) != document.title:
        return "text or title is not normalised"
    if any(not 0 <= block.start < block.end <= len(document.text) for block in document.blocks):
        return "a block lies outside of the text"
    if any(before.start > after.start for before, after in pairwise(document.blocks)):
        return "blocks are not in the order of the text"
    return None


def run(seeds: dict[str, bytes], inputs: int, seed: int, keep: Path | None) -> Tally:
    """Parse damaged versions of the seeds, equally many of each format."""
    randomness = random.Random(seed)
    by_format: dict[str, list[str]] = {}
    for name, data in seeds.items():
        by_format.setdefault(format_of(data, name), []).append(name)
    by_format.pop("unsupported", None)
    parts = [data[:20_000] for data in seeds.values()]
    tally, began = Tally(), time.monotonic()
    for number in range(inputs):
        if number and number % _PROGRESS == 0:
            left = (time.monotonic() - began) * (inputs - number) / number
            print(
                f"{number} of {inputs}, {len(tally.harm)} harmful, about {left:.0f} s left", file=sys.stderr, flush=True
            )
        kind = list(by_format)[number % len(by_format)]
        name = randomness.choice(by_format[kind])
        data = mutated(seeds[name], randomness, parts)
        started = time.monotonic()
        try:
            result, message = outcome(parse_file(data, name), len(data))
        # The very thing that is looked for.
        except Exception as error:
            result, message = "crash", f"{type(error).__name__}: {error}"
        tally.slowest[kind] = max(tally.slowest.get(kind, 0.0), time.monotonic() - started)
        tally.counts[kind, result] += 1
        if message:
            tally.harm.append((kind, f"input {number} from {name}: {message}"))
            if keep:
                (keep / f"{number}-{Path(name).name}").write_bytes(data)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    seeds = load_seeds(arguments.documents)
    started = time.monotonic()
    tally = run(seeds, arguments.inputs, arguments.seed, arguments.keep)
    seconds = time.monotonic() - started
    columns = (*_OUTCOMES, _UNEXPECTED, *_HARM)
    isolated.close_workers()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rows = [
        [kind, *(tally.counts[kind, result] for result in columns), slowest]
        for kind, slowest in sorted(tally.slowest.items())
    ]
    totals = [sum(count for (_, result), count in tally.counts.items() if result == column) for column in columns]
    rows.append(["all", *totals, max(tally.slowest.values())])
    show(f"{arguments.inputs} damaged inputs from {len(seeds)} files", ["format", *columns, "slowest s"], rows)
    print(f"{seconds:.0f} s, {arguments.inputs / seconds:.0f} inputs/s, at most {peak:.0f} MiB in a parser process")
    for kind, message in tally.harm:
        print(f"HARM {kind}: {message}")
    raise SystemExit(bool(tally.harm))


if __name__ == "__main__":
    main()
