"""What a name says of a file."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.names import suffix


@given(st.text("aB./\\ é", max_size=12))
def test_a_suffix_is_that_of_a_path(name: str) -> None:
    assert suffix(name) == PurePosixPath(name.replace("\\", "/")).suffix.lower()


def test_a_suffix_of_a_web_address_is_that_of_its_path() -> None:
    assert suffix("https://example.com/a%20b.PDF?x=1.txt") == ".pdf"
