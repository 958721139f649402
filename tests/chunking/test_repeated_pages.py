from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.chunking.repeated_pages import (
    Page,
    adds_nothing,
    candidates,
    chunk_parts,
    distinct_parts,
    duplicates,
    repeated_blocks,
)
from rag_assets.documents.model import Block, Document
from rag_assets.documents.page_signature import signature_of

WORDS = [f"word{number}" for number in range(400)]
NOTICE = "We use cookies to make this site better for you, and you can change that at any time."


def document(*paragraphs: str) -> Document:
    text, blocks = "", []
    for paragraph in paragraphs:
        start = len(text) + 2 if text else 0
        text += ("\n\n" if text else "") + paragraph
        blocks.append(Block("paragraph", start, len(text)))
    return Document(text, content_type="text/html", blocks=tuple(blocks))


def pages(*documents: Document) -> tuple[list[Page], dict[UUID, str]]:
    found, texts = [], {}
    for number, content in enumerate(documents):
        signature = signature_of(content)
        assert signature is not None
        found.append(Page(UUID(int=number), "v", signature))
        texts[UUID(int=number)] = content.text
    return found, texts


def article(seed: int, length: int = 120) -> str:
    return " ".join(WORDS[(seed * 37 + step * (seed + 3)) % 400] for step in range(length))


def test_the_same_article_at_another_address_is_a_duplicate_of_the_first() -> None:
    found, texts = pages(document(article(1)), document(article(2)), document(article(1).upper() + "."))
    assert {page.int: original.id.int for page, original in duplicates(found, texts).items()} == {2: 0}


def test_a_page_that_differs_in_one_number_is_kept() -> None:
    data = "The pump of the series {} cuts in at {} bar. " + article(5)
    found, texts = pages(document(data.format("PX", 1.8)), document(data.format("PX", 2.1)))
    assert list(candidates(found))
    assert duplicates(found, texts) == {}


def test_a_page_that_says_more_is_kept_and_one_that_says_less_is_not() -> None:
    more = article(3) + " and beyond that nobody ever mentioned hydraulic umbrellas before noon"
    assert adds_nothing(article(3), more)
    assert not adds_nothing(more, article(3))


def test_an_original_is_never_itself_a_duplicate() -> None:
    found, texts = pages(*(document(article(7)) for _ in range(6)))
    assert {original.id.int for original in duplicates(found, texts).values()} == {0}


def test_a_page_of_a_few_words_has_no_signature() -> None:
    assert signature_of(document("Not found.")) is None


def test_a_notice_on_many_pages_stays_on_the_first_of_them() -> None:
    contents = [document(NOTICE, article(seed)) for seed in range(8)]
    found, _ = pages(*contents)
    repeated = repeated_blocks(found)
    kept = [distinct_parts(content, page, repeated) for content, page in zip(contents, found, strict=True)]
    texts = [
        "".join(content.text[start:end] for start, end in parts) for content, parts in zip(contents, kept, strict=True)
    ]
    assert [NOTICE in text for text in texts] == [True] + [False] * 7
    assert all(article(seed) in text for seed, text in enumerate(texts))


@pytest.mark.parametrize("count", [2, 4])
def test_a_block_on_few_pages_is_content(count: int) -> None:
    found, _ = pages(*(document(NOTICE, article(seed)) for seed in range(count)))
    assert repeated_blocks(found) == {}


def test_a_page_of_nothing_but_repeated_blocks_keeps_its_text() -> None:
    found, _ = pages(*(document(NOTICE + " " + article(1, 30)) for _ in range(9)))
    content = document(NOTICE + " " + article(1, 30))
    assert distinct_parts(content, found[4], repeated_blocks(found)) == [(0, len(content.text))]


@settings(deadline=None)
@given(
    st.lists(st.text("ab cd\n", min_size=1, max_size=60), min_size=1, max_size=8),
    st.data(),
    st.integers(20, 60),
    st.integers(0, 15),
)
def test_chunks_of_parts_lie_in_their_parts_and_point_into_the_whole(
    paragraphs: list[str], data: st.DataObject, size: int, overlap: int
) -> None:
    whole = document(*paragraphs)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole.text)), max_size=6)))
    edges = [0, *cuts, len(whole.text)]
    parts = [span for number, span in enumerate(pairwise(edges)) if number % 2 == 0 and span[0] < span[1]]
    chunks = chunk_parts(whole, ChunkingSpec(size=size, overlap=overlap), parts)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert whole.text[chunk.start : chunk.end] == chunk.content
        assert any(start <= chunk.start and chunk.end <= end for start, end in parts)
    covered = {offset for chunk in chunks for offset in range(chunk.start, chunk.end)}
    for start, end in parts:
        assert all(offset in covered for offset in range(start, end) if not whole.text[offset].isspace())


def test_a_whole_document_is_cut_as_without_parts() -> None:
    whole, spec = document(article(1), article(2), article(3)), ChunkingSpec(size=200, overlap=30)
    assert chunk_parts(whole, spec, [(0, len(whole.text))]) == chunk_document(whole, spec)
