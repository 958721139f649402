"""Embedding profiles: everything that decides a chunk boundary, a vector or an index, in one frozen value.

A profile never changes. Another chunk size or another model is another profile, built beside the first.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.models import MINILM_INT8, ModelInfo, model_info
from rag_assets.embedding.origins import Origin, origin_of
from rag_assets.errors import InvalidProfile
from rag_assets.faults import faults_of
from rag_assets.keys import check_key
from rag_assets.terms import FIRST, NEWEST, TermsVersion

EMBEDDING_CODE_VERSION = 1  # raise it when our own code makes another vector from the same text
CHUNKING_CODE_VERSION = 1  # raise it when the chunker draws other boundaries in the same text

# Of all chunkings this one finds the most, above all in code: docs/documents.md has the table.
DEFAULT_CHUNKING = ChunkingSpec(strategy="hybrid", size=1200, overlap=150, context_header=True)
MAX_VECTOR_DIMENSIONS = 2000  # pgvector's HNSW limit for `vector`
MAX_HALFVEC_DIMENSIONS = 4000  # and for `halfvec`
MIN_BIT_DIMENSIONS = 128  # of fewer bits too many texts have the same

Storage = Literal["vector", "halfvec", "bit"]

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

    `storage` is how the index keeps vectors: as 4 bytes a dimension (`vector`), 2 (`halfvec`) or a bit (`bit`). The
    table keeps them whole, and what the index finds is put in order by these.
    """

    kind: Literal["auto", "exact", "hnsw"] = "auto"
    exact_below: int | None = Field(default=None, ge=0)
    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)
    storage: Storage = "halfvec"  # finds what `vector` does in half the space: docs/performance.md

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


def first_storage(dimensions: int) -> Storage:
    """The storage of every profile that does not say: of before it could be chosen."""
    return "vector" if dimensions <= MAX_VECTOR_DIMENSIONS else "halfvec"


class LexicalSpec(_Frozen):
    """The Postgres text search configuration of a profile's lexical search."""

    language: TextSearchConfig = "english"


def _plain_address(value: str | None) -> str | None:
    if value is None:
        return None
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{value!r} is no http or https address")
    if url.username or url.password or url.query:
        raise ValueError("an address must hold no key or password; name an environment variable in key_env")
    return value.rstrip("/")


class TripleOptions(_Frozen):
    """The chat model that finds triples in the chunks when they are ingested.

    Attributes:
        provider: google, or openai-compatible for any server that speaks OpenAI's `/chat/completions`.
        model: its name there.
        base_url: of an OpenAI-compatible server, up to and with `/v1`; None: `OPENAI_BASE_URL` of the environment.
        key_env: the environment variable that holds the key; None: the provider's own.
    """

    provider: Literal["google", "openai-compatible"]
    model: str = Field(pattern=r"^[\w./:@+-]{1,200}$")
    base_url: str | None = None
    key_env: str | None = Field(default=None, pattern="^[A-Z][A-Z0-9_]*$")

    @field_validator("base_url")
    @classmethod
    def _is_plain_address(cls, value: str | None) -> str | None:
        return _plain_address(value)

    @model_validator(mode="after")
    def _has_a_server(self) -> TripleOptions:
        if self.base_url is not None and self.provider == "google":
            raise ValueError("base_url: only for the provider openai-compatible")
        return self


class ProviderOptions(_Frozen):
    """What a provider has to know beyond model and dimensions; the defaults leave a profile as if it had none.

    Attributes:
        base_url: of an OpenAI-compatible server, up to and with `/v1`; None: `OPENAI_BASE_URL` of the environment.
        key_env: the environment variable that holds the key; None: the provider's own.
        encoding_format: how an OpenAI-compatible server sends vectors; the vectors are the same.
        send_dimensions: whether such a server is told the dimensions; many know only their model's own.
        input_type: what such a server is told of each role in the field of that name, where it adds prefixes itself.
        task: what Gemini is told that the vectors are for.
        max_input_tokens: the token limit of a model that the registry does not know.
        multimodal: embed small PDFs and images themselves, beside their text.
        graph: find triples in the chunks when they are ingested, with this chat model; None: do not.
    """

    base_url: str | None = None
    key_env: str | None = Field(default=None, pattern="^[A-Z][A-Z0-9_]*$")
    encoding_format: Literal["float", "base64"] = "float"
    send_dimensions: bool = False
    input_type: dict[Literal["query", "document"], str] = Field(default_factory=dict)
    task: Literal["search", "question answering", "fact checking", "code retrieval"] = "search"
    max_input_tokens: int | None = Field(default=None, ge=8)
    multimodal: bool = False
    graph: TripleOptions | None = None

    @field_validator("base_url")
    @classmethod
    def _is_plain_address(cls, value: str | None) -> str | None:
        return _plain_address(value)

    @property
    def vector_parts(self) -> dict[str, Any]:
        """The options that decide a vector, where they are not the defaults."""
        parts = {"base_url", "task", "max_input_tokens", "input_type"}
        return self.model_dump(mode="json", include=parts, exclude_defaults=True)


