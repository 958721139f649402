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
    """Documents of one query, best first; `scores[i]` belongs to `documents[i]`."""

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
        """Make a run of scored chunks, each given as (document id, score), in any order.

        A document counts once, with the score of its best chunk; equal scores are ordered by document id.

        Raises:
            RunError: a score is NaN or infinite; it names the queries.
        """
        items = chunks.items() if isinstance(chunks, Mapping) else chunks
        rankings: dict[str, Ranking] = {}
        invalid: dict[str, int] = {}
        for query, scored in items:
            best, bad = _best_chunks(scored)
            if bad:
                invalid[str(query)] = bad
            rankings[str(query)] = _ranked(best)
        if invalid:
            raise RunError(_invalid_message(invalid), invalid)
        return cls(rankings, latencies_ms or {})

    @cached_property
    def is_empty(self) -> bool:
        """No query got a single document."""
        return not any(self.rankings.values())

    @cached_property
    def run_hash(self) -> str:
        """SHA-256 of queries, documents and scores; latencies and the order of the queries do not matter."""
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


def _best_chunks(scored: Iterable[tuple[object, float]]) -> tuple[dict[str, float], int]:
    best: dict[str, float] = {}
    bad = 0
    for document, score in scored:
        value = float(score)
        if not math.isfinite(value):
            bad += 1
            continue
        key = str(document)
        if value > best.get(key, -math.inf):
            best[key] = value
    return best, bad


def _ranked(best: Mapping[str, float]) -> Ranking:
    ordered = sorted(best, key=lambda document: (-best[document], document))
    # The same documents come back for many queries: interned, each id is held once for the whole run.
    return Ranking(tuple(map(sys.intern, ordered)), tuple(best[document] for document in ordered))


def _invalid_message(invalid: Mapping[str, int]) -> str:
    names = ", ".join(list(invalid)[:5]) + (", …" if len(invalid) > 5 else "")
    return (
        f"{sum(invalid.values())} scores are not finite numbers, in {len(invalid)} queries ({names}): "
        "nothing ranked by them can be measured"
    )


def write_trec(run: RetrievalRun, path: Path, tag: str = "run") -> None:
    """Write `query Q0 document rank score tag` lines, separated by tabs because document paths may hold spaces.

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


def read_trec(path: Path) -> RetrievalRun:
    """Read a TREC run, separated by tabs or spaces; scores decide, not the order of the lines.

    Raises:
        RunError: a line without six fields or with a score that is not finite.
    """
    scored: dict[str, list[tuple[object, float]]] = {}
    with path.open(encoding="utf-8") as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            fields = line.rstrip("\n").split("\t") if "\t" in line else line.split()
            try:
                query, _, document, _, score, _ = fields
                scored.setdefault(query, []).append((document, float(score)))
            except ValueError as error:
                raise RunError(f"{path}:{number}: not a line of a TREC run: {line.strip()!r}") from error
    return RetrievalRun.from_chunks(scored)


def write_parquet(run: RetrievalRun, path: Path) -> None:
    """Write one row a query: its documents and scores as lists, and a column `<stage>_ms` for every stage."""
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
    """Read what `write_parquet` wrote.

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
