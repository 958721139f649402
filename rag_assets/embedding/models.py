"""The registry of embedding models: what a profile may name, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WORDLLAMA_MAX_TOKENS = 8192  # a bound on work and memory: the static model itself has no context window


@dataclass(frozen=True)
class ModelInfo:
    """One model of one provider.

    `dimensions` holds the sizes that its vectors may have, as a tuple of choices or a `range`.
    `max_input_tokens` is None where a text of any length is read to its end.
    """

    provider: str
    model: str
    kind: Literal["embedding"]
    dimensions: tuple[int, ...] | range
    max_input_tokens: int | None
    price_per_million_tokens_usd: float

    def dimensions_text(self) -> str:
        """The allowed sizes for an error message: `64, 128 or 256`, or `8 to 4000`."""
        if isinstance(self.dimensions, range):
            return f"{self.dimensions.start} to {self.dimensions.stop - 1}"
        *head, last = map(str, self.dimensions)
        return f"{', '.join(head)} or {last}" if head else last


MODELS: tuple[ModelInfo, ...] = (
    ModelInfo("wordllama", "l2_supercat_256", "embedding", (64, 128, 256), WORDLLAMA_MAX_TOKENS, 0.0),
    ModelInfo("hash", "hash", "embedding", range(8, 4001), None, 0.0),
)


def model_info(provider: str, model: str) -> ModelInfo:
    """The registry's entry for a provider's model.

    Raises:
        ValueError: unknown provider or model; the text lists what is known.
    """
    of_provider = [info for info in MODELS if info.provider == provider]
    if not of_provider:
        known = ", ".join(sorted({info.provider for info in MODELS}))
        raise ValueError(f"unknown embedding provider {provider!r}: known are {known}")
    for info in of_provider:
        if info.model == model:
            return info
    known = ", ".join(info.model for info in of_provider)
    raise ValueError(f"unknown model {model!r} of provider {provider!r}: known are {known}")
