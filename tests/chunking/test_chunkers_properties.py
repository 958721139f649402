"""What holds for every chunker, whatever the text."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking import STRATEGIES, ChunkingSpec, chunk_document
from rag_assets.chunking.context import MAX_CONTEXT
from rag_assets.chunking.tokenizers import load_counter
from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import paragraphs
from rag_assets.documents.model import Block, Chunk, Document
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.markdown_blocks import markdown_blocks

PIECES = [
    *(" ", "  ", "\n", "\n\n", "\t", ". ", "! ", "? ", ".\n", "。", "、", "\u3000", "\u200d", "।  ", "."),
    *("# h\n", "## why?\n", "\n### k\n\n", "- li\n", "```\n", "|a|b|\n|-|-|\n", "|1|2|\n", "> q\n", "Q: ", "A: "),
    *("def f(x):\n    ", "class A:\n", "    return 1\n", "# c\n", "fn g() {\n", "}\n", " Dr. ", "1. "),
    *("word", "a", "Überraschung", "日本語", "e\u0301", "\u0301", "x" * 45, "👨‍👩‍👧", "🇩🇪🇫🇷", "👍🏽", "\ud800", "\0"),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=70).map("".join).map(normalize)
UNITS = ["👨‍👩‍👧", "e\u0301", "q\u0323\u0307", "👍🏽", "🇩🇪", "ü", "が", "कि"]  # each is shown as one character
TYPES = ("text/plain", "text/markdown", "text/x-python", "text/x-rust")


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(TEXTS)
    blocks: tuple[Block, ...] = draw(
        st.sampled_from([(), tuple(markdown_blocks(text)), paragraphs(text), paragraphs(text, "table"), halves(text)])
    )
    return Document(text, title=draw(st.text(max_size=9)), content_type=draw(st.sampled_from(TYPES)), blocks=blocks)


def halves(text: str) -> tuple[Block, ...]:
    """A question and its answer, on two pages."""
    middle = len(text) // 2
    question = Block("question", 0, middle, page=1)
    return (question, Block("answer", middle, len(text), page=2)) if middle > 0 else ()


@st.composite
def specs(draw: st.DrawFn, strategy: str) -> ChunkingSpec:
    fields: dict[str, Any] = {"strategy": strategy, "size": draw(st.integers(20, 120))}
    fields["overlap"] = draw(st.just(0) | st.integers(0, fields["size"] - 1))
    fields["context_header"] = draw(st.booleans())
    if strategy == "hybrid" and draw(st.booleans()):
        fields["tokenizer"] = "wordllama"
    return ChunkingSpec.model_validate(fields)


def length(content: str, spec: ChunkingSpec) -> int:
    return load_counter("wordllama").count(content) if spec.unit == "tokens" else len(content)


def check(document: Document, chunks: list[Chunk], spec: ChunkingSpec) -> None:
    text = document.text
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert text[chunk.start : chunk.end] == chunk.content
        assert not is_blank(chunk.content)
        assert chunk.content == chunk.content.strip()
        assert length(chunk.content, spec) <= spec.size
        assert len(chunk.context) <= MAX_CONTEXT
        assert chunk.context.count("\n") <= 1
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert is_blank(text[before.end : after.start])
        if spec.unit == "characters":
            assert after.start >= before.end - spec.overlap
        if spec.overlap == 0:
            assert after.start >= before.end
    assert is_blank(text[: chunks[0].start] + text[chunks[-1].end :] if chunks else text)


def seen(text: str) -> str:
    return "".join(character for character in text if not is_blank(character))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_every_chunk_is_where_it_says_in_order_and_no_larger_than_allowed(strategy: str, data: st.DataObject) -> None:
    document, spec = data.draw(documents()), data.draw(specs(strategy))
    check(document, chunk_document(document, spec), spec)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_without_overlap_every_character_is_in_exactly_one_chunk(strategy: str, data: st.DataObject) -> None:
    document = data.draw(documents())
    spec = ChunkingSpec.model_validate({"strategy": strategy, "size": data.draw(st.integers(20, 90)), "overlap": 0})
    joined = "".join(chunk.content for chunk in chunk_document(document, spec))
    assert seen(joined) == seen(document.text)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(unit=st.sampled_from(UNITS), size=st.integers(20, 40))
@settings(max_examples=30, deadline=None)
def test_what_is_shown_as_one_character_is_not_cut(strategy: str, unit: str, size: int) -> None:
    spec = ChunkingSpec.model_validate({"strategy": strategy, "size": size, "overlap": size // 3})
    if length(unit, spec) > size:
        return
    for chunk in chunk_document(Document(normalize(unit) * 60), spec):
        assert chunk.content == normalize(unit) * (len(chunk.content) // len(normalize(unit)))


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "token"])
@pytest.mark.parametrize(
    "text",
    ["a" + "\n" * 150_000 + "b", "no end " * 70_000, "x" * 500_000, "e" + "\u0301" * 200_000, "." * 400_000],
    ids=["line feeds", "one line", "one word", "one character", "full stops"],
)
def test_time_grows_with_the_length_of_the_text_and_not_with_its_square(strategy: str, text: str) -> None:
    spec = ChunkingSpec.model_validate({"strategy": strategy, "size": 800, "overlap": 100})
    document = Document(text, blocks=paragraphs(text))
    check(document, chunk_document(document, spec), spec)
