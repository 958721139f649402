from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse


def read(text: str, name: str = "a.srt") -> Document:
    (record,) = parse(text.encode(), name)
    assert record.document is not None, record.error
    return record.document


def cue(start: float, end: float, *lines: str) -> str:
    def clock(seconds: float) -> str:
        whole = int(seconds)
        return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02},{round(seconds % 1 * 1000):03}"

    return f"{clock(start)} --> {clock(end)}\n" + "\n".join(lines) + "\n\n"


def test_cues_that_belong_together_are_a_paragraph_and_each_keeps_its_time() -> None:
    text = (
        "1\n" + cue(1, 2, "We begin", "with this.") + "2\n" + cue(2, 3.5, "And go on.") + "3\n" + cue(9, 10, "Later.")
    )
    document = read(text)
    assert document.text == "We begin with this.\nAnd go on.\n\nLater."
    assert [(document.text[int(place) :][:5], start, end) for place, start, end in document.metadata["cues"]] == [
        ("We be", 1.0, 2.0),
        ("And g", 2.0, 3.5),
        ("Later", 9.0, 10.0),
    ]


def test_webvtt_loses_its_notes_styles_settings_and_tags_and_keeps_its_voices() -> None:
    text = (
        "WEBVTT - a title\n\nNOTE\nnot said\n\nSTYLE\n::cue{}\n\nintro\n00:01.000 --> 00:02.000 align:start\n"
        "<v.loud Esme>It’s &amp; <i>blue</i>!</v>\n\n00:02.000 --> 00:03.000\n<v Mary>No <00:02.500>way!\n"
    )
    document = read(text, "a.vtt")
    assert document.text == "Esme: It’s & blue!\n\nMary: No way!"
    assert document.content_type == "text/vtt"


def test_lines_that_roll_up_are_said_once() -> None:
    text = cue(0, 1, "one two") + cue(1, 2, "one two", "three four") + cue(2, 3, "three four", "five six")
    assert read(text).text == "one two\nthree four\nfive six"
    assert read(cue(0, 1, "No!") + cue(1, 2, "No!")).text == "No!\nNo!"


def test_subtitles_with_windows_line_ends_and_other_encodings_are_read() -> None:
    text = ("1\n" + cue(1, 2, "{\\an8}Größe")).replace("\n", "\r\n")
    (record,) = parse(text.encode("utf-16"), "a.srt")
    assert record.document is not None
    assert record.document.text == "Größe"


@pytest.mark.parametrize(("text", "status"), [("WEBVTT\n", "no_text"), (cue(0, 1, ""), "no_text"), ("words", "failed")])
def test_subtitles_that_say_nothing_are_no_text_and_other_text_is_refused(text: str, status: str) -> None:
    (record,) = parse(text.encode(), "a.srt")
    assert record.status == status


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<>&{}-"), min_size=1), max_size=8
    )
)
def test_every_offset_points_at_the_words_of_its_cue(lines: list[str]) -> None:
    said = [line for line in lines if line.strip()]
    records = parse("".join(cue(n, n + 1, line) for n, line in enumerate(said)).encode(), "a.srt")
    for record in records:
        document = record.document
        for place, _, _ in document.metadata["cues"] if document else ():
            assert document is not None
            assert not document.text[place].isspace()
            assert place == 0 or document.text[place - 1].isspace()
