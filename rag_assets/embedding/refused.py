"""Texts that a provider does not embed: whether they are to blame, and what is remembered of them.

A provider may refuse a text for its content, answer it with what is no vector, or have no answer for it at all: it
fails, or falls silent. All look the same where the request as such is wrong, or the server broken or gone. What tells
them apart is an answer: as long as others are embedded, or else a word that no provider can mind, the texts that fail
alone are to blame. Only then are they remembered. A request without an answer shows no more than that it had none, so
after each the word is asked for: where that has no answer either, nothing else is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rag_assets.embedding.check import checked
from rag_assets.embedding.protocol import Caller, Embedder, Usage
from rag_assets.errors import EmbeddingError, ProviderRefused, ProviderUnavailable, TextRefused

PROBE = "Hello."
_HOPELESS = 8  # failures one after the other, before it is looked whether the provider embeds anything
_WORD_S, _WORD_TRIES = 30.0, 2  # for the word, after a request without an answer
_DOUBT_S, _DOUBT_TRIES = 60.0, 3  # for a part of such a request: as long as one attempt may take


@dataclass(frozen=True)
class Refusal:
    """Why a text has no vector. `lasting`: the provider refuses it, and will again; else it had no answer, or one that
    is no vector, which may be mended there one day."""

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
    """Whether a text may be to blame: it was refused, its answer must not be stored, or it had none. All other errors
    are the provider's, the key's or the budget's."""
    return type(error) in (EmbeddingError, TextRefused) or is_unanswered(error)


def is_unanswered(error: EmbeddingError | None) -> bool:
    """Whether a request had no answer, which may be for one of its texts."""
    return isinstance(error, ProviderUnavailable) and bool(error.unanswered)


def in_doubt(caller: Caller) -> Caller:
    """The same caller, for the parts of a request that had no answer."""
    return caller.for_one_doubt(_DOUBT_S, _DOUBT_TRIES)


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
    _unanswered: int = 0  # in a row, with no other text embedded between them
    _works: bool = False  # something was embedded since the last `begin`

    def recall(self, hashes: Sequence[bytes]) -> None:
        """Find those that were refused before and are not to be sent now."""
        self.found |= self.memory.get(hashes)

    def begin(self) -> None:
        """What has worked until now is no sign for what comes next."""
        self._works = False

    def something_was_embedded(self) -> None:
        """The provider works, so those that failed did so for themselves."""
        self._unanswered = 0
        self._it_works()

    def doubt(self, error: EmbeddingError) -> None:
        """Find out whether the provider works, before more is sent after a failure that may not be a text's.

        Raises:
            ProviderRefused, EmbeddingError: it does not.
        """
        if is_unanswered(error):
            self.begin()  # whatever it embedded before, it may be gone since
        if not isinstance(error, TextRefused):
            self.require_works(error)  # an answer is paid for, and halves cost as much again

    def _it_works(self) -> None:
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
        if isinstance(error, ProviderUnavailable):
            self._add_unanswered(digest, error)
            return
        self._suspected[digest] = Refusal(str(error), lasting=isinstance(error, TextRefused))
        self._in_a_row += 1
        if self._in_a_row >= _HOPELESS:
            self._works = False
            self.require_works(error)
        elif self._works:
            self._confirm()

    def _add_unanswered(self, digest: bytes, error: ProviderUnavailable) -> None:
        """A text that had no answer, while the word just had one: it is remembered, and if there are too many of them,
        they have shown that nothing else will be embedded now. The next run begins behind them."""
        self._suspected[digest] = Refusal(f"{error.unanswered}, though others are embedded", lasting=False)
        self._confirm()
        self._unanswered += 1
        if self._unanswered >= _HOPELESS:
            raise ProviderUnavailable(f"{error}; of the last {self._unanswered} texts none had an answer")

    def settle(self) -> None:
        """Be certain about the last ones. Raises as `add`."""
        if self._suspected:
            self.require_works(EmbeddingError(next(iter(self._suspected.values())).reason))

    def require_works(self, error: EmbeddingError | None = None) -> None:
        """Have a word embedded, unless something was just now; `error` is what made it doubtful. Raises as `add`."""
        if self._works:
            return
        caller = self.caller.for_one_doubt(_WORD_S, _WORD_TRIES) if is_unanswered(error) else self.caller
        try:
            answer = self.embedder.embed_documents([PROBE], caller)
            checked(answer.vectors, 1, self.embedder.dimensions)
        except ProviderUnavailable as failure:
            # What was asked for in earnest, and longer, says more.
            raise (error if isinstance(error, ProviderUnavailable) else failure) from None
        except EmbeddingError as failure:
            if not is_of_a_text(failure):
                raise
            refuses, told = isinstance(failure, TextRefused), str(error or failure)
        else:
            self.pay(answer.usage)
            self._it_works()
            return
        if refuses:
            raise ProviderRefused(f"a plain word is refused too, so no text is to blame: {told}")
        raise EmbeddingError(told)
