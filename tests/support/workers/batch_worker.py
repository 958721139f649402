"""An ingest in batch mode, in a process of its own that kills itself with SIGKILL at a named point.

Run as a script with the database's URL, tenant, bot, profile and point.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from rag_assets.embedding.providers.google_batch import GoogleBatches
from rag_assets.ingest.batch_api import collect, submit
from rag_assets.ingest.run import ingest
from rag_assets.store import batch_jobs as jobs
from rag_assets.store.database import Database

# What has just been done, in the order in which a job passes them.
AFTER: dict[str, tuple[Any, str]] = {
    "written down": (submit._Submission, "_add_job"),
    "uploaded": (GoogleBatches, "upload"),
    "created": (GoogleBatches, "create"),
    "handed over": (submit._Submission, "_hand_over"),
    "downloaded": (GoogleBatches, "results"),
    "compared": (collect._Collection, "_compare"),
    "in the cache, not committed": (jobs, "finish_job"),
    "deleted at the provider": (GoogleBatches, "delete"),
}
SUBMITTING = ("written down", "uploaded", "created", "handed over")


def die_after(owner: Any, name: str) -> None:
    """Kill this process when the function has returned for the first time."""
    real: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(real)
    def then_die(*args: Any, **values: Any) -> None:
        real(*args, **values)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, then_die)


if __name__ == "__main__":
    url, tenant, bot, profile, point = sys.argv[1:]
    die_after(*AFTER[point])
    ingest(Database(url), tenant, bot, profile)
