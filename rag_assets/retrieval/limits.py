"""The limits of a retrieval: one table of them, with what happens beyond each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MAX_TOP_K = 1000
MAX_QUERY_CHARS = 8_000  # more is a document, not a question
MAX_FILTER_CHARS = 8_000_000  # as JSON, some 200,000 ids; 50 million took a search 10 s
MAX_CONDITIONS = 100
MAX_PREFIXES = 1_000  # each is compared with each source
MAX_CANDIDATES = 1000
MAX_WAIT_S = 3_600
MAX_CONTEXT_TOKENS = 1_000_000
MAX_RETRIES = 5
MAX_CACHED = 1_000_000
MAX_CACHE_MB = 65_536


@dataclass(frozen=True)
class Limit:
    """What may be how much, from `least` to `most` of a `unit`; beyond it a value is refused with `InvalidArgument`,
    which names the argument, or the text is cut."""

    what: str
    least: float
    most: float
    unit: str
    beyond: Literal["refused", "cut"] = "refused"


LIMITS = (
    Limit("`top_k` of a search", 1, MAX_TOP_K, "results"),
    Limit("`query`", 0, MAX_QUERY_CHARS, "characters", "cut"),
    Limit("`filters`", 0, MAX_FILTER_CHARS, "characters as JSON"),
    Limit("`where` of the filters", 0, MAX_CONDITIONS, "conditions"),
    Limit("`path_prefixes` of the filters", 0, MAX_PREFIXES, "paths"),
    Limit("`candidates` of hybrid search", 1, MAX_CANDIDATES, "chunks of each list"),
    Limit("`k_in` and `k_out` of a reranked search", 1, MAX_TOP_K, "candidates"),
    Limit("`limit_s` of anything", 0, MAX_WAIT_S, "seconds, more than 0"),
    Limit("`retries` of a ladder", 0, MAX_RETRIES, "more searches"),
    Limit("`max_tokens` of a context", 1, MAX_CONTEXT_TOKENS, "tokens"),
    Limit("`per_source` of a context", 1, MAX_TOP_K, "passages"),
    Limit("`results` and `vectors` of a cache", 1, MAX_CACHED, "entries"),
    Limit("`results_mb` and `vectors_mb` of a cache", 1, MAX_CACHE_MB, "megabytes"),
)
