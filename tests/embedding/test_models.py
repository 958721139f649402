"""The registry of models: what it says of names that it does not know, and the limits of requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.models import model_info
from rag_assets.embedding.protocol import NOBODY
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder
from rag_assets.embedding.providers.requests import plan_batches
from tests.support.openai_server import openai_server
from tests.support.openai_world import profile


@pytest.mark.parametrize(
    ("provider", "model", "meant"),
    [
        ("google", "gemini-embedding-3", "gemini-embedding-2"),
        ("google", "gemini-embeding-2", None),
        ("google", "Gemini-Embedding-2", "gemini-embedding-2"),
        ("google", "embedding-001", "gemini-embedding-001"),
        ("wordllama", "l2_supercat_265", "l2_supercat_256"),
        ("wordllama", "zzz", None),
    ],
)
def test_a_model_that_nobody_knows_is_called_unknown_and_what_is_close_is_named(
    provider: str, model: str, meant: str | None
) -> None:
    with pytest.raises(ValueError, match=r"known are|embedding models are") as caught:
        model_info(provider, model)
    if meant is not None:
        assert f"unknown model {model!r} of provider {provider!r} (did you mean {meant!r}?)" in str(caught.value)
    if "embed" in model.lower():
        assert "generates text" not in str(caught.value)


def test_a_provider_that_nobody_knows_is_named_with_what_is_close() -> None:
    with pytest.raises(ValueError, match=r"unknown embedding provider 'gogle' \(did you mean 'google'\?\)"):
        model_info("gogle", "gemini-embedding-2")


@pytest.mark.parametrize("model", ["gemini-3-pro", "gemma-3-4b"])
def test_a_model_that_generates_text_is_told_so(model: str) -> None:
    with pytest.raises(ValueError, match="generates text and cannot embed it"):
        model_info("google", model)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=40), st.integers(1, 60))
def test_batches_keep_the_limit_of_tokens_too(items: list[tuple[int, int]], most: int) -> None:
    tokens = [count for _, count in items]
    batches = plan_batches([size for size, _ in items], 10, 100, tokens, most)
    assert [position for batch in batches for position in batch] == list(range(len(items)))
    for batch in batches:
        assert len(batch) == 1 or sum(tokens[position] for position in batch) <= most


@pytest.mark.parametrize("model", ["text-embedding-3-small", "text-embedding-ada-002", "some-model-of-ours"])
@pytest.mark.parametrize("letter", ["7", "ж", "字"])
def test_no_request_is_larger_than_the_model_takes(model: str, letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in")
    texts = [letter * 5000 for _ in range(120)]
    with openai_server() as server:
        dimensions = 1536 if model == "text-embedding-ada-002" else 16
        options = {"max_input_tokens": 8000}
        made = profile(server.url, model, dimensions, options=options)
        monkeypatch.setattr("tests.support.openai_server.DIMENSIONS", dimensions)
        embedder = OpenAICompatibleEmbedder(made)
        embedder.embed_documents(texts, NOBODY)
        embedder.close()
        info = made.model_info
        assert sum(len(text) for arrived in server.arrived for text in arrived.texts) == 120 * 5000
        for arrived in server.arrived:
            assert len(arrived.texts) <= info.batch_items <= 2048
            assert info.batch_tokens is not None
            # No tokenizer makes more tokens than bytes.
            assert sum(len(text.encode()) for text in arrived.texts) <= info.batch_tokens <= 300_000
