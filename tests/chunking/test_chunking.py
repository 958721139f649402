from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.chunking import ChunkingSpec, chunk_document, count_tokens
from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import paragraphs
from rag_assets.documents.model import Block, Chunk, Document
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.markdown import markdown_blocks
from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import InvalidProfile

PIECES = [
    *(" ", "  ", "\n", "\n\n", "\r\n", "\t", ". ", "。", "\u3000", "\u200d", "# h\n", "\0"),
    *("word", "a", "Überraschung", "日本語", "e\u0301", "q\u0323\u0307", "x" * 45),
    *("👨‍👩‍👧", "🇩🇪🇫🇷", "👍🏽", "\ud83d\ude00", "\ud800"),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=60).map("".join).map(normalize)


@st.composite
def specs(draw: st.DrawFn) -> ChunkingSpec:
    size = draw(st.integers(20, 60))
    return ChunkingSpec(size=size, overlap=draw(st.integers(0, size - 1)))


def chunked(text: str, size: int, overlap: int = 0) -> list[Chunk]:
    return chunk_document(Document(text), ChunkingSpec(size=size, overlap=overlap))


@given(TEXTS, specs(), st.booleans())
@example("chunk chunk " * 5, ChunkingSpec(size=20, overlap=19), False)
@settings(max_examples=400, deadline=None)
def test_every_chunk_is_where_it_says_and_no_larger_than_allowed(
    text: str, spec: ChunkingSpec, structured: bool
) -> None:
    blocks = tuple(markdown_blocks(text)) if structured else ()
    chunks = chunk_document(Document(text, blocks=blocks), spec)
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert text[chunk.start : chunk.end] == chunk.content
        assert 0 < len(chunk.content) <= spec.size
        assert chunk.content == chunk.content.strip()
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert after.start >= before.end - spec.overlap
        assert is_blank(text[before.end : after.start])
    assert is_blank(text[: chunks[0].start] + text[chunks[-1].end :] if chunks else text)


@given(TEXTS, st.integers(20, 60))
def test_without_overlap_every_character_is_in_exactly_one_chunk(text: str, size: int) -> None:
    joined = "".join(chunk.content for chunk in chunked(text, size))
    assert [one for one in joined if not is_blank(one)] == [one for one in text if not is_blank(one)]


@given(TEXTS)
def test_tokens_are_words_and_punctuation_marks(text: str) -> None:
    assert count_tokens(text) == len(re.findall(r"\w+|[^\w\s]", text))


def test_bug_1_equal_passages_have_different_offsets() -> None:
    starts = [chunk.start for chunk in chunked("same words here. " * 8, 20, 5)]
    assert len(starts) == len(set(starts)) >= 8


def test_bug_4_a_character_of_many_code_points_is_not_cut() -> None:
    family, accent = "👨‍👩‍👧‍👦", "q\u0323\u0307"
    for unit in (family, accent, "👍🏽", "🇩🇪", "ü"):
        chunks = chunked(unit * 40, 21)
        assert all(len(chunk.content) % len(unit) == 0 for chunk in chunks), unit


def test_bug_7_offsets_refer_to_the_stored_text_after_newlines_were_normalised() -> None:
    text = normalize("first line\r\nsecond line\r\nthird line")
    third = chunked(text, 20)[-1]
    assert (third.start, third.content) == (text.index("third"), "third line")


@pytest.mark.parametrize(
    ("size", "overlap"), [(100, 100), (100, 101), (19, 0), (20_001, 0), (0, 0), (100, -1), (-5, -6)]
)
def test_bug_9_sizes_that_cannot_work_are_refused_before_anything_runs(size: int, overlap: int) -> None:
    with pytest.raises(InvalidProfile, match=r"chunk (size|overlap)"):
        ChunkingSpec(size=size, overlap=overlap)


def test_a_spec_takes_only_what_it_knows_and_cannot_be_changed() -> None:
    with pytest.raises(InvalidProfile):
        ChunkingSpec.model_validate({"size": 100, "overlap": 0, "colour": "red"})
    with pytest.raises(ValidationError):
        ChunkingSpec(size=100, overlap=0).size = 200  # type: ignore[misc]


