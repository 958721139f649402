"""When texts go through a batch API, and how many together."""

from __future__ import annotations

from dataclasses import dataclass

from rag_assets.settings import load_settings


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

    min_items: int
    job_items: int
    enqueued_tokens: int
    deadline_hours: int = 48
    settle_seconds: float = 30

    @classmethod
    def from_settings(cls) -> BatchLimits:
        """What the environment says.

        Raises:
            UsageError: a setting has a wrong value.
        """
        settings = load_settings()
        return cls(settings.batch_min_items, settings.batch_job_items, settings.batch_tokens)
