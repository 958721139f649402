"""Terms: the words that lexical search finds a text by.

One function prepares documents and queries, so both meet on the same terms. How it does that is a version, which a
profile carries: what was published under one is searched under the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from rag_assets.terms import version1

TermsVersion = Literal[1, 2]

NEWEST: TermsVersion = max(get_args(TermsVersion))
FIRST: TermsVersion = 1  # of every profile that does not say

_PREPARE: Mapping[TermsVersion, Callable[[str], str]] = {1: version1.prepare, 2: version1.prepare}


def prepare(text: str, version: TermsVersion) -> str:
    """Return `text` as terms for `to_tsvector`, separated by blanks; Postgres stems them with the profile's text search
    configuration. No operator of `to_tsquery` is among them, and their number and length are bounded.
    """
    return _PREPARE[version](text)


def versions() -> tuple[TermsVersion, ...]:
    """All there are, the oldest first."""
    return tuple(sorted(_PREPARE))


def prepare_any(text: str) -> str:
    """Return the terms that any version makes of `text`, each once: for what is searched together although it was
    written under several, as triples are."""
    return " ".join(dict.fromkeys(term for version in versions() for term in prepare(text, version).split()))
