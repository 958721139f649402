"""Labelled sets, measured runs and verdicts, as they are kept for each bot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from evals.datasets import EvalSet, Query
from rag_assets.documents.normalize import clean_json, normalize
from rag_assets.errors import UsageError
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.sql import query
from rag_assets.store.tenants import Space, list_tenants


@dataclass(frozen=True)
class StoredSet:
    """A labelled set with its row."""

    id: int
    evalset: EvalSet


@dataclass(frozen=True)
class Coverage:
    """Sources that the baseline serves, and the names of those that the candidate lacks in that version."""

    sources: int
    missing: tuple[str, ...]


def save_eval_set(connection: Connection, space: Space, evalset: EvalSet, *, imported: bool = True) -> StoredSet:
    """Keep a labelled set, once for each content; `imported` makes it the one that the bot is measured by.

    Returns it as it will be read again: ids and texts are normalised like those of documents.
    """
    clean = _cleaned(evalset)
    row = connection.execute(
        query("add_eval_set"),
        {
            "space": space.id,
            "tenant": space.tenant,
            "bot": space.bot,
            "content_hash": clean.content_hash,
            "queries": Jsonb([vars(one) for one in clean.queries]),
            "qrels": Jsonb({name: dict(grades) for name, grades in clean.qrels.items()}),
            "imported": imported,
        },
    ).fetchone()
    assert row is not None
    return StoredSet(row[0], clean)


def latest_eval_set(connection: Connection, space: Space) -> StoredSet:
    """The labelled set that was imported last.

    Raises:
        UsageError: the bot has none; says how to import one.
    """
    row = connection.execute(query("latest_eval_set"), {"space": space.id}).fetchone()
    if row is None:
        raise UsageError(
            f"bot {space.bot!r} of tenant {space.tenant!r} has no labelled queries yet. Import some with: "
            f"rag eval import DIR --tenant {space.tenant} --bot {space.bot}"
        )
    queries = tuple(Query(**one) for one in row[2])
    return StoredSet(row[0], _set_of(queries, row[3]))


def document_ids(connection: Connection, space: Space) -> frozenset[str]:
    """What labels of this bot may name."""
    return frozenset(row[0] for row in connection.execute(query("document_ids"), {"space": space.id}))


def coverage(connection: Connection, candidate: BuiltProfile, baseline: BuiltProfile) -> Coverage:
    """Whether the candidate serves all that the baseline serves."""
    row = connection.execute(query("coverage"), {"candidate": candidate.id, "baseline": baseline.id}).fetchone()
    assert row is not None
    return Coverage(row[0], tuple(row[1]))


def index_recall(connection: Connection, built: BuiltProfile) -> float | None:
    """Share of the true ten nearest that the index finds; 1 where the search is exact, None if not measured."""
    row = connection.execute(query("index_recall"), {"profile": built.id}).fetchone()
    return row[0] if row else None


def snapshot(connection: Connection, built: BuiltProfile) -> str:
    """A hash of every source that the profile serves, in its version."""
    row = connection.execute(query("profile_snapshot"), {"profile": built.id}).fetchone()
    assert row is not None
    return str(row[0])


def add_run(
    connection: Connection,
    built: BuiltProfile,
    eval_set: int,
    *,
    mode: str,
    settings: Mapping[str, Any],
    snapshot: str,
    run_hash: str,
    metrics: Mapping[str, Any],
) -> int:
    """Record a measured run; returns its id."""
    values = {
        "eval_set": eval_set,
        "mode": mode,
        "settings": Jsonb(clean_json(settings)),
        "snapshot": snapshot,
        "run_hash": run_hash,
        "metrics": Jsonb(clean_json(metrics)),
    }
    return _id(connection, "add_eval_run", {**_owner(built), "profile": built.id, **values})


def add_verdict(
    connection: Connection,
    candidate: BuiltProfile,
    baseline: BuiltProfile,
    *,
    runs: tuple[int, int],
    snapshots: tuple[str, str],
    policy: Mapping[str, Any],
    criteria: list[Mapping[str, Any]],
    outcome: str,
) -> int:
    """Record a verdict; `runs` and `snapshots` are those of candidate and baseline. Returns its id."""
    values = {
        "candidate": candidate.id,
        "baseline": baseline.id,
        "candidate_run": runs[0],
        "baseline_run": runs[1],
        "candidate_snapshot": snapshots[0],
        "baseline_snapshot": snapshots[1],
        "policy": Jsonb(clean_json(policy)),
        "criteria": Jsonb(clean_json(criteria)),
        "outcome": outcome,
    }
    return _id(connection, "add_verdict", {**_owner(candidate), **values})


def _owner(built: BuiltProfile) -> dict[str, Any]:
    return {"space": built.space_id, "tenant": built.tenant, "bot": built.bot}


def _id(connection: Connection, name: str, values: Mapping[str, Any]) -> int:
    row = connection.execute(query(name), values).fetchone()
    assert row is not None
    return int(row[0])


def _cleaned(evalset: EvalSet) -> EvalSet:
    # Postgres takes neither NUL nor half a surrogate pair, and documents are known by normalised ids.
    queries = tuple(
        Query(normalize(one.id), normalize(one.text), one.critical, one.kind and normalize(one.kind))
        for one in evalset.queries
    )
    return _set_of(queries, clean_json(evalset.qrels), evalset)


def _set_of(
    queries: tuple[Query, ...], qrels: Mapping[str, Mapping[str, int]], source: EvalSet | None = None
) -> EvalSet:
    # jsonb has an order of its own; that of the questions is what people know.
    ordered = {one.id: qrels[one.id] for one in queries if one.id in qrels}
    critical = frozenset(one.id for one in queries if one.critical)
    return EvalSet(queries, ordered, critical, source.problems if source else ())


@dataclass(frozen=True)
class EarlierRun:
    """The run before another one, and Recall@5 of both; NaN where no query was judged."""

    id: int
    recall_before: float
    recall_now: float

    def fell(self, allowed: float) -> bool:
        """Whether Recall@5 is lower by more than `allowed`, or is not known any more."""
        if math.isnan(self.recall_before):
            return False
        # Written so that NaN has fallen; rounding is not a fall.
        return not self.recall_now >= self.recall_before - allowed - 1e-9


def pairs_to_evaluate(database: Database) -> list[tuple[str, str]]:
    """Tenant and name of each active profile whose bot has labelled queries of its own."""
    pairs = []
    for tenant in list_tenants(database):
        with database.transaction("ingest", {"tenant": tenant}) as connection:
            pairs += [(tenant, name) for (name,) in connection.execute(query("pairs_to_evaluate"), {"tenant": tenant})]
    return pairs


def previous_run(connection: Connection, run: int) -> EarlierRun | None:
    """The run before `run` of the same profile, on the same labelled set, asked in the same way; None if it is
    the first."""
    row = connection.execute(query("previous_eval_run"), {"run": run}).fetchone()
    if row is None:
        return None
    before, now = (math.nan if value is None else float(value) for value in row[1:])
    return EarlierRun(int(row[0]), before, now)
