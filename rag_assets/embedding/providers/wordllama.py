"""The static model that ships inside the `wordllama` package: no key, no download, no network.

A text's vector is the mean of its tokens' vectors. The package's own code is not imported: that
takes 0.2 s warm and 1.2 s cold (`requests`, Cython modules), configures the root logger, and pads
every text of a batch to the longest. Its two data files are read directly and nothing is padded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer

from rag_assets.chunking.plain import read_as_text
from rag_assets.embedding.check import check_texts, checked
from rag_assets.embedding.models import WORDLLAMA_MAX_TOKENS
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Usage
from rag_assets.embedding.providers.pieces import Pieces, pieces_of
from rag_assets.errors import EmbeddingError

# TOKENIZERS_PARALLELISM stays unset on purpose: the library then uses all cores, and falls back to
# one in a forked process, where "true" would wait for threads that the fork did not copy.

_SLICE_TEXTS = 512
_SLICE_CHARACTERS = 250_000  # about 10 MB of pieces
_FEW_CHARACTERS = 400_000  # are tokenized as they are, sooner than the tokenizer's file is read for their pieces
_LONGEST_TOKEN = 16  # characters; a longer text can be cut here without changing the tokens that count
_MAX_CHARACTERS = WORDLLAMA_MAX_TOKENS * _LONGEST_TOKEN


class WordLlamaEmbedder:
    """Mean-pooled static vectors; only the first `WORDLLAMA_MAX_TOKENS` tokens of a text count.

    Its tokenizer falls back to bytes, so a text that is not blank always has a token, and no row
    of the table is zero.
    """

    instant = True

    def __init__(self, profile: EmbeddingProfile) -> None:
        self.model_key = profile.model_key
        self.batch_items = profile.model_info.batch_items
        self.dimensions = profile.dimensions
        self._document_prefix = profile.task_instruction.get("document", "")
        self._query_prefix = profile.task_instruction.get("query", "")
        self._tokenizer = load_tokenizer()
        self._table = _load_table(profile.model, profile.dimensions)
        self._characters = 0  # of documents, until now

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_documents`."""
        check_texts(texts)
        means = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens = 0
        for start, stop in _slices(texts):
            batch = [_clip(self._document_prefix + text) for text in texts[start:stop]]
            for row, ids in enumerate(self._ids(batch), start):
                means[row] = self._mean(ids[:WORDLLAMA_MAX_TOKENS])
                tokens += min(len(ids), WORDLLAMA_MAX_TOKENS)
        usage = Usage(caller.tenant, caller.bot, len(texts), tokens)
        return Embedded(checked(means, len(texts), self.dimensions), usage)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_query`."""
        check_texts([text])
        encoding = self._tokenizer.encode(_clip(self._query_prefix + text), add_special_tokens=False)
        ids = encoding.ids[:WORDLLAMA_MAX_TOKENS]
        vector = checked(self._mean(ids)[None, :], 1, self.dimensions)
        return Embedded(vector, Usage(caller.tenant, caller.bot, 1, len(ids)))

    def _ids(self, texts: Sequence[str]) -> Sequence[list[int] | NDArray[np.intp]]:
        self._characters += sum(map(len, texts))
        pieces = load_pieces() if self._characters > _FEW_CHARACTERS else None
        if pieces is not None and pieces.pay(texts):
            return pieces.ids(texts)
        return [one.ids for one in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _mean(self, ids: list[int] | NDArray[np.intp]) -> NDArray[np.float32]:
        # A matrix product sums one text's rows while they are in cache: 5 times as fast as
        # `np.add.reduceat` over a whole slice.
        weights = np.full(len(ids), 1 / max(len(ids), 1), dtype=np.float32)
        return weights @ self._table.take(ids, axis=0)


def _clip(text: str) -> str:
    return text[:_MAX_CHARACTERS]


def _slices(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    start, characters = 0, 0
    for position, text in enumerate(texts):
        size = min(len(text), _MAX_CHARACTERS)
        full = position - start >= _SLICE_TEXTS or characters + size > _SLICE_CHARACTERS
        if full and position > start:
            yield start, position
            start, characters = position, 0
        characters += size
    if start < len(texts):
        yield start, len(texts)


def _package_folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise EmbeddingError("the provider wordllama needs the package of that name: pip install wordllama")
    return Path(spec.origin).parent


def _tokenizer_file() -> Path:
    return _package_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json"


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """The model's tokenizer, without padding or truncation; one per process."""
    tokenizer = Tokenizer.from_file(str(_tokenizer_file()))
    read_as_text(tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@lru_cache(maxsize=1)
def load_pieces() -> Pieces | None:
    """The pieces of that tokenizer, and one memory of them per process; None where its texts have none."""
    return pieces_of(load_tokenizer(), json.loads(_tokenizer_file().read_bytes()))


def _load_table(model: str, dimensions: int) -> NDArray[np.float32]:
    """The first `dimensions` columns of the token table, (vocabulary, dimensions): 32 MB at 256."""
    path = _package_folder() / "weights" / f"{model}.safetensors"
    with safe_open(path, framework="np") as weights:
        columns = weights.get_slice("embedding.weight")[:, :dimensions]
    return np.ascontiguousarray(columns, dtype=np.float32)


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `wordllama`."""
    return WordLlamaEmbedder(profile)
