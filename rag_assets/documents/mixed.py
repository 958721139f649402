"""Files that were put together from texts in UTF-8 and in another encoding: a log, an export, pages in a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from rag_assets.documents.guessing import Decoded, decoded, in_one_encoding, strangeness

# A character of several bytes in UTF-8.
_SEQUENCE = re.compile(
    rb"([\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})"
)
_BEGUN = re.compile(rb"[\xe0-\xef][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{1,2}")  # and one that lacks its end
_HIGH = re.compile(rb"[\x80-\xff]+")
_HIGH_BYTE, _ASCII_LETTER = re.compile(rb"[\x80-\xff]"), re.compile(rb"[A-Za-z]")
_MARK = "\ufffd"
_JUDGED = 64 * 1024  # characters of a text
_QUOTES = frozenset("“”‘’–—…€")
_FEW_BAD = 10  # characters in UTF-8 for each byte that is not: the file is UTF-8, with damage or a few foreign words
# By chance other encodings make a character of UTF-8 here and there, and hardly ever lines of several. Where such lines
# are fewer, the text as a whole has to be worse; that is told of Latin letters alone, where none stand side by side.
_OWN_CHARACTERS = 3
_OWN_LINES = 0.1  # of those that are not all ASCII


def mixed(data: bytes, named: Sequence[str], whole: Decoded | None) -> Decoded | None:
    """Return the text of bytes that are UTF-8 in part, or None where that part is nothing but chance.

    The rest is in the first encoding of `named` in which it is valid, or in a guessed one. In a file that is UTF-8 but
    for a few bytes, those that make no word in a guessed one become U+FFFD. `whole` is the text as one encoding makes
    it.
    """
    characters = len(_SEQUENCE.findall(data))
    if not characters:
        return None
    runs = [(is_utf_8, list(lines)) for is_utf_8, lines in groupby(data.splitlines(keepends=True), _is_utf_8)]
    foreign = b"".join(line for is_utf_8, lines in runs if not is_utf_8 for line in lines)
    rest = _SEQUENCE.sub(b"", foreign)
    if characters > _FEW_BAD * sum(map(len, _HIGH.findall(rest))):
        told = next((codec for codec in named if decoded(foreign, codec) is not None), None)
        if told:
            return Decoded(_joined(runs, partial(_line, codec=told)), f"utf-8 and {told}")
        return _repaired(data, runs, in_one_encoding(rest, named))
    beyond_ascii = [(is_utf_8, line) for is_utf_8, lines in runs for line in lines if not line.isascii()]
    own = sum(is_utf_8 and len(_SEQUENCE.findall(line)) >= _OWN_CHARACTERS for is_utf_8, line in beyond_ascii)
    is_mixed = own >= _OWN_LINES * len(beyond_ascii) > 0
    worst = (strangeness(whole.text[:_JUDGED]) if whole else 1) if _is_western(data) else 0
    if not is_mixed and not worst:
        return None
    # What looks like UTF-8 in a line of a script of its own is chance, without which its characters are cut in two.
    other = in_one_encoding(rest if _is_western(foreign) else foreign, named)
    if other is None:
        return None
    text = _joined(runs, partial(_line, codec=other.encoding))
    if not is_mixed and strangeness(text[:_JUDGED]) >= worst:
        return None
    return Decoded(text, f"utf-8 and {other.encoding}", other.guessed_from)


def _joined(runs: Sequence[tuple[bool, Sequence[bytes]]], foreign: Callable[[bytes], str]) -> str:
    """The text of lines in UTF-8, many at once, and of each of the others as `foreign` makes it."""
    return "".join(b"".join(lines).decode() if is_utf_8 else "".join(map(foreign, lines)) for is_utf_8, lines in runs)


def _repaired(data: bytes, runs: Sequence[tuple[bool, Sequence[bytes]]], other: Decoded | None) -> Decoded:
    marked = data.decode("utf-8", "replace")
    if other is None:
        return Decoded(marked, "utf-8")
    text = _joined(runs, partial(_repaired_line, codec=other.encoding))
    if text.count(_MARK) == marked.count(_MARK):
        return Decoded(marked, "utf-8")
    return Decoded(text, f"utf-8 and {other.encoding}", other.guessed_from)


def _is_western(data: bytes) -> bool:
    return len(_HIGH_BYTE.findall(data, 0, _JUDGED)) < len(_ASCII_LETTER.findall(data, 0, _JUDGED))


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line(line: bytes, codec: str) -> str:
    """A line that is not UTF-8 as a whole: in the other encoding, or in both, run by run."""
    by_runs = _by_runs(line, codec)
    whole = decoded(line, codec)
    if whole is None or (_is_western(line) and strangeness(by_runs) < strangeness(whole)):
        return by_runs
    return whole


def _by_runs(line: bytes, codec: str) -> str:
    parts = _SEQUENCE.split(line)
    return "".join(part.decode() if number % 2 else part.decode(codec, "replace") for number, part in enumerate(parts))


def _repaired_line(line: bytes, codec: str) -> str:
    """A line of a file in UTF-8: what is not is in the other encoding if that makes words, and else U+FFFD."""
    marked = line.decode("utf-8", "replace")
    if _MARK not in marked:
        return marked
    foreign = _HIGH.findall(_SEQUENCE.sub(b" ", line))
    is_cut = any(_BEGUN.fullmatch(run) for run in foreign)
    text, characters = _by_runs(line, codec), "".join(run.decode(codec, "replace") for run in foreign)
    is_likely = all(one in _QUOTES or (one.islower() and _is_western(line)) for one in characters)
    return text if is_likely and not is_cut and not strangeness(text) else marked
