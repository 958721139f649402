"""Token ids of many texts, from the ids of their pieces: most pieces were in a text before, and are not made anew.

A byte-pair encoder only joins two characters that stand at the joint of one of its merges. Where no merge has its
joint, a text can be cut: its ids are those of its pieces, one after the other, whatever the pieces are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from sys import getsizeof
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

_MARK = "\u2581"  # what such tokenizers write for a space, and in front of a text
_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": _MARK},
        {"type": "Replace", "pattern": {"String": " "}, "content": _MARK},
    ],
}
_PLAIN = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256))
_SEPARATOR = "\n"
_AT_ONCE = 100  # pieces: one by one costs three times as much, and the work on a text grows faster than its length
_FEW = 8  # characters that are joined with few others share an alternative of the pattern
_LEAST = 2  # characters of a piece on average
_LOOK, _LOOKS = 20, 2000  # at so many characters of each text, and of all, if they are few
_ITEM = np.dtype(np.intp).itemsize
_MOST_BYTES = 32 << 20  # some 170,000 pieces
_ENTRY_BYTES = 60  # of a dictionary


class Pieces:
    """The ids of texts as a tokenizer makes them, with a memory of at most 32 MiB and the pieces of one call. Threads
    may share it."""

    def __init__(self, encoder: Tokenizer, find: Callable[[str], list[str]], separator: int) -> None:
        self._encoder = encoder
        self._find = find
        self._separator = separator
        self._lock = Lock()
        self._known = self._nothing()
        self._bytes = 0

    def pay(self, texts: Sequence[str]) -> bool:
        """Whether to find what is known of such texts, by how they begin, takes less than to tokenize them: not in
        scripts of which the tokenizer joins no characters, nor in numbers, where each is a piece."""
        beginnings = " ".join([text[: _LOOK + _LOOKS // len(texts)] for text in texts])
        return _LEAST * len(self._find(beginnings)) < len(beginnings)

    def ids(self, texts: Sequence[str]) -> list[NDArray[np.intp]]:
        """The ids of each text; none may be empty."""
        known = self._known  # which another thread may replace, and from which nobody takes anything away
        found = [self._find(" " + text.replace(_MARK, " ")) for text in texts]
        unknown = set[str]().union(*found).difference(known)
        if unknown:
            self._learn(known, list(unknown))
        of_piece = known.__getitem__
        return [np.frombuffer(b"".join(map(of_piece, pieces)), np.intp) for pieces in found]

    def _nothing(self) -> dict[str, bytes]:
        return {_SEPARATOR: np.array([self._separator], np.intp).tobytes()}

    def _learn(self, known: dict[str, bytes], pieces: Sequence[str]) -> None:
        made = self._encode(pieces)
        size = sum(map(getsizeof, chain(made, made.values()))) + _ENTRY_BYTES * len(made)
        with self._lock:
            known.update(made)
            self._bytes += size
            if self._bytes > _MOST_BYTES:
                self._known, self._bytes = self._nothing(), 0

    def _encode(self, pieces: Sequence[str]) -> dict[str, bytes]:
        groups = [pieces[start : start + _AT_ONCE] for start in range(0, len(pieces), _AT_ONCE)]
        lines = [_SEPARATOR.join(group).replace(" ", _MARK) for group in groups]
        made: dict[str, bytes] = {}
        encodings = self._encoder.encode_batch_fast(lines, add_special_tokens=False)
        for group, encoding in zip(groups, encodings, strict=True):
            ids = np.array(encoding.ids, np.intp)
            data, start = ids.tobytes(), 0
            ends = [*(np.flatnonzero(ids == self._separator) * _ITEM).tolist(), len(data)]
            for piece, end in zip(group, ends, strict=True):
                made[piece] = data[start:end]
                start = end + _ITEM
        return made


def pieces_of(tokenizer: Tokenizer, description: Mapping[str, Any]) -> Pieces | None:
    """The pieces of a tokenizer whose file says this of it; None where its texts cannot be proved to have any."""
    model = description.get("model", {})
    is_plain = (
        model.get("type") == "BPE"
        and not any(model.get(name) for name in _PLAIN)
        and model.get("byte_fallback")
        and model["vocab"].keys() >= _BYTES
        and description.get("normalizer") == _NORMALIZER
        and tokenizer.pre_tokenizer is None
        and tokenizer.encode_special_tokens
        and all(token["special"] for token in description.get("added_tokens", ()))
    )
    joints = _joints(model["merges"]) if is_plain else None
    find = _find(joints) if joints else None
    if find is None:
        return None
    encoder = Tokenizer(tokenizer.model)  # without a normalizer
    separator = encoder.encode(_SEPARATOR)
    # What merges make is within a piece; this token is made of more than one, so it is only ever the separator.
    is_apart = len(separator.ids) == 1 and len(find(separator.tokens[0])) > 1
    return Pieces(encoder, find, separator.ids[0]) if is_apart else None


def _joints(merges: Iterable[str | Sequence[str]]) -> set[tuple[str, str]] | None:
    """The two characters that each merge brings together; None where it does so with bytes, which are no characters."""
    joints = set()
    for merge in merges:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if left in _BYTES or right in _BYTES:
            return None
        joints.add((left[-1], right[0]))
    return joints


def _find(joints: Iterable[tuple[str, str]]) -> Callable[[str], list[str]] | None:
    """What finds the pieces of a text with spaces for marks. A piece is of characters that are joined with one another,
    directly or through others, with the spaces before them; or one character that is joined with none. None where a
    space is joined with what is before it."""
    groups: dict[str, set[str]] = {}
    for left, right in joints:
        if right == _MARK != left:
            return None
        group, other = groups.setdefault(left, {left}), groups.setdefault(right, {right})
        if left != _MARK and group is not other:
            group |= other
            groups |= dict.fromkeys(other, group)
    groups.pop(_MARK, None)
    if not groups or _SEPARATOR in groups:
        return None
    distinct = sorted({id(group): group for group in groups.values()}.values(), key=len, reverse=True)
    small = set[str]().union(*(group for group in distinct if len(group) < _FEW))
    sets = ["".join(map(re.escape, sorted(group))) for group in distinct if len(group) >= _FEW]
    sets += ["".join(map(re.escape, sorted(small)))] if small else []
    alternatives = "|".join(f"[{one}]++" for one in sets)
    return re.compile(f" *+(?:{alternatives})|[^ {''.join(sets)}]| ++").findall
