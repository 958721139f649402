"""Transformers by ONNX Runtime: small ones, written by the tests."""

from __future__ import annotations

import multiprocessing
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rag_assets import processors
from rag_assets.embedding.estimate import document_tokens
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers import onnx
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError, InvalidProfile, TextRefused
from tests.support.onnx_models import (
    DIMENSIONS,
    FLOAT,
    HIDDEN,
    INPUTS,
    INT64,
    TABLE,
    VOCABULARY,
    model,
    node,
    quantized_model,
    tensor,
    value,
    whole_model,
    words_model,
    write_folder,
)

pytestmark = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="onnxruntime not installed: make install-local"
)

TEXTS = ["how long is the warranty", "pump", "the valves is long.", "word7 word8 the door", "five years"]
LONG = " ".join(["how long is the warranty of the pump .", "five years and a week ."] * 9)


def small(folder: Path | str, dimensions: int = DIMENSIONS, **fields: Any) -> EmbeddingProfile:
    return make_profile(name="small", provider="onnx", model=str(folder), dimensions=dimensions, **fields)


def embed(profile: EmbeddingProfile, texts: list[str]) -> NDArray[np.float32]:
    return embedder_for(profile).embed_documents(texts).vectors


def by_hand(text: str, pooling: str = "mean") -> NDArray[np.float32]:
    """What the words of a text make, without the library."""
    words = text.replace("valves", "valve ##s").replace(".", " . ").split()
    numbers = [VOCABULARY.index(word) if word in VOCABULARY else 1 for word in ["[CLS]", *words, "[SEP]"]]
    rows = TABLE[numbers]
    vector = {"mean": rows.mean(axis=0), "cls": rows[0], "lasttoken": rows[-1], "max": rows.max(axis=0)}[pooling]
    return vector / np.linalg.norm(vector)


def test_a_text_gets_the_mean_of_its_tokens_in_the_order_of_the_texts(tmp_path: Path) -> None:
    vectors = embed(small(write_folder(tmp_path / "m")), TEXTS)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - [by_hand(text) for text in TEXTS]).max() < 1e-6
    assert embed(small(tmp_path / "m"), []).shape == (0, DIMENSIONS)


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["mean"], "embedding_dimension": 6}, "mean"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, "lasttoken"),
        ({"pooling_mode_max_tokens": True}, "max"),
    ],
)
def test_tokens_become_a_vector_as_the_folder_says(tmp_path: Path, config: dict[str, Any], pooling: str) -> None:
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "pool", "type": "sentence_transformers.models.Pooling"},
        {"path": "n", "type": "sentence_transformers.models.Normalize"},
    ]
    files: dict[str, Any] = {"modules.json": modules, "pool/config.json": config, "1_Pooling/config.json": None}
    vectors = embed(small(write_folder(tmp_path / "m", **files)), TEXTS)
    assert np.abs(vectors - [by_hand(text, pooling) for text in TEXTS]).max() < 1e-6


def test_a_graph_that_pools_itself_needs_no_word_of_it_and_may_take_any_steps(tmp_path: Path) -> None:
    files: dict[str, Any] = {"1_Pooling/config.json": None, "modules.json": [{"path": "2_Dense", "type": "x.Dense"}]}
    folder = write_folder(tmp_path / "m", whole_model(), **files)
    assert np.abs(embed(small(folder), TEXTS) - [by_hand(text) for text in TEXTS]).max() < 1e-6


