"""Text in the one form that everything downstream relies on."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from rag_assets.marks import bounded

_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NEWLINES = re.compile("\r\n?|[\x0b\x0c]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f]")


def normalize(text: str) -> str:
    """Return `text` as NFC, with `\\n` newlines, and without NUL, control characters or surrogates.

    Of combining marks in a row, the first 30 stay. Surrogate pairs become the character they encode; a lone surrogate
    becomes U+FFFD. Form feeds and vertical tabs become newlines. Idempotent.
    """
    if _UNWANTED.search(text):
        if _SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = _CONTROLS.sub("", _NEWLINES.sub("\n", text))
    text = bounded(text)
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def clean_json(value: Any) -> Any:
    """Return `value` as plain JSON that Postgres accepts in a jsonb column.

    Strings and keys are normalised, NaN and infinities become None, dates become ISO strings,
    mappings and sequences become dicts and lists, and anything else becomes its `str`.
    """
    if isinstance(value, str):
        return normalize(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {normalize(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((clean_json(item) for item in value), key=repr)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return normalize(str(value))
