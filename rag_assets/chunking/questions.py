"""Questions with their answers, however a document writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_assets.chunking.outline import Outline
from rag_assets.chunking.recursive import next_nonspace
from rag_assets.chunking.structure import Sections
from rag_assets.documents.model import Block

_QUESTION = re.compile(
    r"^[^\S\n]*(?:\*\*)?(?:Q|Question|Frage|Pregunta)(?:\*\*)?[ \t]*\d*[ \t]*[:.)]\s*\S", re.MULTILINE
)
_ENDINGS = ("?", "？", "؟", "՞", ";")


@dataclass(frozen=True)
class QuestionAnswer:
    """A question from `start` to `question_end`, and its answer up to `end`."""

    start: int
    question_end: int
    end: int


def find_questions(text: str, outline: Outline) -> list[QuestionAnswer]:
    """Return the questions of a document: its question blocks, else headings that ask, else lines `Q: …`."""
    spans = [(block.start, block.end) for block in outline.blocks if block.kind == "question"]
    if not spans:
        questions = _asking_headings(text, outline)
        if questions:
            return questions
        spans = [
            (next_nonspace(text, match.start()), _line_end(text, match.end())) for match in _QUESTION.finditer(text)
        ]
    ends = [*(start for start, _ in spans[1:]), *([len(text)] if spans else [])]
    return [QuestionAnswer(start, question_end, end) for (start, question_end), end in zip(spans, ends, strict=True)]


def _asking_headings(text: str, outline: Outline) -> list[QuestionAnswer]:
    """Return each heading that asks, with its answer up to the next heading that is not below it.

    A heading that has others that ask below it is the title of a collection.
    """
    headings = [block for block in outline.blocks if block.kind == "heading"]
    questions: list[QuestionAnswer] = []
    unended: list[Block] = []
    for heading in [*headings, Block("heading", len(text), len(text))]:
        while unended and len(unended[-1].heading_path) >= len(heading.heading_path):
            question = unended.pop()
            if not questions or questions[-1].start < question.start:
                questions.append(QuestionAnswer(question.start, question.end, heading.start))
        if _asks(text[heading.start : heading.end]):
            unended.append(heading)
    return questions


def question_sections(text: str, outline: Outline, questions: list[QuestionAnswer]) -> Sections:
    """Return the questions, and what is between them, as sections side by side; headings above one belong to it."""
    edges = {edge for one in questions for edge in (one.start, next_nonspace(text, one.end))}
    opened = None
    for block in outline.blocks:
        if opened is not None and block.start in edges:
            edges.remove(block.start)
            edges.add(opened)
        if block.kind != "heading":
            opened = None
        elif opened is None:
            opened = block.start
    starts = sorted(edges - {len(text)})
    depths = [1] * len(starts)
    return Sections(starts, depths, depths)


def _asks(heading: str) -> bool:
    # The line of the words, not the rule under them that Markdown also writes headings with.
    return heading.partition("\n")[0].rstrip(" #*_").endswith(_ENDINGS)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)
