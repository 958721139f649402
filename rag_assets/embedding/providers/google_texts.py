"""How Gemini's embedding models are told what a text is for, and how a text that is too long for them is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import InvalidProfile

# Google's names for what a query is for: in the text for gemini-embedding-2, a field of the request for -001.
_TASK_PREFIXES = {"search": "search result"}
_TASK_TYPES = {
    "search": "RETRIEVAL_QUERY",
    "question answering": "QUESTION_ANSWERING",
    "fact checking": "FACT_VERIFICATION",
    "code retrieval": "CODE_RETRIEVAL_QUERY",
}
_DOCUMENT_PREFIX = "title: none | text: "

_LEAST_ROOM = 8  # bytes beside the prefix: below that nothing sensible is embedded
_COUNTABLE = 8  # bytes a token: a text that is longer than that on average is cut without being counted


@dataclass(frozen=True)
class Role:
    """How one side, documents or queries, is sent: with this in front of the text, or this field in the request."""

    prefix: str
    task_type: str | None


def role_of(profile: EmbeddingProfile, side: Literal["document", "query"]) -> Role:
    """The role of one side. `profile.task_instruction` takes the place of the built-in prefix."""
    in_text = profile.model_info.task_scheme == "gemini-prefix"
    task = profile.options.task
    if side == "document":
        prefix, task_type = _DOCUMENT_PREFIX, "RETRIEVAL_DOCUMENT"
    else:
        prefix, task_type = f"task: {_TASK_PREFIXES.get(task, task)} | query: ", _TASK_TYPES[task]
    prefix = profile.task_instruction.get(side, prefix if in_text else "")
    return Role(prefix, None if in_text else task_type)


class Cutter:
    """Cuts texts so that the model reads every one to its end.

    Google drops what is beyond the limit without a word. No text was seen to have more tokens than UTF-8 bytes, so
    one of at most as many bytes as the limit has tokens is safe unread; a longer one has to be counted.
    """

    def __init__(self, limit: int, role: Role) -> None:
        self._limit = limit
        self._prefix = role.prefix
        self._room = limit - _size(role.prefix)
        if self._room < _LEAST_ROOM:
            raise InvalidProfile(f"max_input_tokens {limit} leaves no room beside the prefix {role.prefix!r}")

    def pieces(self, text: str, count: Callable[[str], int | None] | None = None) -> list[str]:
        """The texts to embed for one text, each of which fits behind the prefix: itself, or its pieces.

        `count` gives the tokens of a text, or None where they are not known; without it every text that could be
        too long is cut.
        """
        size = _size(text)
        if size <= self._room:
            return [text]
        if count is not None and size <= self._limit * _COUNTABLE:
            tokens = count(self._prefix + text)
            if tokens is not None and tokens <= self._limit:
                return [text]
        return list(_cut(text, self._room))


def _cut(text: str, room: int) -> Iterator[str]:
    """Pieces of at most so many UTF-8 bytes, cut at the last whitespace in the second half, else between two letters;
    blank pieces are left out."""
    data = text.encode("utf-8")
    start = 0
    while start < len(data):
        end = min(start + room, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # not inside a character
            end -= 1
        if end < len(data) and not data[end : end + 1].isspace():
            end = _last_gap(data, start, end)
        piece = data[start:end].decode("utf-8")
        if piece.strip():
            yield piece
        start = end


def _last_gap(data: bytes, start: int, end: int) -> int:
    half = start + (end - start) // 2
    for position in range(end, half, -1):
        if data[position - 1 : position].isspace():
            return position
    return end


def _size(text: str) -> int:
    return len(text.encode("utf-8"))
