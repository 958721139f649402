"""A hook for optical character recognition: scanned pages become text where an engine is installed.

An engine is a callable `(image, language) -> text`: a PNG in bytes, an ISO 639-1 code or None where the language is
not known, and the text it reads, or None or "" for none. It comes from `register_ocr`, or from an installed package
with an entry point in the group `rag_assets.ocr`; the one that was registered wins.
"""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Callable
from typing import Any

from rag_assets.documents.names import is_target
from rag_assets.documents.reasons import in_words
from rag_assets.errors import InvalidArgument, ParseError, UsageError

ENTRY_POINTS = "rag_assets.ocr"
OcrEngine = Callable[[bytes, str | None], str | None]

_registered: list[Any] = []


def register_ocr(engine: OcrEngine | str | None) -> None:
    """Use this engine from now on; None for none. `"module:attribute"` is imported on first use.

    The engine runs in the process that parses the file, under the same limits of time and memory, and without the
    environment of this process: `RAG_PARSE_SECONDS`, `RAG_PARSE_MEMORY_MB` and `RAG_PARSE_ENV` raise them.

    Raises:
        InvalidArgument: it is neither callable nor `"module:attribute"`.
        UsageError: the engine cannot be handed to another process; pass `"module:attribute"` instead.
    """
    if engine is not None and not callable(engine) and not is_target(engine):
        raise InvalidArgument(f'engine must be callable or "module:attribute", got {engine!r}', "engine")
    if getattr(engine, "__module__", "") == "__main__":
        raise UsageError(f'the OCR engine {engine!r} is in __main__: move it to a module, or give "module:attribute"')
    try:
        pickle.dumps(engine)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(f'the OCR engine cannot be pickled: {error}; give "module:attribute" instead') from error
    use(engine)


def use(engine: object) -> None:
    """Use an engine that `register_ocr` has accepted."""
    _registered[:] = [] if engine is None else [engine]


def registered() -> object:
    """Return what `register_ocr` was given last, or None."""
    return _registered[0] if _registered else None


def has_ocr() -> bool:
    """Tell whether there is an engine."""
    return _engine() is not None


def ocr_text(image: bytes, language: str | None = None) -> str | None:
    """Return the text in a PNG; None where there is no engine, "" where it finds no text.

    Raises:
        ParseError: the engine failed; the message is its own.
    """
    engine = _engine()
    if engine is None:
        return None
    # An engine is a stranger's code: its failure is that of one file.
    try:
        return engine(image, language) or ""
    except Exception as error:
        raise ParseError(f"the OCR engine failed: {in_words(error)}") from error


def _engine() -> OcrEngine | None:
    chosen = registered()
    if chosen is None:
        return _installed()
    return _imported(chosen) if isinstance(chosen, str) else chosen  # type: ignore[return-value]


@functools.cache
def _imported(path: str) -> OcrEngine:
    module, _, attribute = path.partition(":")
    try:
        engine: OcrEngine = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ParseError(f"the OCR engine {path} could not be loaded: {in_words(error)}") from error
    return engine


@functools.cache
def _installed() -> OcrEngine | None:
    from importlib.metadata import entry_points  # 30 ms of every parser process

    found = sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name)
    if not found:
        return None
    # The package may be broken in any way; the scan is then what it would be without OCR, plus this reason.
    try:
        engine: OcrEngine = found[0].load()
    except Exception as error:
        raise ParseError(f"the OCR engine {found[0].name} could not be loaded: {in_words(error)}") from error
    return engine
