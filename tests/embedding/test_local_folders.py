"""What the name of a local model means does not hang on the directory in which a process was started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.embedding.origins import names_folder, origin_of
from rag_assets.embedding.providers import local_weights
from rag_assets.embedding.providers.local_weights import find_model
from rag_assets.errors import InvalidProfile


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory, for which no package is needed: nothing is loaded."""
    monkeypatch.setattr(local_weights, "check_installed", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(name: str) -> list[tuple[str, bool]]:
    """The places that a model is loaded from, and whether only this machine is asked."""
    asked: list[tuple[str, bool]] = []

    def construct(source: str, local_only: bool) -> Any:
        asked.append((source, local_only))

    find_model(name, construct)
    return asked


def model_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


HUB_NAMES = ["e5-base", "intfloat/e5-base", "sentence-transformers/x_y.z"]


@pytest.mark.parametrize("name", HUB_NAMES)
def test_a_name_of_the_hub_is_never_taken_for_a_folder_that_happens_to_be_there(here: Path, name: str) -> None:
    assert found(name) == [(name, True)]
    assert origin_of("sentence-transformers", name, None) is None
    model_in(here / name)
    with pytest.raises(InvalidProfile, match=f"Name the folder as ./{name}, or by its whole path"):
        found(name)
    assert origin_of("sentence-transformers", name, None) is None


@pytest.mark.parametrize("name", [*HUB_NAMES, "models/of ours/e5", "deep/er/e5"])
def test_a_path_is_a_folder(here: Path, name: str) -> None:
    folder = model_in(here / name)
    for path in (f"./{name}", f"../{here.name}/{name}", str(folder)):
        assert found(path) == [(str(folder), True)]
        assert origin_of("sentence-transformers", path, None) is not None
    with pytest.raises(InvalidProfile, match="no such folder"):
        found(f"./{name}-gone")


@pytest.mark.parametrize("name", ["models/of ours/e5", "deep/er/e5"])
def test_what_can_be_no_name_of_the_hub_is_a_path_however_it_begins(here: Path, name: str) -> None:
    assert names_folder(name)
    with pytest.raises(InvalidProfile, match="no such folder"):
        found(name)
    folder = model_in(here / name)
    assert found(name) == [(str(folder), True)]


def test_a_folder_that_the_library_would_take_for_a_model_of_its_own_organisation_is_not_loaded(here: Path) -> None:
    """The library runs what a folder's `modules.json` names; documents may lie where a command is run."""
    model_in(here / "sentence-transformers" / "some-model")
    with pytest.raises(InvalidProfile, match=r"sentence-transformers/some-model"):
        found("some-model")
    with pytest.raises(InvalidProfile, match=r"sentence-transformers/some-model"):
        found("sentence-transformers/some-model")
    assert found("organisation/some-model") == [("organisation/some-model", True)]
