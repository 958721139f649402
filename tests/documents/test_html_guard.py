from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.documents.parsers.html.guard import is_tangled, plain_text
from rag_assets.documents.parsers.html.page import parse_html

ARTICLE = "<meta property='og:type' content='article'>"


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        ("<div>" * 100_000 + "deep", "deep"),
        ("<p>word " * 100_000, "word"),
        ("<ul><li>item " * 30_000, "item"),
        ("<b>bold " * 50_000, "bold"),
        ("".join(f"<p><font color={n}>text " for n in range(20_000)), "text"),
        ("<select><option>choice" * 20_000 + "</select>end", "end"),
        ("<table><tr><td>" * 20_000 + "cell", "cell"),
        ("<table>" + "<tr><td>a<td>b" * 20_000, "a | b"),
        (ARTICLE + "<div><p>word text here</p></div>" * 5_000, "word text here"),
        (ARTICLE + "<ul>word text here</ul>" * 8_000, "word text here"),
        ("<main>" + "<aside class=note>" * 400 + "<a href=/>word</a> text <i></i>" * 50_000, "word"),
        ("word <br>" * 50_000, "word"),
        ("<" * 300_000 + "> tail", "tail"),
        ("word<!--" + "<!--" * 100_000, "word"),
        ("word<script>" * 50_000, "word"),
    ],
    ids=lambda value: value[:20],
)
def test_tangled_and_repetitive_pages_are_read_in_time_that_grows_with_their_size(page: str, kept: str) -> None:
    started = time.process_time()
    (record,) = parse_html(page.encode(), "a.html", "text/html")
    assert time.process_time() - started < 5
    assert record.document is not None
    assert kept in record.document.text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<div>" * 600, True),
        ("<div>" * 400, False),
        ("<div></div>" * 5_000, False),
        ("<p>x<br><li>y" * 5_000, False),
        ("<i>" * 100 + "<p>" * 40_000, True),
        ("<script>'" + "<div>" * 1_000 + "'</script>", False),
        ("<!-- " + "<div>" * 1_000 + " -->", False),
        ("<!-->" + "<div>" * 600, True),
    ],
)
def test_a_tangle_is_told_by_what_is_open_at_once(page: str, expected: bool) -> None:
    assert is_tangled(page) is expected


def test_the_text_of_a_tangle_has_neither_scripts_nor_comments_nor_welded_words() -> None:
    page = "<title>t</title><div>a &amp; b<p>c  d<SCRIPT>x='<p>'</Script>e<!-- f -->g<style>h</style>"
    assert plain_text(page) == "a & b\nc d\ne\ng"


@settings(deadline=None)
@given(st.lists(st.sampled_from(["<b>", "</b>", "<script>", "</script>", "<!--", "-->", "<", ">", "x", "</", "&lt;"])))
def test_no_sequence_of_tags_makes_it_fail(parts: list[str]) -> None:
    page = "".join(parts)
    assert is_tangled(page) in (True, False)
    assert "<b>" not in plain_text(page.replace("&lt;", ""))
