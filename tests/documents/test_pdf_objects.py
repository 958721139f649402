"""Text that PDFium passes over: vertical text in fonts that are not in the file."""

from __future__ import annotations

from typing import Any

from rag_assets.documents.registry import parse
from tests.support.pdf_files import drawn, says, vertical

POEM = (
    "わたくしといふ現象は",
    "假定された有機交流電燈の",
    "ひとつの青い照明です",
    "（あらゆる透明な幽霊の複合体）",
    "風景や",
)


def parsed(data: bytes) -> tuple[str, dict[str, Any]]:
    (record,) = parse(data, "a.pdf")
    assert record.document is not None, record.error
    return record.document.text, record.document.metadata["quality"]


def test_vertical_text_in_a_font_that_is_not_in_the_file_is_read_from_right_to_left() -> None:
    text, quality = parsed(vertical(*POEM))
    assert text.split() == list(POEM)
    assert "text_objects_unread" not in quality


def test_a_column_in_pieces_is_one_line_and_an_empty_one_parts_two_paragraphs() -> None:
    text, _ = parsed(vertical("わたくし|といふ|現象は", "\u3000\u3000", "ひとつの青い照明です"))
    assert text == "わたくしといふ現象は\n\nひとつの青い照明です"


def test_columns_beside_text_across_the_page_are_not_lost() -> None:
    across = "The text of this page runs across it, but for a few columns at its side."
    text, _ = parsed(vertical("わたくし", "現象は", across=across))
    assert across in text
    assert {"わたくし", "現象は"} <= set(text.split())


def test_text_objects_that_give_no_text_are_counted() -> None:
    """A font that draws its own shapes need not say which characters they are."""
    text, quality = parsed(drawn(says("Readable") + b" BT /T 10 Tf 20 100 Td <0101> Tj 0 -20 Td <01> Tj ET"))
    assert (text, quality["text_objects_unread"]) == ("Readable", 2)
    # Spaces show nothing, and what is printed again is read already.
    text, quality = parsed(drawn(says("Readable") + b" " + says("Readable") + b" BT /F1 12 Tf 20 100 Td (   ) Tj ET"))
    assert text == "Readable"
    assert "text_objects_unread" not in quality
