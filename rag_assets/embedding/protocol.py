"""What every embedder offers: one object per profile embeds its documents and its queries, and where the provider has
a batch API, another one its backlog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray


class Gate(Protocol):
    """What a request has to pass before it is sent: rate limits and a cost ceiling."""

    def acquire(self, items: int, tokens: int) -> None:
        """Wait until a request of so many items and (estimated) tokens may be sent; call it before each, also
        before the repetition of one.

        Raises:
            CostCeilingReached: it could cost more than the profile may.
            ProviderUnavailable: the wait would be longer than a run should wait.
        """
        ...

    def throttled(self, seconds: float) -> None:
        """The provider asked for a pause: no worker that uses this key and model sends anything for so long."""
        ...


class OpenGate:
    """No limits: for local models, and for use without a database."""

    def acquire(self, items: int, tokens: int) -> None:
        """See `Gate.acquire`."""

    def throttled(self, seconds: float) -> None:
        """See `Gate.throttled`."""


_OPEN = OpenGate()


@dataclass(frozen=True)
class Caller:
    """On whose behalf something is embedded. It never changes a vector: it tags usage, and holds the gate. `wait_s`
    and `tries`: the most seconds and attempts that a document's request may go on failing; None: as long, and as
    often, as the provider's module thinks fit."""

    tenant: str = ""
    bot: str = ""
    gate: Gate = _OPEN
    wait_s: float | None = None
    tries: int | None = None

    def for_one_doubt(self, wait_s: float, tries: int) -> Caller:
        """The same, for a request that is to find something out: it is given up sooner, and never later."""
        return replace(self, wait_s=wait_s if self.wait_s is None else min(wait_s, self.wait_s), tries=tries)


NOBODY = Caller()


@dataclass(frozen=True)
class Usage:
    """What a call consumed. `items` are the vectors that were paid for, `tokens` what the model read, `cost_usd` 0
    for a local model, `seconds` how long the answer took, 0 where nobody has looked."""

    tenant: str
    bot: str
    items: int
    tokens: int
    cost_usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Embedded:
    """The answer for n texts: unit vectors (n, d) float32 by position, and what they cost."""

    vectors: NDArray[np.float32]
    usage: Usage


class Embedder(Protocol):
    """Makes unit vectors of `dimensions` float32 values.

    Both methods raise `TextRefused` for a blank text, before any work is done; `EmbeddingError` for an answer that
    must not be stored (a wrong count or dimension, NaN, infinity, a zero vector); and its other subclasses as
    `rag_assets.errors` describes them. After an error nothing of the call may be stored.
    """

    @property
    def model_key(self) -> str:
        """Equal to `EmbeddingProfile.model_key`: two embedders share it if they make the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def batch_items(self) -> int:
        """How many texts to pass in one call: each call's vectors are kept before the next is made."""
        ...

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """Embed texts to be searched; vectors (n, d) in the order of the texts."""
        ...

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """Embed one search text; vectors (1, d). Meant for an answer that somebody waits for: it does not queue."""
        ...


class MediaEmbedder(Embedder, Protocol):
    """An embedder whose profile may be `multimodal`."""

    def embed_media(self, data: bytes, mime_type: str, caller: Caller = NOBODY) -> Embedded:
        """Embed one file as such; vectors (1, d) in the space of the texts. Raises `TextRefused` for one that is
        damaged, too large, or of a kind that the model does not read."""
        ...


Outcome = Literal["open", "succeeded", "failed"]


@dataclass(frozen=True)
class BatchAnswer:
    """What came back for one text of a batch job: a vector, as the provider sent it, or an error in our words."""

    values: list[float] = field(default_factory=list)
    tokens: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class RemoteJob:
    """A batch job as the provider shows it. `state` is the provider's word, and `outcome` what it means; a state that
    nobody knows leaves the job `open`. `inline` are answers without keys, in the order of the texts."""

    name: str
    state: str
    outcome: Outcome
    result_file: str | None = None
    inline: tuple[BatchAnswer, ...] | None = None


class BatchEmbedder(Protocol):
    """The batch jobs of one profile: files of texts at the provider, which answers them at a lower price in its time.

    Methods that ask the provider raise `ProviderUnavailable`, `ProviderRefused`, `TextRefused` or another
    `EmbeddingError`, as `rag_assets.errors` describes them. None of them says what is in a text.
    """

    def sendable(self, text: str) -> str | None:
        """The text as a line of a job may hold it; None for one that only `Embedder.embed_documents` can deal with."""
        ...

    def tokens(self, text: str) -> int:
        """The estimated tokens that the model reads of a text."""
        ...

    def line(self, key: str, text: str) -> bytes:
        """One line of a job's file. `text` is as `sendable` returned it."""
        ...

    def upload(self, file: str, lines: Iterable[bytes]) -> None:
        """Upload the lines as the file of this name (`files/` and at most 40 lower-case letters, digits and dashes).

        It is tried once: where it fails, take another name, because a part of the first may be there.
        """
        ...

    def create(self, display_name: str, file: str) -> str | None:
        """Make the job of an uploaded file and return its name; None where the queue of the account is full.

        Raises:
            ProviderUnavailable: nobody knows whether there is a job: look for it with `find` later.
            EmbeddingError: there is none.
        """
        ...

    def find(self, display_name: str) -> str | None:
        """The name of the job with this display name, or None."""
        ...

    def get(self, name: str, *, briefly: bool = False) -> RemoteJob | None:
        """The job as it is now, or None if there is none of this name. `briefly`: one try, for who looks again."""
        ...

    def results(self, job: RemoteJob) -> list[tuple[str, BatchAnswer]]:
        """The key and the answer of each line of the result file, in the file's order. Nothing is checked but the
        form.

        Raises:
            EmbeddingError: a line is not what an answer looks like, or there is no file.
        """
        ...

    def cancel(self, name: str) -> None:
        """Ask that the job be stopped; one that has ended or is gone is left as it is."""
        ...

    def delete(self, name: str) -> None:
        """Delete the job at the provider; one that is gone is no error."""
        ...

    def delete_file(self, file: str) -> None:
        """Delete a file at the provider; one that is gone is no error."""
        ...

    def close(self) -> None:
        """Close the connections to the provider."""
        ...
