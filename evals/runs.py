"""What a retriever returned for every query of a labelled set, by document, and how long it took."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import RagError
from rag_assets.printing import counted

_LATENCY_SUFFIX = "_ms"


class RunError(RagError):
    """A run that must not be measured: scores that are not finite numbers, or a file that is not a run.

    `invalid_scores` counts the scores that are not finite, by query.
    """

    def __init__(self, message: str, invalid_scores: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.invalid_scores: Mapping[str, int] = invalid_scores or {}


@dataclass(frozen=True)
class Ranking:
    """Documents of one query, best first; `scores[i]` belongs to `documents[i]` and decides nothing."""

    documents: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return zip(self.documents, self.scores, strict=True)

    def __len__(self) -> int:
        return len(self.documents)


@dataclass(frozen=True)
class RetrievalRun:
    """Rankings by query id, and milliseconds by stage and query id. Build it with `from_chunks`."""

    rankings: Mapping[str, Ranking]
    latencies_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def from_chunks(
        cls,
        chunks: Mapping[str, Iterable[tuple[object, float]]] | Iterable[tuple[object, Iterable[tuple[object, float]]]],
        latencies_ms: Mapping[str, Mapping[str, float]] | None = None,
    ) -> RetrievalRun:
        """Make a run of the chunks of each query as they were retrieved, best first, each (document id, score).

        The order is the ranking, whatever the scores are: a document counts once, with rank and score of its
        first chunk.

        Raises:
            RunError: a score is NaN or infinite; it names the queries.
        """
        items = chunks.items() if isinstance(chunks, Mapping) else chunks
        rankings: dict[str, Ranking] = {}
        invalid: dict[str, int] = {}
        for query, scored in items:
            first, bad = _first_chunks(scored)
            if bad:
                invalid[str(query)] = bad
            # The same documents come back for many queries: interned, each id is held once for the whole run.
            rankings[str(query)] = Ranking(tuple(map(sys.intern, first)), tuple(first.values()))
        if invalid:
            raise RunError(_invalid_message(invalid), invalid)
        return cls(rankings, latencies_ms or {})

    @cached_property
    def is_empty(self) -> bool:
        """No query got a single document."""
        return not any(self.rankings.values())

    @cached_property
    def run_hash(self) -> str:
        """SHA-256 of queries, ranked documents and scores; latencies and the order of the queries do not matter."""
        digest = hashlib.sha256()
        for query in sorted(self.rankings):
            digest.update(f"\x1e{query}".encode())
            for document, score in self.rankings[query]:
                digest.update(f"\x1f{document}\x1f{score!r}".encode())
        return digest.hexdigest()

    def top(self, query: str, k: int) -> tuple[str, ...]:
        """The first k documents of a query; none where the run does not have it."""
        return self.rankings.get(query, Ranking()).documents[:k]

    def percentile_ms(self, stage: str, share: float) -> float | None:
        """Milliseconds that `share` of the queries do not exceed (nearest rank); None where not measured."""
        values = list(self.latencies_ms.get(stage, {}).values())
        return float(np.quantile(values, share, method="inverted_cdf")) if values else None


def _first_chunks(scored: Iterable[tuple[object, float]]) -> tuple[dict[str, float], int]:
    """Score of each document's first chunk, in the order given, and how many scores are not finite."""
    first: dict[str, float] = {}
    bad = 0
    for document, score in scored:
        value = float(score)
        if math.isfinite(value):
            first.setdefault(str(document), value)
        else:
            bad += 1
    return first, bad


def _invalid_message(invalid: Mapping[str, int]) -> str:
    names = ", ".join(list(invalid)[:5]) + (", …" if len(invalid) > 5 else "")
    scores = counted(sum(invalid.values()), "score is not a finite number", "scores are not finite numbers")
    return f"{scores}, in {counted(len(invalid), 'query')} ({names}): nothing ranked by them can be measured"


