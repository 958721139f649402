from __future__ import annotations

import time
from dataclasses import replace
from types import MappingProxyType

import pytest

from rag_assets.documents.checksum import bytes_checksum, document_checksum
from rag_assets.documents.model import Block, Document

BASE = Document("text", title="title", metadata={"a": 1, "b": [1, 2]})


def test_moving_text_between_parts_changes_the_checksum() -> None:
    assert document_checksum(Document("c", title="ab")) != document_checksum(Document("bc", title="a"))


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "other"},
        {"title": ""},
        {"content_type": "text/html"},
        {"language": ""},
        {"canonical_url": "https://e.org"},
        {"metadata": {"a": 1, "b": [1, 3]}},
        {"metadata": {"a": "1", "b": [1, 2]}},
        {"blocks": (Block("paragraph", 0, 4),)},
        {"blocks": (Block("paragraph", 0, 4, ("h",)),)},
    ],
)
def test_every_part_of_a_document_counts(changes: dict[str, object]) -> None:
    assert document_checksum(replace(BASE, **changes)) != document_checksum(BASE)  # type: ignore[arg-type]


def test_the_order_and_type_of_a_mapping_do_not_count() -> None:
    same = replace(BASE, metadata=MappingProxyType({"b": [1, 2], "a": 1}))
    assert document_checksum(same) == document_checksum(BASE)


def test_metadata_that_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        document_checksum(replace(BASE, metadata={"x": object()}))


def test_a_large_text_is_hashed_at_once() -> None:
    started = time.process_time()
    assert len(document_checksum(Document("word " * 2_000_000))) == 64
    assert time.process_time() - started < 1


def test_bytes_have_the_usual_sha256() -> None:
    assert bytes_checksum(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
