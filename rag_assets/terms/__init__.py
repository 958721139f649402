"""Terms: the words that lexical search finds a text by.

Documents, queries and names are prepared here, so that they meet on the same terms. How that is done is a version,
which a profile carries: what was published under one is searched under the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from rag_assets.terms import version1, version2

TermsVersion = Literal[1, 2]

NEWEST: TermsVersion = max(get_args(TermsVersion))
FIRST: TermsVersion = 1  # of every profile that does not say


class _Version(NamedTuple):
    text: Callable[[str], str]
    query: Callable[[str], str]
    name: Callable[[str], str]


_VERSIONS: Mapping[TermsVersion, _Version] = {
    1: _Version(version1.prepare, version1.prepare, version1.prepare),
    2: _Version(version2.prepare, version2.prepare_query, version2.prepare_name),
}


def prepare(text: str, version: TermsVersion) -> str:
    """Return the terms of a text for rag.text_terms: its words on one line, and what else it is found by on another.

    Terms are separated by blanks. Postgres stems them with the profile's text search configuration. No operator of
    `to_tsquery` is among them, and their number and length are bounded.
    """
    return _VERSIONS[version].text(text)


def prepare_query(text: str, version: TermsVersion) -> str:
    """Return the terms of a query, on one line; one that counts more than another comes more often."""
    return _VERSIONS[version].query(text)


def prepare_name(text: str, version: TermsVersion) -> str:
    """Return the terms of a name, on one line: two spellings of it have the same."""
    return _VERSIONS[version].name(text)


def prepare_names_in(text: str) -> str:
    """Return the terms that any version makes of `text`, each once: for what is searched together although it was
    written under several, as names in triples are."""
    return " ".join(dict.fromkeys(term for one in versions() for term in prepare_name(text, one).split()))


def versions() -> tuple[TermsVersion, ...]:
    """All there are, the oldest first."""
    return tuple(sorted(_VERSIONS))
