"""Bytes to text: who says in which encoding they are, and what is done where nobody does.

The first of these wins: a byte order mark; what the file or its server declares, where that is in seven bits or in wide
characters; zero bytes and escape sequences, which tell their encodings; UTF-8, which nothing else looks like; what the
file or its server declares; what its root was told (`rag ingest --encoding`); a guess.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from rag_assets.documents.guessing import Decoded, decoded, in_one_encoding
from rag_assets.documents.mixed import mixed
from rag_assets.errors import ParseError
from rag_assets.printing import counted

UTF_8 = "utf-8"
_CONTINUATION = bytes(range(0x80, 0xC0))  # within a character of UTF-8
_LOST = "\ufffd"
# FF FE 00 00 is UTF-32LE, and its first two bytes are also the UTF-16LE mark: longest first.
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = ("utf_16", "utf_32")
# Bytes in these encodings are valid UTF-8 as well, so whoever names one of them is believed first.
_SEVEN_BIT = ("iso2022", "hz", "utf_7")
# Browsers read these labels as Windows-1252, and so do the people who write them.
_WEB_ALIASES = {"iso8859-1": "cp1252", "ascii": "cp1252"}
_BINARY_BYTES = bytes(b for b in range(0x20) if b not in b"\b\t\n\v\f\r\x1b")
_ESCAPES = re.compile(rb"\x1b(?:(\$\)C)|\$\(?[@BD]|\([JI])")  # the first is Korean
_SCRIPTS = (
    *(
        "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
        "\u0370-\u03ff",
        "\u0400-\u052f",
        "\u0530-\u058f",
        "\u0590-\u05ff",
        "\u0600-\u06ff",
    ),
    *("\u0900-\u097f", "\u0e00-\u0e7f", "\u10a0-\u10ff", "\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef"),
    "\u3000-\u303f\uac00-\ud7af\uff00-\uffef",
)
_OF_SCRIPT = [re.compile(f"[{script}\\s!-~\u00a0-\u00bf\u2000-\u206f]") for script in _SCRIPTS]
_ONE_SCRIPT = 0.9  # share of the characters of a text in one script, with digits and punctuation
_HEAD = 4096  # bytes in which control bytes are looked for


@dataclass
class Reading:
    """How one file is read: the encoding that its root was told, and what was decoded from others than UTF-8."""

    stated: str | None = None
    guesses: dict[str, int] = field(default_factory=dict)  # from how many characters that are not ASCII
    encodings: set[str] = field(default_factory=set)


_reading: ContextVar[Reading | None] = ContextVar("how the file is read", default=None)


@contextlib.contextmanager
def reading(stated: str | None = None) -> Iterator[Reading]:
    """Let `decode` know what a root was told, and note what it did; a file inside a file has notes of its own."""
    outer = _reading.get()
    now = Reading(stated or (outer.stated if outer else None))
    token = _reading.set(now)
    try:
        yield now
    finally:
        _reading.reset(token)


def decode(data: bytes, declared: str | None = None) -> str:
    """Return the text of `data`; `declared` is the charset that a header or the document names.

    A few bad bytes in what is plainly UTF-8 become U+FFFD, unless they make good words in another encoding.

    Raises:
        ParseError: the bytes are binary, or in no encoding that can be told with confidence.
    """
    now = _reading.get() or Reading()
    found = _decoded(data, _codec(declared), _codec(now.stated))
    name = found.encoding.replace("_", "-")
    if name != UTF_8 and not found.text.isascii():
        now.encodings.add(name)
        if found.guessed_from is not None:
            now.guesses[name] = now.guesses.get(name, 0) + found.guessed_from
    return found.text


def _decoded(data: bytes, declared: str | None, stated: str | None) -> Decoded:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return Decoded(_strict(data[len(mark) :], encoding, "its byte order mark says"), encoding)
    if declared and declared.startswith((*_SEVEN_BIT, *_WIDE)):
        return Decoded(_strict(data, declared, "it is declared as"), declared)
    if told := _told_by_bytes(data, stated):
        return told
    _refuse_binary(data)
    with contextlib.suppress(UnicodeDecodeError):
        return Decoded(data.decode(UTF_8), UTF_8)
    named = [codec for codec in (declared, stated) if codec]
    if not named and (text := _cut_utf_8(data)) is not None:
        return Decoded(text, UTF_8)
    return _not_in_utf_8(data, named)


def _cut_utf_8(data: bytes) -> str | None:
    """UTF-8 of which the first or the last character is there in part, as of a copy that was interrupted; None for any
    other text, and where no whole character outside ASCII says that it is UTF-8."""
    head = len(data) - len(data[:3].lstrip(_CONTINUATION)) - len(data[3:])
    decoder = codecs.getincrementaldecoder(UTF_8)()
    try:
        text = decoder.decode(data[head:])
    except UnicodeDecodeError:
        return None
    rest, _ = decoder.getstate()
    if text.isascii() or not (head or rest):
        return None
    return f"{_LOST if head else ''}{text}{_LOST if rest else ''}"


def _not_in_utf_8(data: bytes, named: Sequence[str]) -> Decoded:
    whole = in_one_encoding(data, named)
    found = mixed(data, named, whole) or whole
    if found is None:
        raise ParseError("not UTF-8, and no other encoding fits: binary content, or a damaged file")
    return found


def in_ascii_form(data: bytes) -> bytes:
    """Return what is written in ASCII, such as the headers of a mail, as the bytes that its parser expects.

    A byte order mark goes, and UTF-16 and UTF-32 become UTF-8; anything else stays as it is.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), None) or _wide_without_mark(data)
    if encoding is None:
        return data
    if encoding == UTF_8:
        return data.removeprefix(codecs.BOM_UTF8)
    return data.decode(encoding, "replace").removeprefix("\ufeff").encode(UTF_8, "replace")


