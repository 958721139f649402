from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.embedding.models import WORDLLAMA_MAX_TOKENS
from rag_assets.embedding.profiles import BUILTIN_PROFILES, make_profile
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError

TEXTS = [
    "How do I reset my password?",
    "x",
    "日本語の検索テスト 🙂 \u200b",
    "a much longer text about invoices, refunds and delivery dates. " * 20,
    "def f(x):\n\treturn x  # twice\n",
]
texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.strip() != "")


@pytest.mark.parametrize("dimensions", [64, 128, 256])
def test_vectors_equal_those_of_the_package_itself(dimensions: int) -> None:
    import wordllama

    reference: Any = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, trunc_dim=dimensions, disable_download=True
    )
    ours = embedder_for(BUILTIN_PROFILES[f"static-{dimensions}"]).embed_documents(TEXTS).vectors
    assert np.abs(ours - reference.embed(TEXTS, norm=True)).max() < 1e-5


@settings(deadline=None)
@given(st.lists(texts, max_size=5))
def test_any_texts_that_are_not_blank_get_the_vectors_they_get_alone(batch: list[str]) -> None:
    embedder = embedder_for(BUILTIN_PROFILES["static-64"])
    answer = embedder.embed_documents(batch)
    assert answer.vectors.shape == (len(batch), 64)
    for text, vector in zip(batch, answer.vectors, strict=True):
        assert np.array_equal(embedder.embed_query(text).vectors[0], vector)


def test_a_batch_over_several_slices_keeps_its_order() -> None:
    embedder = embedder_for(BUILTIN_PROFILES["static-64"])
    batch = [f"ticket number {i}" for i in range(1100)] + ["long " * 100_000] * 3 + ["last"]
    vectors = embedder.embed_documents(batch).vectors
    for position in (0, 511, 512, 1023, 1024, 1099, 1101, 1103):
        assert np.array_equal(vectors[position], embedder.embed_query(batch[position]).vectors[0])


def test_only_the_first_tokens_of_an_endless_text_count() -> None:
    embedder = embedder_for(BUILTIN_PROFILES["static-64"])
    endless = embedder.embed_documents(["dog " * 200_000 + "cat " * 200_000])
    assert endless.usage.tokens == WORDLLAMA_MAX_TOKENS
    assert np.allclose(endless.vectors[0], embedder.embed_query("dog " * 9000).vectors[0], atol=1e-6)


def test_the_task_instruction_comes_before_the_text() -> None:
    spec = BUILTIN_PROFILES["static-64"].model_dump()
    spec["task_instruction"] = {"query": "query: ", "document": "passage: "}
    instructed, plain = embedder_for(make_profile(**spec)), embedder_for(BUILTIN_PROFILES["static-64"])
    assert np.array_equal(instructed.embed_query("refunds").vectors, plain.embed_query("query: refunds").vectors)
    assert np.array_equal(
        instructed.embed_documents(["refunds"]).vectors, plain.embed_query("passage: refunds").vectors
    )


def test_bug_42_a_blank_text_fails_before_the_batch_is_embedded() -> None:
    embedder = embedder_for(BUILTIN_PROFILES["static-64"])
    with pytest.raises(EmbeddingError, match="text 1 is blank"):
        embedder.embed_documents(["hi", "", "there"])
    with pytest.raises(EmbeddingError, match="blank"):
        embedder.embed_query(" ")


def test_near_texts_are_nearer_than_far_ones() -> None:
    embedder = embedder_for(BUILTIN_PROFILES["static-256"])
    near, far = embedder.embed_documents(["I forgot my password", "The soup is made of carrots"]).vectors
    query = embedder.embed_query("how to change a lost password").vectors[0]
    assert query @ near > query @ far + 0.2


def test_profiles_of_one_model_key_share_an_embedder() -> None:
    spec = {**BUILTIN_PROFILES["static-64"].model_dump(), "name": "other", "index": {"kind": "exact"}}
    assert embedder_for(make_profile(**spec)) is embedder_for(BUILTIN_PROFILES["static-64"])
    assert embedder_for(BUILTIN_PROFILES["static-64"]) is not embedder_for(BUILTIN_PROFILES["static-128"])


def test_embedding_loads_neither_the_packages_code_nor_a_http_client() -> None:
    program = (
        "import sys\n"
        "from rag_assets.embedding.registry import embedder_for\n"
        "from rag_assets.embedding.profiles import BUILTIN_PROFILES\n"
        "assert 'tokenizers' not in sys.modules\n"
        "embedder_for(BUILTIN_PROFILES['static-64']).embed_query('hello')\n"
        "print(sorted({'wordllama', 'requests', 'dagster'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
