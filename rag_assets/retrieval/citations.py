"""Whether an answer cites what there is, and quotes what stands there."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rag_assets.errors import InvalidArgument
from rag_assets.retrieval.context import Context
from rag_assets.retrieval.folding import Folded, fold
from rag_assets.retrieval.results import RetrievalResult

Verdict = Literal["stands", "elsewhere", "nowhere", "uncited"]

_CITED = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;–-]\s*\d{1,6})*)\s*\]")
_CLOSING = {
    "“": "”", "„": "“”", "”": "”", "«": "»", "»": "«", "‹": "›", "›": "‹", '"': '"', "「": "」", "『": "』",
}  # fmt: skip
_SENTENCE_END = re.compile(r"[.!?…](?=\s)|[。！？]|\n")
_GAP = re.compile(r"\[?(?:\.\.\.|…)\]?")  # words that a quote leaves out
_QUOTE_CHARS, _RANGE = 2_000, 50
_BETWEEN = re.compile(r"[ \t,]*")  # citations that are one group
_DIRECTLY = re.compile(r"[\s.,;:!?)。、，）]*")


@dataclass(frozen=True)
class Quote:
    """A passage that an answer quotes.

    Attributes:
        text, start, end: what stands between the quotation marks, and where, in code points of the answer.
        cited: the numbers of the citations near it.
        verdict: it `stands` in a passage that is cited for it; stands `elsewhere`, in a passage that is not; stands
            `nowhere`; or is `uncited`, and `number` says whether it stands anywhere.
        number: the passage that it stands in, None for none.
        place: where, from and to, in code points of that passage's content.
        source_place: the same in the text of the source, where the citation tells it.
    """

    text: str
    start: int
    end: int
    cited: tuple[int, ...]
    verdict: Verdict
    number: int | None = None
    place: tuple[int, int] | None = None
    source_place: tuple[int, int] | None = None


@dataclass(frozen=True)
class CitationCheck:
    """What an answer cites: numbers that there are, in the order of the answer, numbers that there are not, and what it
    quotes."""

    cited: tuple[int, ...]
    unknown: tuple[int, ...]
    quotes: tuple[Quote, ...]

    @property
    def holds(self) -> bool:
        """Whether something is cited, nothing that is not there, and every quote stands where it is said to."""
        return bool(self.cited) and not self.unknown and all(one.verdict == "stands" for one in self.quotes)


def check_citations(
    answer: str, passages: Context | Mapping[int, RetrievalResult] | Sequence[RetrievalResult]
) -> CitationCheck:
    """Look up every `[n]` of an answer, and every quote in it, in the passages that it was made from.

    `passages` are a context, or results by number, or results that are numbered from 1 on. Quotes stand in the
    quotation marks of any of these languages: “ ”, " ", „ “, « », » «, ‹ ›, 「 」, 『 』. They are compared without
    white space, case, kinds of quotation marks and dashes, and forms of the same character; `…` or `...` in one leaves
    words out. A citation is near a quote where it follows directly, or else in the same sentence.

    Raises:
        InvalidArgument: names the argument that is of the wrong kind.
    """
    if not isinstance(answer, str):
        raise InvalidArgument(f"answer must be a string, got {type(answer).__name__}", "answer")
    known = _numbered(passages)
    marks = [(one.start(), one.end(), numbers) for one in _CITED.finditer(answer) if (numbers := _numbers(one[1]))]
    cited = tuple(dict.fromkeys(number for _, _, numbers in marks for number in numbers))
    folded: dict[int, Folded] = {}
    sentences = [one.span() for one in _SENTENCE_END.finditer(answer)]
    quotes = [_checked(answer, start, end, marks, sentences, known, folded) for start, end in _quotes(answer)]
    there = tuple(number for number in cited if number in known)
    return CitationCheck(there, tuple(number for number in cited if number not in known), tuple(quotes))


def _numbered(passages: object) -> Mapping[int, RetrievalResult]:
    if isinstance(passages, Context):
        return passages.passages
    if isinstance(passages, Mapping):
        known = dict(passages)
    elif isinstance(passages, Sequence) and not isinstance(passages, str | bytes):
        known = dict(enumerate(passages, 1))
    else:
        known = {0: passages}
    if not all(isinstance(one, RetrievalResult) for one in known.values()):
        raise InvalidArgument("passages must be a context, or results of a retrieval", "passages")
    return known


def _numbers(text: str) -> tuple[int, ...]:
    """`1, 3-5` as numbers; a range that is none is two numbers."""
    numbers: list[int] = []
    for part in re.split(r"\s*[,;]\s*", text):
        first, _, last = (re.sub(r"\s*[–-]\s*", "-", part)).partition("-")
        low, high = int(first), int(last.partition("-")[0] or first)
        numbers += range(low, high + 1) if low <= high <= low + _RANGE else [low, high]
    return tuple(dict.fromkeys(numbers))


def _quotes(answer: str) -> Iterator[tuple[int, int]]:
    """From where to where there is something between quotation marks."""
    position = 0
    while position < len(answer):
        closing = _CLOSING.get(answer[position])
        end = _closed(answer, position + 1, closing) if closing else None
        if end is None:
            position += 1
            continue
        if answer[position + 1 : end].strip():
            yield position + 1, end
        position = end + 1


def _closed(answer: str, start: int, closing: str) -> int | None:
    furthest = min(len(answer), start + _QUOTE_CHARS)
    paragraph = answer.find("\n\n", start, furthest)
    last = furthest if paragraph < 0 else paragraph
    ends = [end for one in closing if (end := answer.find(one, start, last)) >= 0]
    return min(ends, default=None)


_Mark = tuple[int, int, tuple[int, ...]]


def _checked(
    answer: str,
    start: int,
    end: int,
    marks: Sequence[_Mark],
    sentences: Sequence[tuple[int, int]],
    known: Mapping[int, RetrievalResult],
    folded: dict[int, Folded],
) -> Quote:
    text = answer[start:end]
    inside = marks[_first_from(marks, start) : _first_from(marks, end)]
    within = [number for _, last, numbers in inside if last <= end for number in numbers]
    cited = tuple(dict.fromkeys([*within, *_near(answer, start - 1, end + 1, marks, sentences)]))
    readings = [_parts(text), _parts(_CITED.sub("", text))] if within else [_parts(text)]
    for number in (*(one for one in cited if one in known), *(one for one in known if one not in cited)):
        if number not in folded:
            folded[number] = fold(known[number].content)
        span = next((span for parts in readings if (span := _found(parts, folded[number]))), None)
        if span is not None:
            verdict: Verdict = "stands" if number in cited else "elsewhere" if cited else "uncited"
            return Quote(text, start, end, cited, verdict, number, span, _in_source(known[number], span))
    return Quote(text, start, end, cited, "nowhere" if cited else "uncited")


def _near(
    answer: str, start: int, end: int, marks: Sequence[_Mark], sentences: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The numbers of citations that belong to what stands from `start` to `end`, its quotation marks included.
    `sentences` are the ends of sentences, from and to."""
    directly = _after(end + len(_DIRECTLY.match(answer, end)[0]), answer, marks)  # type: ignore[index]
    if directly:
        return directly
    stop = bisect_left(sentences, end, key=lambda one: one[0])
    begin = bisect_right(sentences, start, key=lambda one: one[1]) - 1
    first, last = (sentences[begin][1] if begin >= 0 else 0), [*sentences[stop : stop + 1], (0, len(answer))][0][1]
    following = _first_from(marks, end)
    before = bisect_right(marks, start, key=lambda mark: mark[1]) - 1
    groups = [
        _after(marks[following][0], answer, marks) if following < len(marks) and marks[following][0] < last else (),
        _group_before(before, answer, marks) if before >= 0 and marks[before][0] >= first else (),
    ]
    return tuple(dict.fromkeys(number for group in groups for number in group))


