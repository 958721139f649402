"""What no reader sees is no text, whatever Unicode calls it, and nothing of it is embedded."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.chunking.spec import ChunkingSpec
from rag_assets.documents.blank import is_blank
from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse
from tests.support.office_files import docx

UNSEEN = ["\u200b", "\u00ad", "\u2060", "\u2800", "\u3164", "\uffa0", "\u115f", "\ufe0f", "\u180e", "\ufeff", "\u034f"]
DRAWN_FORMATS = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")


def test_spaces_controls_and_format_characters_are_blank_and_letters_marks_and_signs_are_seen() -> None:
    wrong = []
    for code in range(sys.maxunicode + 1):
        character, category = chr(code), unicodedata.category(chr(code))
        if category[0] == "Z" or category in ("Cc", "Cs") or (category == "Cf" and character not in DRAWN_FORMATS):
            right = is_blank(character)
        elif category[0] in "NPS" or category in ("Lu", "Ll", "Lt", "Lm", "Mc", "Me", "Co") or category == "Cf":
            right = not is_blank(character) or character in "\u2800\ufffc\U0001d159"
        else:
            right = "FILLER" not in unicodedata.name(character, "") or is_blank(character)
        wrong += [] if right else [hex(code)]
    assert wrong == []


@pytest.mark.parametrize("unseen", UNSEEN, ids=lambda text: f"U+{ord(text):04X}")
def test_a_file_of_nothing_that_is_seen_holds_no_text(unseen: str) -> None:
    lines = f"{unseen * 3}\n\n{unseen}\n" * 500
    files: dict[str, str | bytes] = {
        "a.txt": lines,
        "a.md": lines,
        "a.py": lines,
        "a.rst": lines,
        "a.html": f"<html><body><p>{unseen}</p><p>{unseen * 9}</p></body></html>",
        "a.xml": f"<a><p>{unseen}</p><b>{unseen}</b></a>",
        "a.csv": f"id,text\n7,{unseen}\n",
        "faq.csv": f"question,answer\nWhy?,{unseen}\n",
        "a.jsonl": f'{{"_id": "7", "text": "{unseen}"}}',
        "a.docx": docx(f"<w:p><w:r><w:t>{unseen}</w:t></w:r></w:p>"),
    }
    for name, data in files.items():
        found = parse(data.encode() if isinstance(data, str) else data, name)
        assert [record.status for record in found] == ["no_text"], name


def test_what_is_unseen_beside_words_stays_and_makes_no_chunk_of_its_own() -> None:
    text = "Where is it?\n\n" + "\u200b\n" * 5000 + "Here\u00ad."
    (record,) = parse(text.encode(), "a.txt")
    assert record.document is not None
    assert record.document.text == text
    chunks = chunk_document(record.document, ChunkingSpec(size=800, overlap=100))
    assert 1 <= len(chunks) <= 2
    assert "Where is it?" in chunks[0].content
    assert "Here\u00ad." in chunks[-1].content


@pytest.mark.parametrize("strategy", ["recursive", "character", "sentence", "paragraph", "markdown", "hybrid"])
def test_no_chunk_is_blank_whatever_cuts(strategy: str) -> None:
    document = Document("a\n\n" + "\u3164 \u2800\u200b " * 3000 + "\n\nz")
    chunks = chunk_document(document, ChunkingSpec.model_validate({"strategy": strategy, "size": 200, "overlap": 0}))
    assert chunks
    assert not any(is_blank(chunk.content) for chunk in chunks)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