class EmbeddingProfile(_Frozen):
    """An immutable recipe from document text to searchable vectors.

    Build one with `make_profile`, which raises `InvalidProfile`, or `InvalidKey` for a name that is not a key; the bare
    class raises pydantic's `ValidationError`.
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
    options: ProviderOptions = ProviderOptions()
    terms: TermsVersion = NEWEST

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
        _check_storage(self.index.storage, self.dimensions)
        _check_options(info, self.options)
        return self

    def __hash__(self) -> int:
        return hash((self.name, self.spec_hash))

    @property
    def spec_hash(self) -> str:
        """Hex SHA-256 over all but the name: equal exactly where chunks, vectors and index would be equal."""
        spec = self.model_dump(mode="json", exclude={"name", "options", "terms"})
        # What is left alone is left out, so that a profile keeps its hash when a new option is thought of.
        if self.terms != FIRST:
            spec["terms"] = self.terms
        if self.index.storage == first_storage(self.dimensions):
            del spec["index"]["storage"]
        if options := self.options.model_dump(mode="json", exclude_defaults=True):
            spec["options"] = options
        return _digest([EMBEDDING_CODE_VERSION, CHUNKING_CODE_VERSION, spec])

    @property
    def model_key(self) -> str:
        """Names what decides a vector of a given text, here and now; the embedding cache is keyed by it.

        Readable first, then a digest of every part: `wordllama:l2_supercat_256:256:ab12cd34ef56`. The server that the
        environment names is such a part, unless it is the provider's own.
        """
        parts = {"provider", "model", "dimensions", "normalized", "task_instruction"}
        recipe = self.model_dump(mode="json", include=parts) | self.options.vector_parts
        if (origin := self.origin) is not None:
            recipe |= dict(origin.key_parts)
        digest = _digest([EMBEDDING_CODE_VERSION, recipe])
        return f"{self.provider}:{self.model}:{self.dimensions}:{digest[:12]}"

    @property
    def origin(self) -> Origin | None:
        """Where its vectors come from now, as far as that is not said here; None where it is."""
        return origin_of(self.provider, self.model, self.options.base_url)

    @property
    def model_info(self) -> ModelInfo:
        """The registry's entry for the model."""
        return model_info(self.provider, self.model)

    @property
    def max_input_tokens(self) -> int | None:
        """Tokens of one text that the model reads; None where nobody has said."""
        return self.options.max_input_tokens or self.model_info.max_input_tokens

    @property
    def index_type(self) -> Storage:
        """The type of the values in its index: of pgvector, or of Postgres for bits."""
        return self.index.storage


def _check_storage(storage: Storage, dimensions: int) -> None:
    """Refuse what pgvector cannot index, and what would find next to nothing."""
    if storage == "vector" and dimensions > MAX_VECTOR_DIMENSIONS:
        raise ValueError(
            f"index.storage vector: Postgres indexes at most {MAX_VECTOR_DIMENSIONS} dimensions as vector, "
            f"got {dimensions}; use halfvec or bit"
        )
    if storage == "bit" and dimensions < MIN_BIT_DIMENSIONS:
        raise ValueError(
            f"index.storage bit: {dimensions} bits tell too few texts apart; use halfvec, "
            f"or a model of at least {MIN_BIT_DIMENSIONS} dimensions"
        )


_OPENAI_ONLY = {"base_url", "encoding_format", "send_dimensions", "input_type"}


def _check_options(info: ModelInfo, options: ProviderOptions) -> None:
    """Refuse options that would do nothing: whoever set them expects something of them."""
    given = options.model_fields_set & set(options.model_dump(exclude_defaults=True))
    if info.provider != "openai-compatible" and (useless := sorted(given & _OPENAI_ONLY)):
        raise ValueError(f"{', '.join(useless)}: only for the provider openai-compatible")
    if "task" in given and info.provider != "google":
        raise ValueError("task: only for the provider google; use task_instruction")
    if options.multimodal and not info.media:
        raise ValueError(f"multimodal: {info.provider}/{info.model} embeds text only")
    if (options.max_input_tokens or 0) > (info.max_input_tokens or sys.maxsize):
        raise ValueError(f"max_input_tokens: {info.model} reads at most {info.max_input_tokens} tokens")


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
    if "name" in kwargs:
        check_key(kwargs["name"], "profile")  # pydantic would make it one fault among others
    try:
        return EmbeddingProfile.model_validate(kwargs)
    except ValidationError as error:
        faults = "; ".join(faults_of(error, EmbeddingProfile))
        raise InvalidProfile(f"profile {kwargs.get('name')!r}: {faults}") from error
    except InvalidProfile as error:
        raise InvalidProfile(f"profile {kwargs.get('name')!r}: {error}") from error


def stored_profile(spec: Mapping[str, Any]) -> EmbeddingProfile:
    """A profile as it was written down, with or without other columns beside its fields. What it does not say is as it
    was before it could be said.

    Raises:
        pydantic.ValidationError: it is no profile of this version.
    """
    known = {name: spec[name] for name in EmbeddingProfile.model_fields if name in spec}
    index = {"storage": first_storage(spec["dimensions"]), **spec["index"]}
    return EmbeddingProfile.model_validate({"terms": FIRST, **known, "index": index})


def _static(dimensions: int) -> EmbeddingProfile:
    return make_profile(
        name=f"static-{dimensions}",
        provider="wordllama",
        model="l2_supercat_256",
        dimensions=dimensions,
    )


DEFAULT_PROFILE = "static-256"  # of a bot that has none

_MINILM = make_profile(name="minilm", provider="onnx", model=MINILM_INT8, dimensions=384)  # with the extra `onnx`

BUILTIN_PROFILES: dict[str, EmbeddingProfile] = {
    profile.name: profile for profile in (_static(64), _static(128), _static(256), _MINILM)
}