def _first_from(marks: Sequence[_Mark], position: int) -> int:
    """Which citation is the first that begins there or later."""
    return bisect_left(marks, position, key=lambda mark: mark[0])


def _after(position: int, answer: str, marks: Sequence[_Mark]) -> tuple[int, ...]:
    """The numbers of the citations that begin here, one after the other."""
    numbers: list[int] = []
    for place in range(_first_from(marks, position), len(marks)):
        start, end, cited = marks[place]
        if start != position:
            break
        numbers += cited
        position = end + len(_BETWEEN.match(answer, end)[0])  # type: ignore[index]
    return tuple(numbers)


def _group_before(last: int, answer: str, marks: Sequence[_Mark]) -> tuple[int, ...]:
    """The numbers of the citations that end with this one, one after the other."""
    begins, _, numbers = marks[last]
    for place in range(last - 1, -1, -1):
        start, end, cited = marks[place]
        if answer[end:begins].strip(" \t,"):
            break
        numbers, begins = (*cited, *numbers), start
    return tuple(numbers)


def _parts(text: str) -> list[str]:
    """What has to stand there, one after the other; punctuation at the ends is often the answer's own."""
    plain = re.sub(r"\n>[ \t]?", "\n", text)
    return [part for one in _GAP.split(plain) if (part := fold(one).text.strip(' .,;:!?"。，、'))]


def _found(parts: Sequence[str], whole: Folded) -> tuple[int, int] | None:
    if not parts:
        return None
    first, position = -1, 0
    for part in parts:
        at = whole.text.find(part, position)
        while at >= 0 and (_in_word(whole.text, at) or _in_word(whole.text, at + len(part))):
            at = whole.text.find(part, at + 1)
        if at < 0:
            return None
        first = at if first < 0 else first
        position = at + len(part)
    return whole.span(first, position)


def _in_word(text: str, at: int) -> bool:
    """Whether what begins or ends here parts a word or a number; scripts without spaces have no such places."""
    return 0 < at < len(text) and all(unicodedata.category(one) in ("Ll", "Nd") for one in text[at - 1 : at + 1])


def _in_source(passage: RetrievalResult, span: tuple[int, int]) -> tuple[int, int] | None:
    start, end = passage.citation.get("start"), passage.citation.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or end - start != len(passage.content):
        return None
    return start + span[0], start + span[1]
