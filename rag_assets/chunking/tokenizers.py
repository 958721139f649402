"""The tokenizers that can measure chunks: those of the models themselves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tokenizers import Tokenizer

from rag_assets.chunking.plain import read_as_text
from rag_assets.errors import TokenizerUnavailable

if TYPE_CHECKING:
    from tiktoken import Encoding

DEFAULT_TOKENIZER = "wordllama"
_TIKTOKEN = "tiktoken:"
_PIECE = 16_384  # characters; longer texts are measured in pieces, so that memory and time grow with the text only


class TokenCounter(Protocol):
    """Counts a text's tokens and finds them; special tokens are not part of it."""

    def count(self, text: str) -> int:
        """The number of tokens of `text`."""

    def starts(self, text: str) -> Iterator[int]:
        """The offset, in code points, at which each token of `text` begins; it never decreases."""


class HuggingFaceCounter:
    """Counts with a tokenizer of the `tokenizers` library."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        read_as_text(tokenizer)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])

    def starts(self, text: str) -> Iterator[int]:
        pieces = list(_pieces(text))
        for first in range(0, len(pieces), 64):
            some = pieces[first : first + 64]
            batch = [text[begin:end] for begin, end in some]
            for (begin, _), encoding in zip(some, self._encode(batch), strict=True):
                highest = begin
                for offset, _ in encoding.offsets:
                    highest = max(highest, begin + offset)
                    yield highest

    def _encode(self, batch: list[str]):  # type: ignore[no-untyped-def]  # the library's stubs name no Encoding
        return self._tokenizer.encode_batch(batch, add_special_tokens=False)


class TiktokenCounter:
    """Counts with an encoding of the `tiktoken` library."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))

    def starts(self, text: str) -> Iterator[int]:
        for begin, end in _pieces(text):
            tokens = self._encoding.encode_ordinary(text[begin:end])
            _, offsets = self._encoding.decode_with_offsets(tokens)
            for offset in offsets:
                yield begin + offset


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans of moderate length that begin at white space where they can."""
    begin = 0
    while len(text) - begin > _PIECE:
        end = begin + _PIECE
        space = max(text.rfind(" ", begin + 1, end), text.rfind("\n", begin + 1, end))
        end = space if space > 0 else end
        yield begin, end
        begin = end
    yield begin, len(text)


@lru_cache(maxsize=4)
def load_counter(name: str) -> TokenCounter:
    """Return the tokenizer of that name: see `ChunkingSpec.tokenizer`.

    Raises:
        TokenizerUnavailable: no such tokenizer is here; says what would help.
    """
    if name.startswith(_TIKTOKEN):
        return TiktokenCounter(_load_tiktoken(name.removeprefix(_TIKTOKEN)))
    path = _wordllama_file() if name == DEFAULT_TOKENIZER else _tokenizer_file(name)
    try:
        return HuggingFaceCounter(Tokenizer.from_file(str(path)))
    except Exception as error:  # the library raises bare Exception for whatever is wrong with a file
        raise TokenizerUnavailable(f"tokenizer {name}: {path} cannot be read: {error}") from error


def _wordllama_file() -> Path:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise TokenizerUnavailable("the tokenizer wordllama needs the package of that name: pip install wordllama")
    return Path(spec.origin).parent / "tokenizers" / "l2_supercat_tokenizer_config.json"


def _tokenizer_file(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    # Sentence-transformers models have it beside their configuration, or in the folder of their first module.
    for candidate in (path / "tokenizer.json", *sorted(path.glob("*/tokenizer.json"))):
        if candidate.is_file():
            return candidate
    raise TokenizerUnavailable(
        f"tokenizer {name}: neither wordllama nor tiktoken:NAME nor a file or folder that holds a tokenizer.json"
    )


def _load_tiktoken(name: str) -> Encoding:
    try:
        import tiktoken  # an extra
    except ImportError as error:
        raise TokenizerUnavailable(
            f"the tokenizer tiktoken:{name} needs the package tiktoken: pip install tiktoken"
        ) from error
    known = tiktoken.list_encoding_names()
    if name not in known:
        raise TokenizerUnavailable(f"unknown tiktoken encoding {name!r}: known are {', '.join(known)}")
    try:
        return tiktoken.get_encoding(name)
    except Exception as error:  # whatever its downloader meets: no network, a proxy, a checksum, a full disk
        raise TokenizerUnavailable(
            f"the tiktoken encoding {name} has to be downloaded once, and that failed "
            f"({type(error).__name__}): connect, or set TIKTOKEN_CACHE_DIR to a folder that has it"
        ) from error
