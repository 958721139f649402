"""Embedding profiles: everything that decides a chunk boundary, a vector or an index, in one frozen value.

A profile never changes. Another chunk size or another model is another profile, built beside the first.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rag_assets.documents.chunking import ChunkingSpec
from rag_assets.embedding.models import model_info
from rag_assets.errors import InvalidProfile
from rag_assets.keys import check_key

EMBEDDING_CODE_VERSION = 1  # raise it when our own code makes another vector from the same text
CHUNKING_CODE_VERSION = 1  # raise it when the chunker draws other boundaries in the same text

DEFAULT_CHUNKING = ChunkingSpec(size=1200, overlap=150)
MAX_VECTOR_DIMENSIONS = 2000  # pgvector's HNSW limit for `vector`
MAX_HALFVEC_DIMENSIONS = 4000  # and for `halfvec`

TextSearchConfig = Literal[
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish",
    "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IndexSpec(_Frozen):
    """How a profile's vectors are searched.

    `exact` never builds an index, `hnsw` always builds one, `auto` builds one from `exact_below` rows on.
    """

    kind: Literal["auto", "exact", "hnsw"] = "auto"
    exact_below: int | None = Field(default=None, ge=0)
    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)

    @model_validator(mode="after")
    def _accepted_by_pgvector(self) -> IndexSpec:
        if self.ef_construction < 2 * self.m:
            raise ValueError(f"ef_construction must be at least 2 * m ({2 * self.m})")
        return self

    def exact_rows(self, dimensions: int) -> int:
        """The row count from which `auto` builds an index.

        The default is what an exact scan reads in about 5 ms: measured at 0.15 us a row
        plus 0.0017 us for each of its dimensions, vectors stored in line.
        """
        if self.exact_below is not None:
            return self.exact_below
        return round(5000 / (0.15 + 0.0017 * dimensions))

    def builds_hnsw(self, rows: int, dimensions: int) -> bool:
        """Whether a profile of so many rows is to have an HNSW index."""
        if self.kind == "auto":
            return rows >= self.exact_rows(dimensions)
        return self.kind == "hnsw"


class LexicalSpec(_Frozen):
    """The Postgres text search configuration of a profile's lexical search."""

    language: TextSearchConfig = "english"


class EmbeddingProfile(_Frozen):
    """An immutable recipe from document text to searchable vectors.

    Build one with `make_profile`, which raises `InvalidProfile`; the bare class raises pydantic's
    `ValidationError`. Both raise `InvalidKey` for a name that is not a key.
    """

    name: str
    provider: str
    model: str
    dimensions: int
    distance_metric: Literal["cosine", "ip", "l2"] = "cosine"
    task_instruction: dict[Literal["query", "document"], str] = Field(default_factory=dict)
    normalized: bool = True
    chunking: ChunkingSpec = DEFAULT_CHUNKING
    index: IndexSpec = IndexSpec()
    lexical: LexicalSpec = LexicalSpec()

    @field_validator("name")
    @classmethod
    def _name_is_a_key(cls, value: str) -> str:
        return check_key(value, "profile")

    @field_validator("normalized")
    @classmethod
    def _vectors_are_unit_length(cls, value: bool) -> bool:
        if not value:
            raise ValueError("vectors are always stored at unit length; leave normalized true")
        return value

    @model_validator(mode="after")
    def _can_be_built(self) -> EmbeddingProfile:
        info = model_info(self.provider, self.model)
        if self.dimensions > MAX_HALFVEC_DIMENSIONS:
            raise ValueError(
                f"Postgres cannot index more than {MAX_HALFVEC_DIMENSIONS} dimensions, got {self.dimensions}"
            )
        if self.dimensions not in info.dimensions:
            raise ValueError(
                f"{self.provider}/{self.model} makes vectors of {info.dimensions_text()} dimensions, "
                f"not {self.dimensions}"
            )
        return self

    def __hash__(self) -> int:
        return hash((self.name, self.spec_hash))

    @property
    def spec_hash(self) -> str:
        """Hex SHA-256 over all but the name: equal exactly where chunks, vectors and index would be equal."""
        spec = self.model_dump(mode="json", exclude={"name"})
        return _digest([EMBEDDING_CODE_VERSION, CHUNKING_CODE_VERSION, spec])

    @property
    def model_key(self) -> str:
        """Names what decides a vector of a given text; the embedding cache is keyed by it.

        Readable first, then a digest of every part: `wordllama:l2_supercat_256:256:ab12cd34ef56`.
        """
        parts = {"provider", "model", "dimensions", "normalized", "task_instruction"}
        digest = _digest([EMBEDDING_CODE_VERSION, self.model_dump(mode="json", include=parts)])
        return f"{self.provider}:{self.model}:{self.dimensions}:{digest[:12]}"

    @property
    def index_type(self) -> Literal["vector", "halfvec"]:
        """The pgvector type that an index over these dimensions needs."""
        return "vector" if self.dimensions <= MAX_VECTOR_DIMENSIONS else "halfvec"


def _digest(parts: list[Any]) -> str:
    # JSON delimits every part, so no two different specs can spell the same bytes.
    body = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(body.encode("ascii")).hexdigest()


def make_profile(**kwargs: Any) -> EmbeddingProfile:
    """Build a profile from its fields.

    Raises:
        InvalidProfile: names each field that is wrong, and why.
        InvalidKey: the name is not a valid key.
    """
    try:
        return EmbeddingProfile.model_validate(kwargs)
    except ValidationError as error:
        faults = "; ".join(_fault_text(fault["loc"], fault["msg"]) for fault in error.errors())
        raise InvalidProfile(f"profile {kwargs.get('name')!r}: {faults}") from error
    except InvalidProfile as error:
        raise InvalidProfile(f"profile {kwargs.get('name')!r}: {error}") from error


def _fault_text(location: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    where = ".".join(str(part) for part in location)
    return f"{where}: {message}" if where else message


def _static(dimensions: int) -> EmbeddingProfile:
    return make_profile(
        name=f"static-{dimensions}",
        provider="wordllama",
        model="l2_supercat_256",
        dimensions=dimensions,
    )


BUILTIN_PROFILES: dict[str, EmbeddingProfile] = {
    profile.name: profile for profile in (_static(64), _static(128), _static(256))
}