def test_bug_11_the_end_is_reached_once_however_large_the_overlap() -> None:
    assert [c.end for c in chunked("a" * 30, 20, 1)] == [20, 30]
    assert chunked("a" * 30, 20, 19)[-1].end == 30


def test_bug_13_a_token_longer_than_the_size_is_split() -> None:
    assert [len(chunk.content) for chunk in chunked("x" * 5000, 100)] == [100] * 50


def test_bug_14_blank_text_gives_no_chunk() -> None:
    assert chunked(" \n\t\n ", 20) == []
    assert chunked("", 20) == []


def test_bug_15_a_fenced_hash_is_no_heading() -> None:
    text = "# Real\n\n````\n```\n# fake\n```\n````\n\nafter the fence"
    chunks = chunk_document(Document(text, blocks=tuple(markdown_blocks(text))), ChunkingSpec(size=20, overlap=0))
    assert {chunk.heading_path for chunk in chunks} == {("Real",)}


def test_a_chunk_ends_before_a_heading_and_shares_nothing_with_the_section_before() -> None:
    text = "# One\n\n" + "alpha beta. " * 6 + "\n\n# Two\n\n" + "gamma delta. " * 6
    chunks = chunk_document(Document(text, blocks=tuple(markdown_blocks(text))), ChunkingSpec(size=100, overlap=30))
    second = next(chunk for chunk in chunks if chunk.heading_path == ("Two",))
    assert second.content.startswith("# Two")


def test_chunks_carry_the_pages_of_their_first_and_last_character() -> None:
    pages = ["first page words", "second page words", "third"]
    blocks, start = [], 0
    for number, page in enumerate(pages, start=1):
        blocks.append(Block("page", start, start + len(page), page=number))
        start += len(page) + 2
    document = Document("\n\n".join(pages), blocks=tuple(blocks))
    found = [(c.page, c.page_end) for c in chunk_document(document, ChunkingSpec(size=30, overlap=0))]
    assert found == [(1, 1), (2, 3)]


def test_a_question_that_fits_with_its_answer_is_not_parted_from_it() -> None:
    text = "Is it open?\n\nYes, it is."
    blocks = (Block("question", 0, 11), Block("answer", 13, len(text)))
    assert len(chunk_document(Document(text, blocks=blocks), ChunkingSpec(size=30, overlap=0))) == 1


def test_cuts_prefer_paragraphs_to_lines_to_sentences_to_words() -> None:
    assert chunked("aaa bbb ccc\n\nddd. eee\nfff ggg hhh", 22)[0].content == "aaa bbb ccc"
    assert chunked("aaa bbb ccc\nddd. eee fff ggg", 20)[0].content == "aaa bbb ccc"
    assert chunked("aaa bbb ccc ddd. eee fff ggg", 22)[0].content == "aaa bbb ccc ddd."
    assert chunked("あいうえおかきくけこさし。すせそたちつてとなにぬね", 20)[0].content == "あいうえおかきくけこさし。"


def test_overlap_begins_at_a_word() -> None:
    chunks = chunked("one two three four five six seven eight nine ten", 25, 10)
    assert [chunk.content for chunk in chunks][:2] == ["one two three four five", "four five six seven eight"]


@pytest.mark.parametrize(
    "text",
    ["a" + "\n" * 600_000 + "b", "line\n" * 300_000, "no end " * 700_000, "x" * 2_000_000],
    ids=["newlines", "lines", "one line", "one token"],
)
def test_time_grows_with_the_length_of_the_text_and_not_with_its_square(text: str) -> None:
    started = time.process_time()
    chunk_document(Document(text, blocks=paragraphs(text)), ChunkingSpec(size=800, overlap=100))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"size": "x", "overlap": 0}, "size"),
        ({"size": 100}, "overlap"),
        ({"strategy": "zz", "size": 100, "overlap": 0}, "strategy"),
        ({"size": 100, "overlap": 0, "sise": 1}, "sise"),
        ({"size": 100, "overlap": 100}, "overlap 100"),
    ],
)
def test_a_chunking_that_could_not_work_is_one_kind_of_error_that_names_the_field(fields: Any, says: str) -> None:
    with pytest.raises(InvalidProfile, match=says):
        ChunkingSpec(**fields)
    with pytest.raises(InvalidProfile, match=says):
        make_profile(name="p", provider="hash", model="hash", dimensions=8, chunking=fields)
