"""A secret that a request has to bring: `Authorization: Bearer SECRET`."""

from __future__ import annotations

import hmac


def brings(authorization: str, secret: str) -> bool:
    """Whether the header brings this secret; how long that takes tells nothing of it."""
    kind, _, given = authorization.partition(" ")
    return kind.lower() == "bearer" and is_same(given.strip(), secret)


def is_same(given: str, right: str) -> bool:
    """Whether two secrets are equal, told in a time that depends on neither."""
    return hmac.compare_digest(given.encode(), right.encode())
