"""Keys of tenants, bots and profiles: one alphabet that is safe in partitions, paths, SQL and settings."""

from __future__ import annotations

import re

from rag_assets.errors import InvalidKey, shown

KEY_PATTERN = r"[a-z0-9][a-z0-9_-]{0,62}"
_KEY = re.compile(KEY_PATTERN)


def check_key(value: str, kind: str) -> str:
    """Return `value` if it is a valid key.

    Dagster accepts `|`, `,`, a newline and `""` as dynamic partition keys and fails much later,
    so every key is checked where it enters.

    Raises:
        InvalidKey: names the kind ("tenant", "bot", "profile"), the value and the rule.
    """
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise InvalidKey(
            f"{kind} key {shown(value)} is not valid: use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter "
            "or digit",
            kind,
        )
    return value