def write_trec(run: RetrievalRun, path: Path, tag: str = "run") -> None:
    """Write `query Q0 document rank score tag` lines, separated by tabs because document paths may hold spaces.

    The ranks hold the order, and `read_trec` goes by them; trec_eval goes by the scores and breaks ties its own way.
    A query without documents has no line in this format.

    Raises:
        RunError: an id holds a tab or line break.
    """
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        for query, ranking in run.rankings.items():
            for rank, (document, score) in enumerate(ranking, start=1):
                fields = (query, "Q0", document, str(rank), repr(score), tag)
                if any(mark in text for text in fields for mark in "\t\r\n"):
                    raise RunError(f"query {query!r}, document {document!r}: a TREC file cannot hold this id")
                handle.write("\t".join(fields) + "\n")


@dataclass(frozen=True)
class _TrecLine:
    query: str
    document: str
    rank: str
    score: float


def read_trec(path: Path) -> RetrievalRun:
    """Read a TREC run, separated by tabs or spaces.

    A file as `write_trec` writes it comes back in the order that it was written in: it has tabs, and the ranks of
    each query count 1, 2, 3, … from line to line. In files of others the score decides, as TREC has it, and neither
    the rank nor the order of the lines does; equal scores are ordered by document id.

    Raises:
        RunError: a line without six fields or with a score that is not finite.
    """
    lines: dict[str, list[_TrecLine]] = {}
    own = True
    with path.open(encoding="utf-8") as handle:
        for number, text in enumerate(handle, start=1):
            if not text.strip():
                continue
            line = _trec_line(text, f"{path}:{number}")
            ranked = lines.setdefault(line.query, [])
            ranked.append(line)
            own = own and "\t" in text and line.rank == str(len(ranked))
    if not own:
        for ranked in lines.values():
            ranked.sort(key=lambda line: (-line.score, line.document))
    return RetrievalRun.from_chunks((q, ((one.document, one.score) for one in ranked)) for q, ranked in lines.items())


def _trec_line(text: str, where: str) -> _TrecLine:
    fields = text.rstrip("\n").split("\t") if "\t" in text else text.split()
    try:
        query, _, document, rank, score, _ = fields
        return _TrecLine(query, document, rank, float(score))
    except ValueError as error:
        raise RunError(f"{where}: not a line of a TREC run: {text.strip()!r}") from error


def write_parquet(run: RetrievalRun, path: Path) -> None:
    """Write one row a query: its documents, best first, and scores as lists, and a column `<stage>_ms` per stage."""
    queries = list(run.rankings)
    columns: dict[str, pa.Array] = {
        "query_id": pa.array(queries, pa.string()),
        "documents": pa.array((run.rankings[q].documents for q in queries), pa.list_(pa.string())),
        "scores": pa.array((run.rankings[q].scores for q in queries), pa.list_(pa.float64())),
    }
    for stage, values in run.latencies_ms.items():
        columns[stage + _LATENCY_SUFFIX] = pa.array((values.get(q) for q in queries), pa.float64())
    pq.write_table(pa.table(columns), path, compression="zstd")


def read_parquet(path: Path) -> RetrievalRun:
    """Read what `write_parquet` wrote; the lists hold the order.

    Raises:
        RunError: other columns than those of a run, or a score that is not finite.
    """
    try:
        table = pq.read_table(path)
        queries = table.column("query_id").to_pylist()
        documents, scores = (table.column(name).to_pylist() for name in ("documents", "scores"))
    except (pa.ArrowInvalid, KeyError) as error:
        raise RunError(f"{path}: not a run in Parquet ({error})") from error
    latencies = {
        name.removesuffix(_LATENCY_SUFFIX): {
            query: value
            for query, value in zip(queries, table.column(name).to_pylist(), strict=True)
            if value is not None
        }
        for name in table.column_names
        if name.endswith(_LATENCY_SUFFIX)
    }
    pairs = ((q, zip(d, s, strict=True)) for q, d, s in zip(queries, documents, scores, strict=True))
    return RetrievalRun.from_chunks(pairs, latencies)
