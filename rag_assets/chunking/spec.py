"""The settings of a chunker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from rag_assets.errors import InvalidProfile
from rag_assets.faults import faults_of

MIN_SIZE = 20  # characters or tokens: no character takes more tokens, so a chunk can always be filled
MAX_SIZE = 20_000  # characters
MAX_TOKENS = 8192  # what the longest of today's embedding models read
TOKEN_STRATEGIES = ("token", "hybrid")

Strategy = Literal["recursive", "character", "token", "sentence", "paragraph", "markdown", "faq", "code", "hybrid"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Unit = Literal["characters", "tokens"]


class ChunkingSpec(BaseModel):
    """How documents are divided.

    Attributes:
        strategy: which chunker; see `rag_assets.chunking.chunk_document`.
        size: the most that a chunk may hold, in `unit`.
        overlap: the most that a chunk may repeat of the one before it, in `unit`.
        tokenizer: what counts tokens: `wordllama`, `tiktoken:NAME`, or the path of a Hugging Face `tokenizer.json`
            or of a model's folder that holds one. `token` uses wordllama's where none is given; `hybrid` measures
            in characters without one.
        context_header: whether a model also reads the title and headings in front of each chunk; for code the
            symbol, its kind and its documentation.
        distinct_pages: whether a web page that adds nothing to another, and blocks that many pages repeat, are left
            out; see `rag_assets.chunking.repeated_pages`.

    A field other than the first three is stored only where it was set, so that what was built before it existed
    keeps its identity.

    Raises:
        InvalidProfile: a size, overlap or tokenizer that could not work.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Strategy = "recursive"
    size: int
    overlap: int
    tokenizer: str | None = None
    context_header: bool = False
    distinct_pages: bool = True

    if not TYPE_CHECKING:  # a checker knows the fields, and they are what it should check

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidProfile(f"chunking: {'; '.join(faults_of(error, ChunkingSpec))}") from error

    @property
    def unit(self) -> Unit:
        """What size and overlap are counted in; characters are code points."""
        return "tokens" if self.strategy == "token" or self.tokenizer is not None else "characters"

    @model_validator(mode="after")
    def _check(self) -> ChunkingSpec:
        if self.tokenizer is not None and self.strategy not in TOKEN_STRATEGIES:
            raise InvalidProfile(f"chunking {self.strategy!r} counts characters; only token and hybrid use a tokenizer")
        if self.tokenizer is not None and not self.tokenizer.removeprefix("tiktoken:").strip():
            raise InvalidProfile("chunking: the tokenizer has no name")
        largest = MAX_TOKENS if self.unit == "tokens" else MAX_SIZE
        if not MIN_SIZE <= self.size <= largest:
            raise InvalidProfile(f"chunk size {self.size} is not between {MIN_SIZE} and {largest:,} {self.unit}")
        if not 0 <= self.overlap < self.size:
            raise InvalidProfile(
                f"chunk overlap {self.overlap} must be at least 0 and less than the chunk size {self.size}"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unset = {"tokenizer": None, "context_header": False, "distinct_pages": True}
        return {name: value for name, value in dump(self).items() if name not in unset or value != unset[name]}
