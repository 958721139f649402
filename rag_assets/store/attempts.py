"""Work whose last attempt failed: how often, why, and when it is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from rag_assets.store.database import Connection
from rag_assets.store.sql import query, rows

FIRST_PAUSE_S = 60
LONGEST_PAUSE_S = 3600
_ERROR_LENGTH = 1000


@dataclass(frozen=True)
class FailedWork:
    """Work of a tenant that has failed `attempts` times in a row, last at `last_at` in the run `run_id`.

    Attributes:
        profile: the profile of the pair, or None: reading the tenant's sources.
        work: which appearance of the work was tried; other work may be tried earlier than `next_try_at`.
    """

    tenant: str
    profile: str | None
    attempts: int
    last_error: str
    last_at: datetime
    next_try_at: datetime
    run_id: str
    work: str

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return f"failed {times}, next try {self.next_try_at:%Y-%m-%d %H:%M:%S %Z}: {self.last_error}"


def failed_work(connection: Connection, tenant: str) -> list[FailedWork]:
    """What has failed at its last attempt: sources first, then pairs by profile."""
    return rows(connection, class_row(FailedWork), query("list_work_attempts"), {"tenant": tenant})


def record_failure(
    connection: Connection, tenant: str, profile: str | None, *, error: str, at: datetime, run_id: str, work: str = ""
) -> int | None:
    """Count one more failure in a row; returns how many those are, or None if this run was counted before.

    The pause until the next try doubles from a minute up to an hour, and stays there: it never ends.
    """
    values = {
        "tenant": tenant,
        "profile": profile or "",
        "error": error[:_ERROR_LENGTH].replace("\0", ""),
        "at": at,
        "run_id": run_id,
        "work": work,
        "first_pause_s": FIRST_PAUSE_S,
        "longest_pause_s": LONGEST_PAUSE_S,
    }
    row = connection.execute(query("work_failed"), values).fetchone()
    return None if row is None else int(row[0])


def record_success(connection: Connection, tenant: str, profile: str | None, at: datetime) -> None:
    """Forget the failures before `at`."""
    connection.execute(query("work_succeeded"), {"tenant": tenant, "profile": profile or "", "at": at})
