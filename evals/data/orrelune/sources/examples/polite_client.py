"""Call the HTTP interface without running into the rate limit: back off with jitter, obey Retry-After."""

from __future__ import annotations

import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable

RETRYABLE = frozenset({429, 502, 503, 504})


def wait_seconds(attempt: int, retry_after: str | None, draw: Callable[[], float] = random.random) -> float:
    """Seconds until the next attempt: what the server asked for, or an exponential delay capped at 60."""
    asked = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
    return max(asked, min(60.0, 0.5 * float(2**attempt))) + draw()


def fetch(url: str, token: str, attempts: int = 6) -> bytes:
    """Body of the answer.

    Raises:
        urllib.error.HTTPError: a status that will not improve, or the last attempt's status.
    """
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    for attempt in range(attempts):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if error.code not in RETRYABLE or attempt == attempts - 1:
                raise
            time.sleep(wait_seconds(attempt, error.headers.get("Retry-After")))
    raise ValueError("attempts must be at least 1")
