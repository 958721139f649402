"""Where vectors come from, as far as a profile leaves that to the machine: an address in the environment, or the files
in a folder. Another server, or other files, may make other vectors of the same text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from rag_assets.addresses import masked
from rag_assets.errors import ProviderRefused
from rag_assets.settings import Settings, read_variable


@dataclass(frozen=True)
class Origin:
    """What the vectors of a profile depend on beside its specification.

    Attributes:
        place: the address, or what the files are known by; comparable, and shown to people.
        set_by: the variable or the folder that decides it.
        is_default: nobody has set anything.
        key_parts: what of it is a part of `EmbeddingProfile.model_key`.
    """

    place: str
    set_by: str
    is_default: bool
    key_parts: tuple[tuple[str, str], ...]


_PATH = re.compile(r"[~/\\.]|\w:[\\/]")
_HUB_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)
_VARIABLES = {"openai-compatible": "openai_base_url", "google": "google_gemini_base_url"}


def origin_of(provider: str, model: str, base_url: str | None) -> Origin | None:
    """The origin of what a provider makes now, on this machine; None where the specification says it all."""
    if provider in _VARIABLES:
        return None if base_url is not None else _address(_VARIABLES[provider])
    if provider in ("sentence-transformers", "onnx"):
        return _files(model)
    return None


def _address(field: str) -> Origin:
    row = Settings.model_fields[field]
    variable = str(row.validation_alias)
    default = str(row.default)
    # Only this one variable: another that is set wrongly is no reason to know no key.
    address = (read_variable(variable) or default).rstrip("/")
    # As a profile's own address is: who names the same server in the profile shares its vectors.
    parts = () if address == default else (("base_url", address),)
    return Origin(masked(address), variable, address == default, parts)


def names_folder(model: str) -> bool:
    """Whether a model's name is a path. One that the hub may have as well is not: in another current directory it would
    mean another model. As a path it begins with `/`, `./`, `../`, `~` or a drive."""
    return bool(_PATH.match(model)) or not _HUB_NAME.fullmatch(model)


def model_folder(model: str) -> Path:
    """The folder of a model that is one, or a file `.onnx` in one; in the hub's layout such files lie in `onnx/`."""
    path = Path(model).expanduser()
    if path.suffix != ".onnx":
        return path
    return path.parent.parent if path.parent.name == "onnx" else path.parent


def _files(model: str) -> Origin | None:
    folder = model_folder(model)
    if not names_folder(model) or not folder.is_dir():
        return None  # a model of the hub, whose files do not change under its name
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))
    seen = tuple((str(path.relative_to(folder)), (info := path.stat()).st_size, info.st_mtime_ns) for path in found)
    digest = _digest(str(folder.resolve()), seen)
    return Origin(f"files {digest[:12]}", model, False, (("files", digest),))


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


@lru_cache(maxsize=16)
def _digest(folder: str, files: tuple[tuple[str, int, int], ...]) -> str:
    """SHA-256 over names and contents, computed anew when a size or a time has changed."""
    whole = sha256()
    for name, size, _ in files:
        whole.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        with (Path(folder) / name).open("rb") as file:
            while part := file.read(1 << 20):
                whole.update(part)
    return whole.hexdigest()


def check_origin(profile: str, built: str | None, now: Origin | None) -> None:
    """Compare where vectors were made with where others would be made now; `profile` says whose they are.

    Raises:
        ProviderRefused: they differ; names both places, and the ways out.
    """
    if built is None or now is None or built == now.place:
        return
    raise ProviderRefused(
        f"{profile} was built with the vectors of {built}, and {now.set_by} now means {now.place}, whose vectors may "
        f"be others: two models would meet in one search. Make {now.set_by} mean {built} again, or add a profile for "
        "what is there now and build that: rag profile add NAME ..."
    )
