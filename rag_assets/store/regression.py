"""What is measured again and again: the profiles that serve, and how a run compares with the one before it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import query
from rag_assets.store.tenants import list_tenants


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
