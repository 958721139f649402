"""When texts go through a batch API, and how many together."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rag_assets.errors import UsageError


@dataclass(frozen=True)
class BatchLimits:
    """When texts go into jobs, and how many.

    Attributes:
        min_items: fewer missing texts than this are embedded at once (`RAG_BATCH_MIN_ITEMS`).
        job_items: of one job (`RAG_BATCH_JOB_ITEMS`); in larger ones, results were seen to be mixed up.
        enqueued_tokens: estimated tokens of all tenants' jobs of one model and key that go on (`RAG_BATCH_TOKENS`).
            What an account may have goes by its tier: 500,000, five or ten million.
        deadline_hours: after so long a job is given up.
        settle_seconds: how long after a request to make a job, which was never answered, the provider's list of jobs
            is believed.
    """

    min_items: int = 200
    job_items: int = 1000
    enqueued_tokens: int = 500_000
    deadline_hours: int = 48
    settle_seconds: float = 30

    @classmethod
    def from_environment(cls) -> BatchLimits:
        """The defaults, but for what the environment says.

        Raises:
            UsageError: a value is no whole number of at least 1.
        """
        return cls(
            min_items=_whole_number("RAG_BATCH_MIN_ITEMS", cls.min_items),
            job_items=_whole_number("RAG_BATCH_JOB_ITEMS", cls.job_items),
            enqueued_tokens=_whole_number("RAG_BATCH_TOKENS", cls.enqueued_tokens),
        )


def _whole_number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise UsageError(f"{name} has to be a whole number of at least 1")
    return int(text)