def test_other_weights_of_a_folder_are_named_by_their_file(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model_int8.onnx")
    assert np.abs(embed(small(folder), TEXTS[:1])[0] - by_hand(TEXTS[0])).max() < 1e-6  # the only one
    (folder / "onnx" / "model_other.onnx").write_bytes(words_model(-TABLE))
    with pytest.raises(InvalidProfile, match=r"which of onnx/model_int8\.onnx, onnx/model_other\.onnx\?"):
        embedder_for(small(folder))
    other = small(folder / "onnx" / "model_other.onnx")
    assert np.abs(embed(other, TEXTS[:1])[0] + by_hand(TEXTS[0])).max() < 1e-6
    assert other.model_key != small(folder / "onnx" / "model_int8.onnx").model_key


def test_a_text_longer_than_the_window_is_the_mean_of_its_windows(tmp_path: Path) -> None:
    embedder = embedder_for(small(write_folder(tmp_path / "m")))
    assert isinstance(embedder, onnx.OnnxEmbedder)
    windows = embedder._texts.windows.cut(LONG, "")
    assert "".join(window.text for window in windows) == LONG
    assert max(window.size for window in windows) <= 16
    mean = np.array([window.size for window in windows]) @ [by_hand(window.text) for window in windows]
    answer = embedder.embed_documents([TEXTS[0], LONG])
    assert np.abs(answer.vectors[1] - mean / np.linalg.norm(mean)).max() < 1e-6
    assert answer.usage.tokens == 7 + sum(window.size for window in windows)


def test_the_vector_of_a_text_does_not_depend_on_what_it_is_batched_with(tmp_path: Path) -> None:
    """One scale for all numbers of a pass would make each text another, by the widest of them."""
    texts = [f"{text} word{number}" for number in range(40) for text in TEXTS]
    for name, data, mixes in (("plain", words_model(), False), ("quantized", quantized_model(), True)):
        embedder = embedder_for(small(write_folder(tmp_path / name, data)))
        assert isinstance(embedder, onnx.OnnxEmbedder)
        assert embedder._model.mixes is mixes
        together = embedder.embed_documents(texts).vectors
        assert np.array_equal(together, embedder.embed_documents(texts[::-1]).vectors[::-1])
        assert np.array_equal(together, np.vstack([embedder.embed_query(text).vectors for text in texts]))


def test_threads_that_embed_at_once_get_the_vectors_they_get_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ONNX_THREADS", "3")
    embedder = embedder_for(small(write_folder(tmp_path / "m")))
    batches = [[f"word{i} word{j} the pump" for j in range(30)] for i in range(6)]
    alone = [embedder.embed_documents(batch).vectors for batch in batches]
    together: dict[int, Any] = {}

    def work(i: int) -> None:
        together[i] = embedder.embed_documents(batches[i]).vectors

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(together[i], alone[i]) for i in range(6))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads, which is the point
def test_a_forked_process_embeds_with_a_model_that_was_loaded_before(tmp_path: Path) -> None:
    profile = small(write_folder(tmp_path / "m"))
    here = embed(profile, TEXTS)
    with multiprocessing.get_context("fork").Pool(1) as children:
        there = children.apply_async(embed, (profile, TEXTS)).get(timeout=60)
    assert np.array_equal(here, there)


def test_tokens_of_a_plan_are_those_that_are_read_later(tmp_path: Path) -> None:
    profile = small(write_folder(tmp_path / "e5-tiny"))  # a family with prefixes
    texts = [*TEXTS, LONG]
    usage = embedder_for(profile).embed_documents(texts, Caller("acme", "help")).usage
    assert usage.tokens == sum(document_tokens(profile, texts))
    assert (usage.tenant, usage.bot, usage.items, usage.cost_usd) == ("acme", "help", len(texts), 0.0)
    assert document_tokens(small(tmp_path / "nowhere"), ["a plan needs no model"])[0] > 0


def test_prefixes_are_those_that_the_model_ships_and_the_profile_has_the_last_word(tmp_path: Path) -> None:
    shipped = {"config_sentence_transformers.json": {"prompts": {"query": "how long ", "document": "the door "}}}
    folder = write_folder(tmp_path / "m", **shipped)
    embedder = embedder_for(small(folder))
    assert np.abs(embedder.embed_query("pump").vectors[0] - by_hand("how long pump")).max() < 1e-6
    assert np.abs(embedder.embed_documents(["pump"]).vectors[0] - by_hand("the door pump")).max() < 1e-6
    own = embedder_for(small(folder, task_instruction={"query": ""}))
    assert np.abs(own.embed_query("pump").vectors[0] - by_hand("pump")).max() < 1e-6
    with pytest.raises(InvalidProfile, match="a prefix fills the whole window"):
        embedder_for(small(folder, task_instruction={"query": "word7 " * 15}))


