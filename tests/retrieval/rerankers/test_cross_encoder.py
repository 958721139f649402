"""A cross-encoder that runs here: a small one with random weights, made by the test."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rag_assets.embedding.protocol import NOBODY
from rag_assets.errors import EmbeddingError, InvalidArgument, InvalidProfile, ProviderRefused, TimeLimitReached
from rag_assets.retrieval import RerankedRetriever
from rag_assets.retrieval.rerankers.cross_encoder import CrossEncoderReranker
from tests.support.passages import SCOPE, Fixed, Search, awaited, blocking, result
from tests.support.small_models import WORDS, small_cross_encoder

needs_torch = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="not installed: make install-local"),
]
TEXTS = [" ".join(WORDS[number % 11 :] * (1 + number % 5)) for number in range(30)]


def logits(folder: Path, query: str, texts: Sequence[str]) -> list[float]:
    """By the library below, one pair at a time."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        pairs = [tokenizer(query, text, truncation=True, max_length=64, return_tensors="pt") for text in texts]
        return [float(model(**pair).logits[0, 0]) for pair in pairs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_cross_encoder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_DEVICE", "cpu")


class TestWithTorch:
    pytestmark = needs_torch

    @pytest.mark.parametrize("activation", [None, "torch.nn.modules.linear.Identity", "torch.nn.Sigmoid"])
    def test_scores_are_the_sigmoid_of_the_models_output_whatever_the_model_ends_in(
        self, tmp_path: Path, activation: str | None
    ) -> None:
        import torch

        own = small_cross_encoder(tmp_path / "own", activation=activation)
        scores: dict[Any, Any] = dict(CrossEncoderReranker(str(own)).score("how long", TEXTS, NOBODY).pairs)
        expected = torch.sigmoid(torch.tensor(logits(own, "how long", TEXTS))).tolist()
        assert sorted(scores) == list(range(30))
        assert [scores[index] for index in range(30)] == pytest.approx(expected, abs=1e-4)
        assert max(expected) - min(expected) > 0.01

    @pytest.mark.parametrize("search", [blocking, awaited])
    def test_candidates_come_in_its_order(self, folder: Path, search: Search) -> None:
        expected = logits(folder, "five years", TEXTS)
        inner = Fixed([result(number, text) for number, text in enumerate(TEXTS)])
        retriever = RerankedRetriever(inner, CrossEncoderReranker(str(folder)), k_out=30, tau=0, limit_s=60)
        found = search(retriever, "five years", SCOPE, top_k=30)
        ordered = [expected[one.chunk_id.int] for one in found]
        assert len(ordered) == 30
        assert all(one >= next_one - 1e-4 for one, next_one in pairwise(ordered))
        assert found.trace[-1]["model"] == f"cross_encoder/{folder}"

    def test_threads_get_the_same_scores(self, folder: Path) -> None:
        reranker = CrossEncoderReranker(str(folder))
        reranker.load()
        queries = [f"{WORDS[number % 11]} door" for number in range(16)]
        expected = [list(reranker.score(query, TEXTS, NOBODY).pairs) for query in queries]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda query: list(reranker.score(query, TEXTS, NOBODY).pairs), queries))
        assert found == expected

    def test_nobody_waits_for_the_model_longer_than_they_may(self, folder: Path) -> None:
        from rag_assets.retrieval.rerankers.cross_encoder import _load

        reranker = CrossEncoderReranker(str(folder))
        reranker.load()
        with pytest.raises(TimeLimitReached):
            reranker.score("five", TEXTS, replace(NOBODY, wait_s=1e-9))
        done = threading.Event()
        with _load(str(folder), "cpu").lock, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(reranker.score, "five", TEXTS, replace(NOBODY, wait_s=0.1))
            waiting.add_done_callback(lambda _: done.set())
            assert done.wait(30)
        with pytest.raises(TimeLimitReached):
            waiting.result()
        assert len(reranker.score("five", TEXTS, NOBODY).pairs) == 30

    def test_a_model_of_several_classes_is_no_reranker(self, tmp_path: Path) -> None:
        with pytest.raises(EmbeddingError, match="says 3 numbers of a passage"):
            CrossEncoderReranker(str(small_cross_encoder(tmp_path / "three", labels=3))).load()

    def test_a_folder_that_is_not_there_or_damaged_is_a_clear_error(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidProfile, match="there is no such folder"):
            CrossEncoderReranker(str(tmp_path / "none")).load()
        damaged = small_cross_encoder(tmp_path / "damaged")
        (damaged / "model.safetensors").unlink()
        with pytest.raises(EmbeddingError, match="could not be loaded from"):
            CrossEncoderReranker(str(damaged)).load()

    def test_without_the_weights_the_order_before_stands_and_the_way_out_is_said(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        reranker = CrossEncoderReranker("nobody/no-such-reranker")
        with pytest.raises(ProviderRefused, match=r"the reranker nobody/no-such-reranker is not on this machine"):
            reranker.load()
        found = RerankedRetriever(Fixed([result(1), result(2)]), reranker, limit_s=60).search("q", SCOPE)
        assert [one.chunk_id.int for one in found] == [1, 2]
        assert found.degraded is not None
        assert "hf download nobody/no-such-reranker" in found.degraded

    def test_the_names_of_known_models_stand_for_them(self) -> None:
        assert CrossEncoderReranker().name == "cross_encoder/cross-encoder/ms-marco-MiniLM-L-6-v2"
        assert CrossEncoderReranker("bge_base").name == "cross_encoder/BAAI/bge-reranker-base"
        with pytest.raises(InvalidArgument, match="model must be a string"):
            CrossEncoderReranker(7)  # type: ignore[arg-type]


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="it is installed")
def test_without_the_library_it_is_refused_when_it_is_made() -> None:
    with pytest.raises(EmbeddingError, match="pip install sentence-transformers"):
        CrossEncoderReranker()
