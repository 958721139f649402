"""Why something failed, in words: what an exception says to a person who has the file and not the program."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable

_BARE = "it is not built as its kind of file is"
# What libraries put into their messages that is about their own memory and code.
_NOISE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<[^<>]*\bat 0x[0-9a-fA-F]+[^<>]*>|<(?:class|function|module|method|built-in)\b[^<>]*>"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]{8,}\b"), ""),
    (re.compile(r"\(<string>(?:, line \d+)?\)|\(null\)(?=,|$)|<string>"), ""),
    (re.compile(r"""\bb(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""), "other bytes"),
    (re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Property|Exit|Interrupt): "), ""),
    (re.compile(r"\[Errno -?\d+\] "), ""),
)
_TEMPORARY = re.compile(
    rf"""['"]?(?:{re.escape(tempfile.gettempdir())}|/tmp|/var/tmp|/private/var/folders)/[^\s'",;:()]*['"]?"""
)
_BY_CLASS: dict[type[BaseException], Callable[[BaseException], str]] = {
    KeyError: lambda error: f"it lacks {error.args[0]!r}" if error.args and isinstance(error.args[0], str) else _BARE,
    IndexError: lambda error: "it ends too early, or points outside of itself",
    EOFError: lambda error: "it ends too early",
    RecursionError: lambda error: "it is nested too deeply",
    AttributeError: lambda error: _BARE,
    TypeError: lambda error: _BARE,
    AssertionError: lambda error: _BARE,
    MemoryError: lambda error: "it needs more memory than there is",
    TimeoutError: lambda error: "it took too long",
    SystemExit: lambda error: f"it asked to exit with {error}",
    KeyboardInterrupt: lambda error: "it was interrupted",
}


def in_words(error: BaseException) -> str:
    """Return why a library refused some bytes, on one line, without what only a programmer can read."""
    for kind, words in _BY_CLASS.items():
        if type(error) is kind:
            return readable(words(error))
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return readable(_TEMPORARY.sub("a temporary file", text))


def readable(text: str) -> str:
    """Return a reason on one line without reprs and addresses of objects, bytes, and names of exceptions."""
    plain = text
    for pattern, instead in _NOISE:
        plain = pattern.sub(instead, plain)
    if plain != text:
        plain = re.sub(r"\s+([,;:)])", r"\1", plain).strip(" :;,")
    return " ".join(plain.split()) or _BARE