def test_fewer_dimensions_are_the_first_ones_and_more_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    cut = by_hand("pump")[:4]
    assert np.abs(embed(small(folder, 4), ["pump"])[0] - cut / np.linalg.norm(cut)).max() < 1e-6
    with pytest.raises(InvalidProfile, match="makes vectors of 6 dimensions, not 7"):
        embedder_for(small(folder, 7))


@pytest.mark.parametrize(("number", "told"), [(0.0, "all zeros"), (np.nan, "NaN or infinity"), (np.inf, "NaN")])
def test_vectors_that_must_not_be_stored_are_refused(tmp_path: Path, number: float, told: str) -> None:
    embedder = embedder_for(small(write_folder(tmp_path / "m", words_model(np.full_like(TABLE, number)))))
    with pytest.raises(EmbeddingError, match=told):
        embedder.embed_documents(TEXTS)
    with pytest.raises(TextRefused, match="text 1 is blank"):
        embedder.embed_documents(["pump", " "])


def test_a_file_that_is_no_model_is_told_by_its_path(tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("torn", words_model()[:-200]), ("other", b"PK\x03\x04" * 50)):
        folder = write_folder(tmp_path / name, data)
        with pytest.raises(EmbeddingError, match=rf"could not be loaded from {folder}/model\.onnx"):
            embedder_for(small(folder))


def test_weights_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(TABLE.tobytes())
    for path in ("../secret", str(tmp_path / "secret")):
        folder = write_folder(tmp_path / "m", words_model(elsewhere=path))
        with pytest.raises(EmbeddingError, match="could not be loaded"):
            embedder_for(small(folder))
    (folder / "model.onnx_data").write_bytes(TABLE.tobytes())
    (folder / "model.onnx").write_bytes(words_model(elsewhere="model.onnx_data"))
    assert np.abs(embed(small(folder), ["pump"])[0] - by_hand("pump")).max() < 1e-6


GATHER = node("Gather", ["table", "input_ids"], ["last_hidden_state"])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            model([GATHER], [tensor("table", TABLE)], [HIDDEN], [*INPUTS, value("pixel_values", ("b", "c"))]),
            r"asks for 'pixel_values' \(tensor\(float\)\)",
        ),
        (
            model([GATHER], [tensor("table", TABLE)], [HIDDEN], [value("input_ids", ("b", 16), INT64)]),
            r"'input_ids' of the shape \['b', 16\]: export it for any length",
        ),
        (
            model(
                [node("Gather", ["table", "input_ids"], ["rows"]), node("ReduceMax", ["rows"], ["logits"], axes=[2])],
                [tensor("table", TABLE)],
                [value("logits", ("batch", "sequence"), FLOAT)],
            ),
            r"its graph gives logits .* neither a float vector of each token",
        ),
    ],
    ids=["inputs", "length", "outputs"],
)
def test_a_graph_of_another_kind_is_refused_with_what_it_wants(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(InvalidProfile, match=told):
        embedder_for(small(write_folder(tmp_path / "m", data)))


def test_as_many_threads_as_the_process_has_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(processors, "_CGROUP", tmp_path / "cpu.max")
    assert onnx.usable_threads() == 8
    for text, threads in (("150000 100000\n", 2), ("max 100000\n", 8), ("1600000 100000\n", 8)):
        (tmp_path / "cpu.max").write_text(text)
        assert onnx.usable_threads() == threads
    monkeypatch.setenv("RAG_ONNX_THREADS", "3")
    assert onnx.usable_threads() == 3