def _strict(data: bytes, encoding: str, why: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ParseError(f"not valid {encoding}, which {why}: {error.reason} at byte {error.start}") from error


def _codec(name: str | None) -> str | None:
    if not name:
        return None
    try:
        found = codecs.lookup(name.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return None
    return _WEB_ALIASES.get(found, found).replace("-", "_")


def _told_by_bytes(data: bytes, stated: str | None) -> Decoded | None:
    """Text in UTF-16 without a mark, or in seven bits with escape sequences, or as stated."""
    if wide := _wide_without_mark(data):
        return Decoded(_strict(data, wide, "its zero bytes say"), wide)
    escapes = _ESCAPES.search(data)
    names = ("iso2022_kr",) if escapes and escapes[1] else ("iso2022_jp", "iso2022_jp_2", "iso2022_jp_ext")
    for encoding in names if escapes else (stated,) if stated and stated.startswith(_SEVEN_BIT) else ():
        if (text := decoded(data, encoding)) is not None:
            return Decoded(text, encoding)
    return None


def _wide_without_mark(data: bytes) -> str | None:
    """Name UTF-16 without a mark by its control bytes, which no other text has: zero in every second byte of Western
    text, and low numbers in the half that tells the script of others."""
    if len(data) < 4 or len(data) % 2 or not _controls(data[:_HEAD]):
        return None
    half = len(data) // 2
    even, odd = data[::2], data[1::2]
    if odd.count(0) > 0.4 * half and not _controls(even) * 50 > half:
        return "utf-16-le"
    if even.count(0) > 0.4 * half and not _controls(odd) * 50 > half:
        return "utf-16-be"
    if _controls(data[:_HEAD]) * 100 < len(data[:_HEAD]):
        return None
    # The byte that tells the script changes less than the one that tells the letter.
    orders = sorted((len(set(high[:_HEAD])), name) for high, name in ((odd, "utf-16-le"), (even, "utf-16-be")))
    return next((name for _, name in orders if _is_in_one_script(data[:_HEAD].decode(name, "replace"))), None)


def _is_in_one_script(text: str) -> bool:
    return any(len(script.findall(text)) >= _ONE_SCRIPT * len(text) for script in _OF_SCRIPT)


def _controls(data: bytes) -> int:
    return len(data) - len(data.translate(None, _BINARY_BYTES))


def _refuse_binary(data: bytes) -> None:
    controls = _controls(data)
    if controls > 4 and controls * 50 > len(data):
        raise ParseError(f"binary content, not text: {counted(controls, 'control byte')} in {len(data)}")
