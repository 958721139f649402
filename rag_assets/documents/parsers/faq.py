"""Question and answer pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from rag_assets.documents.blank import is_blank
from rag_assets.documents.model import Block, Document, Record
from rag_assets.documents.normalize import normalize
from rag_assets.errors import ParseError

_PAIRS = (("question", "answer"), ("q", "a"), ("prompt", "response"))


def pair_columns(columns: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the names of the question and the answer column as they are spelled, if there are both."""
    spelled = {name.strip().lower(): name for name in columns}
    for question, answer in _PAIRS:
        if question in spelled and answer in spelled:
            return spelled[question], spelled[answer]
    return None


def question_key(question: str) -> str:
    """Return a key that stays the same while the question does."""
    return hashlib.sha256(question.encode()).hexdigest()[:32]


def faq_record(question: Any, answer: Any, key: str | None, metadata: dict[str, Any]) -> Record:
    """Return the record of one pair; without a key it is named by its question.

    Raises:
        ParseError: a part is not text, or the question is blank.
    """
    question, answer = _part(question, "question"), _part(answer, "answer")
    if not question:
        raise ParseError("the question is empty")
    key = key or question_key(question)
    if not answer:
        return Record(key, question, "no_text", error="the answer is empty", source_type="faq")
    begin = len(question) + 2
    text = f"{question}\n\n{answer}"
    blocks = (Block("question", 0, len(question)), Block("answer", begin, len(text)))
    document = Document(text=text, title=question, blocks=blocks, metadata={**metadata, "doc_id": key})
    return Record(key=key, name=question, status="ready", document=document, source_type="faq")


def _part(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ParseError(f"the {what} is a {type(value).__name__}, not text")
    text = normalize(value).strip()
    return "" if is_blank(text) else text
