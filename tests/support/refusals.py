"""A memory of refused texts without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag_assets.embedding.refused import Refusal


class Memory:
    """A `RefusedTexts` that lives as long as the object."""

    def __init__(self) -> None:
        self.refused: dict[bytes, Refusal] = {}

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """See `RefusedTexts.get`."""
        return {digest: self.refused[digest].reason for digest in hashes if digest in self.refused}

    def put(self, refusals: Mapping[bytes, Refusal]) -> None:
        """See `RefusedTexts.put`."""
        self.refused |= refusals
