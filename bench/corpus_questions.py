"""Known-item questions, made of the text of documents: titles, sentences and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

KINDS = ("short", "claim", "paragraph")
_SENTENCE = re.compile(r"(?<=[.!?]\s)([A-ZÀ-Þ][^\n.!?]{50,240}[.!?])(?=\s|$)")


def questions_of(record: Mapping[str, str], is_title_unique: bool) -> Iterator[tuple[str, str]]:
    """The kinds of question that a document of (`title`, `text`) gives, and the text of each."""
    title, text = record["title"], record["text"]
    if is_title_unique and 2 <= len(title.split()) <= 10 and _is_prose(title):
        yield "short", title
    # From the middle: the first words of a page are often those of many others.
    middle = text[len(text) // 4 :]
    claim = next((" ".join(found[1].split()) for found in _SENTENCE.finditer(middle) if _is_prose(found[1])), None)
    if claim is not None:
        yield "claim", claim
    for paragraph in middle.split("\n\n")[1:]:
        if 400 <= len(paragraph) <= 1500 and len(paragraph.split()) >= 60 and _is_prose(paragraph):
            yield "paragraph", " ".join(paragraph.split())
            return


def _is_prose(text: str) -> bool:
    """Whether it is mostly letters and spaces, and not a table or code."""
    return sum(map(str.isalpha, text)) + text.count(" ") > 0.93 * len(text)
