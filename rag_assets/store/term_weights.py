"""BM25 weights of chunks that are published, made of their tsvectors as the server sends them.

What rag.bm25_weights makes of the same in SQL, where most of the time went into writing numbers out and reading them
again; that one weighs stored chunks anew once their mean length has drifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import md5
from struct import Struct

import numpy as np

_K1, _B = 1.2, 0.75  # Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009
_BESIDE = 0.9  # of a word: what a text is found by beside its words, which is labelled A
_TERMS = 999_999_999
_DIMENSIONS = 1_000_000_000
_HEAD = Struct(">iii")  # of a sparsevec: dimensions, entries, nothing
_LABEL_A = 3 << 6  # in the first byte of a position


@lru_cache(200_000)
def term_id(lexeme: bytes) -> int:
    """The number of a lexeme, as rag.term_id has it."""
    return 1 + int.from_bytes(md5(lexeme, usedforsecurity=False).digest()[:4], "big") % _TERMS


def weigh(texts: Sequence[bytes], labelled: Sequence[bool], average_length: float) -> list[bytes]:
    """The sparsevec of each text, in binary, from its tsvector in binary, and from whether that may have labels.

    A term that stands tf times among `length` words weighs tf (k1 + 1) / (tf + k1 (1 - b + b length / average)).
    """
    ids: list[int] = []
    times: list[float] = []
    counts: list[int] = []
    lengths: list[int] = []
    for fts, may_be_labelled in zip(texts, labelled, strict=True):
        terms, length = _terms_of(fts, may_be_labelled)
        ids += terms.keys()
        times += terms.values()
        counts.append(len(terms))
        lengths.append(length)
    tf = np.array(times, np.float64)
    norms = _K1 * ((1 - _B) + _B * np.array(lengths, np.float64) / max(average_length, 1))
    weights = tf * (_K1 + 1) / (tf + np.repeat(norms, counts))
    numbers = np.array(ids, np.int64)
    order = np.lexsort((numbers, np.repeat(np.arange(len(texts)), counts)))
    places = (numbers[order] - 1).astype(">i4").tobytes()  # from 0 in binary
    values = weights[order].astype(">f4").tobytes()
    ends = 4 * np.cumsum(counts, dtype=np.int64)
    return [
        _HEAD.pack(_DIMENSIONS, count, 0) + places[end - 4 * count : end] + values[end - 4 * count : end]
        for count, end in zip(counts, ends.tolist(), strict=True)
    ]


def _terms_of(fts: bytes, labelled: bool) -> tuple[dict[int, float], int]:
    """How often each term stands in a text, and how many words it has.

    In binary a tsvector is the number of lexemes, and for each its letters, a NUL, the number of its positions, and
    those, of two bytes.
    """
    terms: dict[int, float] = {}
    length, at = 0, 4
    for _ in range(int.from_bytes(fts[:4], "big")):
        end = fts.index(0, at)
        term = term_id(fts[at:end])
        number = fts[end + 1] << 8 | fts[end + 2]
        at = end + 3 + 2 * number
        if labelled:
            own = sum(label < _LABEL_A for label in fts[end + 3 : at : 2])
            length += own
            terms[term] = terms.get(term, 0.0) + (own + _BESIDE * (number - own))
        else:
            length += number
            terms[term] = terms.get(term, 0.0) + number
    return terms, length
