"""Bold print and shadows that are made by printing each character again, a little further on."""

from __future__ import annotations

import pytest

from rag_assets.documents.registry import parse
from tests.support.pdf_files import pdf

# Widths of Helvetica in thousandths of its size.
WIDTHS = {"m": 833, "H": 722, "B": 667, "r": 333, "-": 333} | dict.fromkeys("il", 222) | dict.fromkeys("ft ", 278)


def doubled(text: str, copies: int, right: float, up: float, turn: str = "1 0 0 1", size: int = 10) -> bytes:
    """Each character is followed by its copies before the next is printed; distances in parts of the size."""
    out, x = [], 0.0
    for character in text:
        for copy in range(copies + 1):
            way, rise = size * (x + right * (copy in (1, 2))), size * up * (copy in (1, 3))
            at = (100 + way, 150 + rise) if turn == "1 0 0 1" else (100 - rise, 20 + way)
            out.append(f"BT /F1 {size} Tf {turn} {at[0]:.3f} {at[1]:.3f} Tm ({character}) Tj ET")
        x += WIDTHS.get(character, 556) / 1000
    return "\n".join(out).encode()


def text_of(*pages: bytes) -> str:
    (record,) = parse(pdf(*pages), "a.pdf")
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize("size", [6, 10, 20])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize(("right", "up"), [(0.02, 0.0), (0.05, 0.05), (0.09, 0.0), (0.09, -0.09), (0.0, 0.12)])
@pytest.mark.parametrize("text", ["Hill-Billboard", "balloon goose", "1100 feet of hall"])
def test_a_character_printed_again_at_the_same_place_is_read_once(
    text: str, copies: int, right: float, up: float, size: int
) -> None:
    """Letters that belong twice stay twice, and words stay apart."""
    assert text_of(doubled(text, copies, right, up, size=size)) == text


def test_text_that_runs_up_the_page_is_read_once_too() -> None:
    assert text_of(doubled("Hall-Bill", 1, 0.09, 0.0, turn="0 1 -1 0")) == "Hall-Bill"


@pytest.mark.parametrize("scale", [100, 60, 40])
def test_letters_that_stand_close_in_narrow_print_all_stay(scale: int) -> None:
    page = f"BT /F1 12 Tf {scale} Tz 20 200 Td (Will tell of illness, 1111 balls) Tj ET".encode()
    assert text_of(page) == "Will tell of illness, 1111 balls"


def test_the_same_words_in_two_places_all_stay() -> None:
    page = b"BT /F1 12 Tf 20 200 Td (Lac) Tj 40 0 Td (Lac) Tj 0 -20 Td (Lac) Tj ET"
    assert text_of(page).split() == ["Lac", "Lac", "Lac"]
