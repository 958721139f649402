"""Texts that a provider does not embed: whether they are to blame, and what is remembered of them.

A provider may refuse a text for its content, or answer it with what is no vector. Both look the same where the request
as such is wrong, or the server broken. What tells them apart is an answer: as long as others are embedded, or else a
word that no provider can mind, the texts that fail alone are to blame. Only then are they remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rag_assets.embedding.check import checked
from rag_assets.embedding.protocol import Caller, Embedder, Usage
from rag_assets.errors import EmbeddingError, ProviderRefused, TextRefused

PROBE = "Hello."
_HOPELESS = 8  # failures one after the other, before it is looked whether the provider embeds anything


@dataclass(frozen=True)
class Refusal:
    """Why a text has no vector. `lasting`: the provider refuses it, and will again; else its answer was no vector,
    which may be mended there one day."""

    reason: str
    lasting: bool


class RefusedTexts(Protocol):
    """What is remembered of one model's refusals, by content hash."""

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """The reasons of those that are not to be sent now; all others are left out."""
        ...

    def put(self, refusals: Mapping[bytes, Refusal]) -> None:
        """Remember these, durably by the time it returns."""
        ...


class NothingRemembered:
    """For who has nowhere to remember anything."""

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """See `RefusedTexts.get`."""
        return {}

    def put(self, refusals: Mapping[bytes, Refusal]) -> None:
        """See `RefusedTexts.put`."""


def is_of_a_text(error: EmbeddingError) -> bool:
    """Whether a text may be to blame: it was refused, or its answer must not be stored. All other errors are the
    provider's, the key's or the budget's."""
    return type(error) in (EmbeddingError, TextRefused)


@dataclass
class Suspects:
    """Texts that failed alone in one run, until it is certain that they are to blame: then they are in `found`, with
    the reasons, and remembered. `pay` is told what asking for a word has cost."""

    embedder: Embedder
    caller: Caller
    memory: RefusedTexts
    pay: Callable[[Usage], None]
    found: dict[bytes, str] = field(default_factory=dict)
    _suspected: dict[bytes, Refusal] = field(default_factory=dict)
    _in_a_row: int = 0
    _works: bool = False  # something was embedded since the last `begin`

    def recall(self, hashes: Sequence[bytes]) -> None:
        """Find those that were refused before and are not to be sent now."""
        self.found |= self.memory.get(hashes)

    def begin(self) -> None:
        """What has worked until now is no sign for what comes next."""
        self._works = False

    def something_was_embedded(self) -> None:
        """The provider works, so those that failed did so for themselves."""
        self._works, self._in_a_row = True, 0
        self._confirm()

    def _confirm(self) -> None:
        if self._suspected:
            self.memory.put(self._suspected)
            self.found |= {digest: refusal.reason for digest, refusal in self._suspected.items()}
            self._suspected = {}

    def add(self, digest: bytes, error: EmbeddingError) -> None:
        """A text that failed alone.

        Raises:
            ProviderRefused, EmbeddingError: the provider embeds nothing at all, so no text is to blame.
        """
        if isinstance(error, TextRefused) and not error.by_provider:
            self.found[digest] = str(error)  # we refuse it: that costs nothing, and the next version may not
            return
        self._suspected[digest] = Refusal(str(error), lasting=isinstance(error, TextRefused))
        self._in_a_row += 1
        if self._in_a_row >= _HOPELESS:
            self._works = False
            self.require_works(error)
        elif self._works:
            self._confirm()

    def settle(self) -> None:
        """Be certain about the last ones. Raises as `add`."""
        if self._suspected:
            self.require_works(EmbeddingError(next(iter(self._suspected.values())).reason))

    def require_works(self, error: EmbeddingError | None = None) -> None:
        """Have a word embedded, unless something was just now; `error` is what made it doubtful. Raises as `add`."""
        if self._works:
            return
        try:
            answer = self.embedder.embed_documents([PROBE], self.caller)
            checked(answer.vectors, 1, self.embedder.dimensions)
        except EmbeddingError as failure:
            if not is_of_a_text(failure):
                raise
            refuses, told = isinstance(failure, TextRefused), str(error or failure)
        else:
            self.pay(answer.usage)
            self.something_was_embedded()
            return
        if refuses:
            raise ProviderRefused(f"a plain word is refused too, so no text is to blame: {told}")
        raise EmbeddingError(told)
