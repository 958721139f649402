"""Bytes to text, and text to the one form that everything downstream relies on."""

from __future__ import annotations

import codecs
import contextlib
import datetime
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from charset_normalizer import from_bytes

from rag_assets.errors import ParseError
from rag_assets.printing import counted

_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NEWLINES = re.compile("\r\n?|[\x0b\x0c]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f]")

# FF FE 00 00 is UTF-32LE, and its first two bytes are also the UTF-16LE mark: longest first.
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Bytes in these encodings can also be valid UTF-8, so a declaration of one of them is tried first.
_SEVEN_BIT = ("utf_16", "utf_32", "iso2022", "hz", "utf_7")
# Browsers read these labels as Windows-1252, and so do the people who write them.
_WEB_ALIASES = {"iso8859-1": "cp1252", "ascii": "cp1252"}
_BINARY_BYTES = bytes(b for b in range(0x20) if b not in b"\b\t\n\v\f\r\x1b")
_SAMPLE = 64 * 1024  # bytes given to the detector: its run time grows with the input


def normalize(text: str) -> str:
    """Return `text` as NFC, with `\\n` newlines, and without NUL, control characters or surrogates.

    Surrogate pairs become the character they encode; a lone surrogate becomes U+FFFD. Form feeds and
    vertical tabs become newlines. Idempotent.
    """
    if _UNWANTED.search(text):
        if _SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = _CONTROLS.sub("", _NEWLINES.sub("\n", text))
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def clean_json(value: Any) -> Any:
    """Return `value` as plain JSON that Postgres accepts in a jsonb column.

    Strings and keys are normalised, NaN and infinities become None, dates become ISO strings,
    mappings and sequences become dicts and lists, and anything else becomes its `str`.
    """
    if isinstance(value, str):
        return normalize(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {normalize(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((clean_json(item) for item in value), key=repr)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return normalize(str(value))


def decode(data: bytes, declared: str | None = None) -> str:
    """Return the text of `data`; `declared` is the charset that a header or the document names.

    Order: byte order mark, UTF-8, the declared charset, detection. A few bad bytes in what is plainly
    UTF-8 become U+FFFD.

    Raises:
        ParseError: the bytes are binary, or in no encoding that can be told with confidence.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], encoding, "its byte order mark says")
    codec = _codec(declared)
    if codec and codec.startswith(_SEVEN_BIT):
        return _strict(data, codec, "it is declared as")
    wide = _wide_without_mark(data)
    if wide:
        return _strict(data, wide, "its zero bytes say")
    _refuse_binary(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_legacy(data, codec)


def in_ascii_form(data: bytes) -> bytes:
    """Return what is written in ASCII, such as the headers of a mail, as the bytes that its parser expects.

    A byte order mark goes, and UTF-16 and UTF-32 become UTF-8; anything else stays as it is.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), None) or _wide_without_mark(data)
    if encoding is None:
        return data
    if encoding == "utf-8":
        return data.removeprefix(codecs.BOM_UTF8)
    return data.decode(encoding, "replace").removeprefix("\ufeff").encode("utf-8", "replace")


def _strict(data: bytes, encoding: str, why: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ParseError(f"not valid {encoding}, which {why}: {error.reason} at byte {error.start}") from error


def _codec(declared: str | None) -> str | None:
    if not declared:
        return None
    try:
        name = codecs.lookup(declared.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return None
    return _WEB_ALIASES.get(name, name).replace("-", "_")


def _wide_without_mark(data: bytes) -> str | None:
    """Name UTF-16 without a mark by its zero bytes: about every second one in Western text."""
    if len(data) < 4 or len(data) % 2 or 0 not in data[:256]:
        return None
    half = len(data) // 2
    even, odd = data[::2], data[1::2]
    if odd.count(0) > 0.4 * half and not _controls(even) * 50 > half:
        return "utf-16-le"
    if even.count(0) > 0.4 * half and not _controls(odd) * 50 > half:
        return "utf-16-be"
    return None


def _controls(data: bytes) -> int:
    return len(data) - len(data.translate(None, _BINARY_BYTES))


def _refuse_binary(data: bytes) -> None:
    controls = _controls(data)
    if controls > 4 and controls * 50 > len(data):
        raise ParseError(f"binary content, not text: {counted(controls, 'control byte')} in {len(data)}")


def _decode_legacy(data: bytes, codec: str | None) -> str:
    damaged = data.decode("utf-8", "replace")
    bad = damaged.count("\ufffd")
    if sum(1 for byte in data[:_SAMPLE] if byte >= 0xC2) > 10 * bad:
        return damaged
    if codec:
        # A wrong declaration is common, and detection may still succeed.
        with contextlib.suppress(UnicodeDecodeError, LookupError, ParseError):
            return _without_c1(data.decode(codec))
    return _detect(data)


def _detect(data: bytes) -> str:
    first = next((i for i, byte in enumerate(data) if byte >= 0x80), 0)
    start = max(0, first - 1024)
    sample = data[start : start + _SAMPLE]
    wide = ["utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "utf_7"]
    guess = from_bytes(sample, cp_exclusion=wide).best()
    if guess is None:
        raise ParseError("not UTF-8, and no other encoding fits: binary content, or a damaged file")
    likely = "cp1252" in guess.could_be_from_charset or _is_mostly_ascii(sample)
    for name in ["cp1252"] * likely + [guess.encoding]:
        try:
            return _without_c1(data.decode(name))
        except UnicodeDecodeError:
            continue
    raise ParseError(f"looks like {guess.encoding} at first, but is not valid in it: a damaged or mixed file")


def _is_mostly_ascii(data: bytes) -> bool:
    """Tell a Western text with a few accents: every code page fits it, and Windows-1252 is the likeliest."""
    runs = re.findall(rb"[\x80-\xff]+", data)
    return len(runs) < 8 and all(len(run) <= 2 for run in runs)


def _without_c1(text: str) -> str:
    """Refuse text with C1 controls: the sign that a single-byte code page was guessed wrongly."""
    if re.search("[\x80-\x84\x86-\x9f]", text):
        raise ParseError("not UTF-8, and no other encoding fits: binary content, or a damaged file")
    return text
