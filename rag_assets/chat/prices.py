"""What known chat models cost, in US dollars per million tokens that they read and write.

As the providers document it; `docs/providers.md` says of when. For planning: a provider's bill is the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

# By the model's name, which a date or a version may follow; of two that fit, the longer holds.
_GOOGLE = {
    "gemini-2.5-pro": (1.25, 10.0),
    "gemini-2.5-flash": (0.30, 2.50),
    "gemini-2.5-flash-lite": (0.10, 0.40),
    "gemini-2.0-flash": (0.10, 0.40),
    "gemini-2.0-flash-lite": (0.075, 0.30),
}
_OPENAI = {
    "gpt-5": (1.25, 10.0),
    "gpt-5-mini": (0.25, 2.0),
    "gpt-5-nano": (0.05, 0.40),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4.1-mini": (0.40, 1.60),
    "gpt-4.1-nano": (0.10, 0.40),
    "gpt-4o": (2.50, 10.0),
    "gpt-4o-mini": (0.15, 0.60),
}
_VERSION = "-0123456789"


@dataclass(frozen=True)
class ChatPrice:
    """Dollars per million tokens, read and written; thoughts are written."""

    read_usd: float
    written_usd: float

    def cost_usd(self, read: int, written: int) -> float:
        """The price of so many tokens."""
        return (read * self.read_usd + written * self.written_usd) / 1e6


def chat_price(provider: str, model: str) -> ChatPrice | None:
    """The price of a model; None where it is not known: of a server of one's own, or of a model that came later."""
    known = _GOOGLE if provider == "google" else _OPENAI
    name = model.removeprefix("models/").removeprefix("openai/")
    fits = [
        one for one in known if name == one or (name.startswith(f"{one}-") and not name[len(one) :].strip(_VERSION))
    ]
    return ChatPrice(*known[max(fits, key=len)]) if fits else None
