"""Runs of combining marks keep their first thirty, and other texts are not slowed down by looking for them."""

from __future__ import annotations

import pytest

from rag_assets import marks

_ACUTE, _BEYOND = "\u0301", "\U00011366"  # the second is a mark of Grantha, beyond the first plane


@pytest.mark.parametrize("mark", [_ACUTE, _BEYOND])
def test_of_marks_in_a_row_the_first_thirty_stay(mark: str) -> None:
    assert marks.bounded(f"a{mark * 30}b") == f"a{mark * 30}b"
    assert marks.bounded(f"a{mark * 31}b{mark * 90}") == f"a{mark * 30}b{mark * 30}"


def test_a_run_of_marks_of_both_planes_is_one() -> None:
    assert marks.bounded("a" + _ACUTE * 20 + _BEYOND * 20 + "é") == "a" + _ACUTE * 20 + _BEYOND * 10 + "é"


def test_a_text_of_the_first_plane_is_searched_by_a_bitmap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set with one character beyond it is a list, walked for each character of the text: 40 times slower."""
    asked: list[int] = []
    of = marks._marks
    monkeypatch.setattr(marks, "_marks", lambda end: asked.append(end) or of(end))
    marks.bounded("café – “quoted”")
    marks.bounded("a rocket, \U0001f680, is beyond all marks")
    assert max(asked) <= 0x10000 == marks._PLANE_END
    marks.bounded(f"क{_BEYOND}")
    assert asked[-1] > 0x11300
