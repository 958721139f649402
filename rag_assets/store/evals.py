"""Labelled sets, measured runs and verdicts, as they are kept for each bot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from rag_assets.documents.normalize import clean_json
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.sql import first_row, query, rows, scalar, scalars
from rag_assets.store.tenants import Space, list_tenants


@dataclass(frozen=True)
class EvalSetRow:
    """A labelled set as it is kept: questions as objects, in their order, and the grades of documents by question."""

    id: int
    content_hash: str
    queries: list[dict[str, Any]]
    qrels: dict[str, dict[str, int]]


@dataclass(frozen=True)
class LabelSource:
    """A source that a label may name; `holds_text`: some profile holds it, or may do so yet."""

    id: UUID
    document: str | None
    uri: str
    checksum: str
    holds_text: bool


@dataclass(frozen=True)
class Coverage:
    """Sources that the baseline serves, and the names of those that the candidate lacks in that version."""

    sources: int
    missing: Sequence[str]


def add_eval_set(
    connection: Connection,
    space: Space,
    *,
    content_hash: str,
    queries: Sequence[Mapping[str, Any]],
    qrels: Mapping[str, Mapping[str, int]],
    imported: bool,
) -> int:
    """Keep a labelled set, once for each content; `imported` makes it the bot's own. Returns its id.

    Postgres refuses NUL and half a surrogate pair: clean the texts first, and hash what is clean.
    """
    values = {
        "space": space.id,
        "tenant": space.tenant,
        "bot": space.bot,
        "content_hash": content_hash,
        "queries": Jsonb(queries),
        "qrels": Jsonb(qrels),
        "imported": imported,
    }
    return _id(connection, "add_eval_set", values)


def latest_eval_set(connection: Connection, space: Space) -> EvalSetRow | None:
    """The labelled set that was imported last; None where the bot has none."""
    return first_row(connection, class_row(EvalSetRow), query("latest_eval_set"), {"space": space.id})


def label_sources(connection: Connection, space: Space, names: Sequence[str] | None) -> list[LabelSource]:
    """The sources that labels of this bot may name: all, or those with one of these document ids or addresses."""
    values = {"space": space.id, "names": None if names is None else list(names)}
    return rows(connection, class_row(LabelSource), query("label_sources"), values)


def coverage(connection: Connection, candidate: BuiltProfile, baseline: BuiltProfile) -> Coverage:
    """Whether the candidate serves all that the baseline serves."""
    values = {"candidate": candidate.id, "baseline": baseline.id}
    covered = first_row(connection, class_row(Coverage), query("coverage"), values)
    assert covered is not None
    return covered


def index_recall(connection: Connection, built: BuiltProfile) -> float | None:
    """Share of the true ten nearest that the index finds; 1 where the search is exact, None if not measured."""
    recall: float | None = scalar(connection, query("index_recall"), {"profile": built.id})
    return recall


def snapshot(connection: Connection, built: BuiltProfile) -> str:
    """A hash of every source that the profile serves, in its version."""
    return str(scalar(connection, query("profile_snapshot"), {"profile": built.id}))


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
    asked_alike: bool = True,
) -> int:
    """Record a verdict; `runs` and `snapshots` are those of candidate and baseline. One on two that were not
    `asked_alike` says nothing of their profiles, and promotes none. Returns its id."""
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
        "asked_alike": asked_alike,
    }
    return _id(connection, "add_verdict", {**_owner(candidate), **values})


def _owner(built: BuiltProfile) -> dict[str, Any]:
    return {"space": built.space_id, "tenant": built.tenant, "bot": built.bot}


def _id(connection: Connection, name: str, values: Mapping[str, Any]) -> int:
    return int(scalar(connection, query(name), values))


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
        with database.work(tenant) as connection:
            pairs += [(tenant, name) for name in scalars(connection, query("pairs_to_evaluate"), {"tenant": tenant})]
    return pairs


def previous_run(connection: Connection, run: int) -> EarlierRun | None:
    """The run before `run` of the same profile, on the same labelled set, asked in the same way; None if it is
    the first."""
    return first_row(connection, class_row(EarlierRun), query("previous_eval_run"), {"run": run})
