"""The second version of terms: as the first, and names with signs, words without their accents, and Korean.

What is beside the words themselves stands on a second line: it is found, and does not make a text longer.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from rag_assets.terms.codes import MARKS, MAX_TOKEN_CHARS, MAX_TOKENS, UNSPACED, bigrams, code_words, is_plain
from rag_assets.terms.folding import folded, normal
from rag_assets.terms.memo import Memo
from rag_assets.terms.signs import AFTER, BEFORE, BETWEEN, names_of, set_signs, words_between

_HANGUL = "\uac00-\ud7a3"
_LETTER = rf"(?:[^\W{UNSPACED}{_HANGUL}]|[{MARKS}])"
_TOKEN = re.compile(
    rf"(?P<unspaced>[{UNSPACED}]+)|(?P<korean>[{_HANGUL}]+)"
    rf"|(?P<before>(?<![\w.#<-]){BEFORE})?(?P<body>{_LETTER}+(?:{BETWEEN}{_LETTER}+)*)(?P<after>{AFTER}(?!\w))?"
)
_RIGHT_EDGES = ".,;:!?()[]{}<>\"'`*"
_LEFT_EDGES = _RIGHT_EDGES.replace(".", "")  # .NET
_MEMO_SIZE = 100_000  # of some 300 bytes
_QUERY_MEMO_SIZE = 20_000
_MAX_CHARS = MAX_TOKENS * (MAX_TOKEN_CHARS + 1)
_MAX_BYTES = 400_000


class _Terms(NamedTuple):
    """Of a piece of text: its words, those that are written otherwise without accents, and what else it is found by."""

    words: tuple[str, ...]
    unaccented: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()


def prepare(text: str) -> str:
    """Return the words of `text` as one line, and what else it is found by as another, if there is any.

    - Words and codes are as in the first version; Korean becomes character bigrams, too.
    - On the second line: names with signs, words without their accents, and the first syllable of each Korean word,
      which is often a word with a particle.

    Spellings that Unicode holds for equal are equal, and what cannot be seen is nothing. At most `MAX_TOKENS` terms
    come out.
    """
    pieces = _split(text)
    short = all(map(MAX_TOKEN_CHARS.__ge__, map(len, pieces)))
    made = list(map(_lines.__getitem__, pieces) if short else map(_lines_of, pieces))
    with_more = [place for place, one in enumerate(made) if "\n" in one]
    more = []
    for place in with_more:
        made[place], _, one = made[place].partition("\n")
        more.append(one)
    words, beside = " ".join(filter(None, made)), " ".join(more)
    # Most texts are far from the bounds, and need not be counted term by term.
    if words.count(" ") + beside.count(" ") + 2 > MAX_TOKENS or 4 * max(len(words), len(beside)) > _MAX_BYTES:
        kept = _bounded(words.split())
        words, beside = " ".join(kept), " ".join(_bounded(beside.split())[: MAX_TOKENS - len(kept)])
    return f"{words}\n{beside}" if words and beside else words or beside


def prepare_query(text: str) -> str:
    """Return the terms of a query on one line. A word with accents counts as much as one without: half as it is
    written, and half without them."""
    pieces = _pieces(text)
    times = 2 if any(terms.unaccented for terms in pieces) else 1
    found: list[str] = []
    for terms in pieces:
        unaccented = dict(terms.unaccented)
        for word in terms.words:
            found += [word, unaccented[word]] if word in unaccented else [word] * times
        found += terms.names * times
    return " ".join(_bounded(found))


def prepare_name(text: str) -> str:
    """Return the terms of a name on one line, without accents: two that differ in those are one."""
    found: list[str] = []
    for terms in _pieces(text):
        unaccented = dict(terms.unaccented)
        found += [unaccented.get(word, word) for word in terms.words]
        found += terms.names
    return " ".join(_bounded(found))


def _bounded(terms: list[str]) -> list[str]:
    """As many as fit into a tsvector, half of it."""
    terms = terms[:MAX_TOKENS]
    if 4 * sum(map(len, terms)) <= _MAX_BYTES:
        return terms
    sizes = accumulate(len(term.encode("utf-8", "replace")) for term in terms)
    return terms[: sum(size <= _MAX_BYTES for size in sizes)]


def _split(text: str) -> list[str]:
    return set_signs(normal(text[:_MAX_CHARS])).split(None, MAX_TOKENS)[:MAX_TOKENS]


def _pieces(text: str) -> list[_Terms]:
    return [_terms(piece) for piece in _split(text)]


def _terms(piece: str) -> _Terms:
    word = _bare(piece)
    return _words_of_queries[word] if len(word) <= MAX_TOKEN_CHARS else _taken_apart(word)


def _lines_of(piece: str) -> str:
    """The words of a piece of text, and what else it is found by, if there is any, on another line."""
    return _lines[piece] if len(piece) <= MAX_TOKEN_CHARS else _made_lines(piece)


def _made_lines(piece: str) -> str:
    word = _bare(piece)
    if word != piece:  # a word comes again with other signs at its edges
        return _lines_of(word)
    terms = _taken_apart(word)
    words = " ".join(terms.words)
    beside = " ".join([*(form for _, form in terms.unaccented), *terms.names])
    return f"{words}\n{beside}" if beside else words


def _bare(piece: str) -> str:
    return piece.rstrip(_RIGHT_EDGES).lstrip(_LEFT_EDGES)


def _taken_apart(word: str) -> _Terms:
    if is_plain(word):
        return _Terms((word[:MAX_TOKEN_CHARS],))
    words: list[str] = []
    names: list[str] = []
    to_fold: list[str] = []
    for token in _TOKEN.finditer(word):
        if len(words) > MAX_TOKENS:
            break
        if token["body"]:
            own = _words(token["body"])
            words += own
            to_fold += own
            if given := names_of(token["before"] or "", folded(token["body"]), token["after"] or ""):
                taken = {folded(one) for one in own}
                names += [name for name in given if name not in taken]
        else:
            own = bigrams(token[0])
            words += own
            to_fold += own if folded(token[0]) != token[0] else ()
            names += token[0][:1] if token["korean"] and len(token[0]) > 1 else ()
    if word.isascii():
        return _Terms(tuple(words), (), tuple(names))
    differing = ((one, folded(one)) for one in dict.fromkeys(to_fold) if not one.isascii())
    unaccented = tuple((one, form) for one, form in differing if form and form != one.lower())
    return _Terms(tuple(words), unaccented, tuple(names))


_lines = Memo(_made_lines, _MEMO_SIZE)  # of texts
_words_of_queries = Memo(_taken_apart, _QUERY_MEMO_SIZE)


def _words(body: str) -> list[str]:
    words: list[str] = []
    for token in words_between(body):
        words += [token[:MAX_TOKEN_CHARS]] if is_plain(token) else code_words(token)
    return words
