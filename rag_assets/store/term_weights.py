"""BM25 weights of chunks that are published, made of their tsvectors as the server sends them.

What rag.bm25_weights makes of the same in SQL, where most of the time went into writing numbers out and reading them
again; that one weighs stored chunks anew once their mean length has drifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_assets.terms.memo import Memo

_K1, _B = 1.2, 0.75  # Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009
_BESIDE = 0.9  # of a word: what a text is found by beside its words, which is labelled A
_TERMS = 999_999_999
_DIMENSIONS = 1_000_000_000
_HEAD = Struct(">iii")  # of a sparsevec: dimensions, entries, nothing
_NO_TERMS = _HEAD.pack(_DIMENSIONS, 0, 0)
_LABEL_A = 3 << 6  # in the first byte of a position


class Terms(NamedTuple):
    """The terms of so many texts, one text after the other: whose each is, its number, and what it counts there."""

    texts: int
    owners: NDArray[np.int64]
    numbers: NDArray[np.int64]
    weights: NDArray[np.float32]


def term_id(lexeme: bytes) -> int:
    """The number of a lexeme, as rag.term_id has it."""
    return 1 + int.from_bytes(md5(lexeme, usedforsecurity=False).digest()[:4], "big") % _TERMS


_term_ids = Memo(term_id, 100_000)  # some 20 MB


def weigh(texts: Sequence[bytes], average_length: float) -> Terms:
    """What the terms of texts count in them, from their tsvectors in binary.

    A term that stands tf times among `length` words weighs tf (k1 + 1) / (tf + k1 (1 - b + b length / average)).
    """
    data = b"".join(texts)
    found = _lexemes(data, [len(text) for text in texts])
    lexemes = map(data.__getitem__, map(slice, *found.letters))
    numbers = np.fromiter(map(_term_ids.__getitem__, lexemes), np.int64, len(found.owners))
    own, all_of_it = _positions(data, found)
    lengths = np.bincount(found.owners, own, len(texts))
    order = np.lexsort((numbers, found.owners))
    owners, numbers = found.owners[order], numbers[order]
    # Two lexemes of one number are one term.
    first = np.flatnonzero(np.append(True, (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])))[: len(order)]
    tf = np.add.reduceat((own + _BESIDE * (all_of_it - own))[order], first) if len(order) else np.empty(0)
    norms = _K1 * ((1 - _B) + _B * lengths / max(average_length, 1))
    weights = tf * (_K1 + 1) / (tf + norms[owners[first]])
    return Terms(len(texts), owners[first], numbers[first], weights.astype(np.float32))


def as_sparsevecs(terms: Terms) -> list[bytes]:
    """The sparsevec of each text, in binary."""
    values = terms.weights.astype(">f4").tobytes()
    places = (terms.numbers - 1).astype(">i4").tobytes()  # from 0 in binary
    counts = np.bincount(terms.owners, minlength=terms.texts)
    ends = 4 * np.cumsum(counts)
    return [
        _HEAD.pack(_DIMENSIONS, count, 0) + places[end - 4 * count : end] + values[end - 4 * count : end]
        for count, end in zip(counts.tolist(), ends.tolist(), strict=True)
    ]


def read_sparsevecs(texts: Sequence[bytes | None]) -> Terms:
    """Terms from the sparsevec of each text, in binary; None is that of a text without any."""
    found = [text or _NO_TERMS for text in texts]
    counts = [_HEAD.unpack_from(text)[1] for text in found]
    starts = [_HEAD.size + 4 * count for count in counts]
    places = b"".join(text[_HEAD.size : start] for text, start in zip(found, starts, strict=True))
    values = b"".join(text[start:] for text, start in zip(found, starts, strict=True))
    numbers = np.frombuffer(places, ">i4").astype(np.int64) + 1
    return Terms(
        len(found), np.repeat(np.arange(len(found)), counts), numbers, np.frombuffer(values, ">f4").astype(np.float32)
    )


class _Lexemes(NamedTuple):
    """The lexemes of some texts: whose each is, where its letters end, and how many positions follow."""

    owners: NDArray[np.int64]
    letters: tuple[list[int], list[int]]
    ends: NDArray[np.int64]
    counts: NDArray[np.int64]


def _lexemes(data: bytes, sizes: Sequence[int]) -> _Lexemes:
    """Walk through all texts side by side, from lexeme to lexeme.

    In binary a tsvector is the number of lexemes, and for each its letters, a NUL, the number of its positions, and
    those, of two bytes.
    """
    bytes_ = np.frombuffer(data, np.uint8)
    zeros = np.flatnonzero(bytes_ == 0)
    starts = np.cumsum(sizes, dtype=np.int64) - np.array(sizes, np.int64)
    left = np.array([int.from_bytes(data[start : start + 4], "big") for start in starts.tolist()], np.int64)
    walking, at = np.flatnonzero(left), starts + 4
    steps: list[tuple[NDArray[np.int64], ...]] = []
    while len(walking):
        begin = at[walking]
        end = zeros[np.searchsorted(zeros, begin)]
        count = bytes_[end + 1].astype(np.int64) << 8 | bytes_[end + 2]
        steps.append((walking, begin, end, count))
        at[walking] = end + 3 + 2 * count
        left[walking] -= 1
        walking = walking[left[walking] > 0]
    if not steps:
        nothing = np.empty(0, np.int64)
        return _Lexemes(nothing, ([], []), nothing, nothing)
    owners, begins, ends, counts = (np.concatenate(column) for column in zip(*steps, strict=True))
    return _Lexemes(owners, (begins.tolist(), ends.tolist()), ends, counts)


def _positions(data: bytes, found: _Lexemes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """How often each lexeme stands among the words of its text, and how often with what is beside them."""
    counts = found.counts
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    labels = np.frombuffer(data, np.uint8)[np.repeat(found.ends + 3, counts) + 2 * within]
    lexemes = np.repeat(np.arange(len(counts)), counts)
    own = np.bincount(lexemes[labels < _LABEL_A], minlength=len(counts))
    return own.astype(np.float64), counts
