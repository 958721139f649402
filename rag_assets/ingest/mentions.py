"""Where in a text something is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_MENTIONS = 200  # of a name in one text that are compared
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def mentions(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where these words stand one after the other, in any case of letters, with no other word between them: `start` and
    `end` in code points."""
    words = _WORD.findall(name)
    pattern = r"[\W_]+".join(map(re.escape, words)) if words else re.escape(name)
    if words and not (_UNSPACED.match(words[0]) or _UNSPACED.match(words[-1])):
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return (match.span() for match in re.finditer(pattern, text, re.IGNORECASE))


def nearest_mentions(text: str, subject: str, other: str, strict: bool) -> tuple[int, int] | None:
    """From the first to the last character of the mentions of two names that are nearest to each other. Unless
    `strict`, one of the names is enough: texts go on with "it"."""
    subjects = list(islice(mentions(text, subject), _MENTIONS))
    others = list(islice(mentions(text, other), _MENTIONS))
    if subjects and others:
        pairs = ((min(s[0], o[0]), max(s[1], o[1])) for s in subjects for o in others)
        return min(pairs, key=lambda span: (span[1] - span[0], span))
    return None if strict else next(iter(others or subjects), None)
