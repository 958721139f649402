from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse

HEAD = (
    rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}"
    rb"{\f2\fcharset128 MS Mincho;}}{\colortbl;\red0;}{\stylesheet{\s0 Normal;}{\s1 heading 1;}"
    rb"{\s2\outlinelevel1 Own;}}"
)


def rtf(body: bytes) -> Document:
    (record,) = parse(HEAD + body + b"}", "a.rtf")
    assert record.document is not None, record.error
    return record.document


def test_paragraphs_headings_lists_and_tables_are_blocks() -> None:
    document = rtf(
        rb"\pard\s1 Intro\par\pard\s2 Deeper\par\pard\s0 Hello {\b bold} \i world\i0\par"
        rb"{\listtext\'b7\tab}\ls1 Item one\par{\listtext 2.\tab}Item two\par"
        rb"\trowd\cellx1\cellx2\pard\intbl A\cell B\par C\cell\row\trowd\intbl 1\cell 2\cell\row\pard After\par"
    )
    assert document.text == "Intro\n\nDeeper\n\nHello bold world\n\n- Item one\n2. Item two\n\nA | B C\n1 | 2\n\nAfter"
    assert [block.kind for block in document.blocks] == [
        "heading", "heading", "paragraph", "list", "table", "paragraph",
    ]  # fmt: skip
    assert document.blocks[-1].heading_path == ("Intro", "Deeper")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (rb"w\u246\'f6rld\'85 \u246 ?", "wörld… ö"),
        (rb"{\f1 \'cf\'f0\'e8\'e2\'e5\'f2} x", "Привет x"),
        (rb"{\f2 \'93\'fa\'96\'7b\'8c\'ea \'83A}", "日本語 ア"),
        (rb"\u-10179?\u-8704?", "😀"),
        (rb"\uc0\u233x\uc2\u233ab!", "éxé!"),
        (rb"a\~b\_c\-d\{\}\\", "a\u00a0b\u2011cd{}\\"),
        (rb"one\line two\tab three", "one\ntwo\tthree"),
        (rb"{\upr{ansi}{\*\ud{unicode \u26085?}}}", "unicode 日"),
        (rb"{\field{\*\fldinst HYPERLINK http://x}{\fldrslt shown}}", "shown"),
        (rb"{\v hidden}seen{\deleted gone}\v x\v0  again", "seen again"),
        (rb"a{\pict\bin7 }}}{{{{x}b{\*\unknown{x}y}c", "abc"),
        (rb"{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt In a box\par}}}", "In a box"),
        (rb"{\header Top\par}{\info{\title T}}body", "body"),
    ],
)
def test_characters_destinations_and_hidden_parts(source: bytes, text: str) -> None:
    assert rtf(source).text == text


def test_notes_and_comments_follow_their_paragraph_and_properties_are_read() -> None:
    document = rtf(
        rb"{\info{\title My \'e9 title}{\author Bob}}Claim{\footnote A note.}{\*\atnauthor Ann}"
        rb"{\*\annotation Really?}\par Next\par"
    )
    assert document.text == "Claim\n\n[^note]: A note.\n\n[Comment by Ann]: Really?\n\nNext"
    assert (document.title, document.metadata["author"]) == ("My é title", "Bob")


def test_a_file_is_known_as_rich_text_by_its_content_and_refused_by_it() -> None:
    (record,) = parse(HEAD + b"text}", "a.doc", "application/msword")
    assert record.document is not None, record.error
    assert record.document.text == "text"
    (record,) = parse(b"plain", "a.rtf")
    assert record.status == "failed"
    assert "no rich text" in (record.error or "")


def test_endless_nesting_is_refused() -> None:
    (record,) = parse(HEAD + b"{" * 20_000, "a.rtf")
    assert record.status == "failed"
    assert "nested" in (record.error or "")


WORDS = (
    rb"\par |\cell |\row |\intbl |\pard |\u|\u99999999 |\'|\'e9|\*|\bin9 |\bin-5 |\uc|\s1 |\footnote |\listtext |\f7 "
)
TOKENS = st.sampled_from([b"{", b"}", b"text ", b"\n", *WORDS.split(b"|")])


@given(st.lists(TOKENS | st.binary(max_size=4), max_size=40))
def test_no_rich_text_does_more_than_fail(tokens: list[bytes]) -> None:
    (record,) = parse(HEAD + b"".join(tokens), "a.rtf")
    assert record.status in ("ready", "no_text")


def test_cells_of_a_row_that_nothing_closes_are_kept() -> None:
    assert rtf(rb"Fax Station\cell Fax Number\cell ").text == "Fax Station | Fax Number"
    assert rtf(rb"\trowd\intbl 1\cell 2\cell\row\trowd\intbl 3\cell 4\cell ").text == "1 | 2\n3 | 4"
    assert rtf(rb"\trowd\intbl 1\cell last").text == "1 | last"
    assert rtf(rb"\trowd\intbl 1\cell last\row\pard After\par").text == "1 | last\n\nAfter"
