"""The encoding of text that says nothing about it: what a detector holds for likely, judged by the languages it makes.

A detector knows pairs of letters in each language and encoding, and is right of whole pages. Of a few words it is not:
`não` is Portuguese in Windows-1252 and no language in Windows-1250, which letters and small words tell.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag_assets.documents.languages import LETTERS, SMALL_WORDS

_SAMPLE = 64 * 1024  # bytes given to the detector, whose run time grows with them
_BEFORE = 1024  # bytes in front of the first that is not ASCII: the words around it say the language
# UTF-16 and UTF-32 are told by their zero bytes. What nobody has written texts in for decades would take short ones
# away from what people have; those of mainframes are left out by their era.
_NEVER = (
    *("utf-7", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8"),
    *("johab", "hp-roman8", "koi8-t", "kz1048", "ptcp154", "tis-620"),
    *("iso8859-3", "iso8859-10", "iso8859-14", "iso8859-16"),
    *("cp720", "cp737", "cp775", "cp855", "cp856", "cp857", "cp860", "cp861", "cp862", "cp863", "cp864", "cp865"),
    *("cp858", "cp869", "cp1006", "cp1125", "mac-greek", "mac-iceland", "mac-turkish"),
)
# Of the first one's confidence: whoever is nearer to it than that may be the better one; where what they make is
# strange, some more are looked at. Chosen on one half of what `bench.encodings` has.
_NEAR, _LESS_NEAR = 0.8, 0.5
_STRANGE = 2  # small words that weigh as much as one strange letter
_MAX_REPLACED = 0.02  # of what is not ASCII: more that fits no encoding is not a damaged text but none
# ISO 8859-1 and its like, as the Windows code pages that have more characters at the places of controls.
_WIDER = {"iso8859-1": "cp1252", "iso8859-9": "cp1254"}

CONTROLS = re.compile("[\x80-\x84\x86-\x9f]")  # C1, but for NEL: no text has them
_WORD = re.compile(r"[^\W\d_]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_HIGH = re.compile(rb"[\x80-\xff]")
_LATIN = "A-Za-z\u00c0-\u024f"
_LATIN_LETTER, _OTHER_LETTER = re.compile(f"[{_LATIN}]"), re.compile("[\u0370-\u1dff\u2e80-\uffef]")
_TWO_SCRIPTS = re.compile(f"[{_LATIN}][\u0370-\u1dff]|[\u0370-\u1dff][{_LATIN}]|[a-z][\u2e80-\ufaff][a-z]")
_SMALL, _CAPITAL = (
    "a-z\u00df-\u00f6\u00f8-\u00ff\u03b1-\u03c9\u0430-\u045f",
    "\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0400-\u042f",
)
_CAPITAL_INSIDE = re.compile(f"[{_SMALL}][{_CAPITAL}]")
_SIGNS = frozenset("“”‘’‚„‹›«»–—…•·¿¡€£§©®™°²³½¼¾ªº×±µ\u00a0\u00ad")


# Texts in ASCII but for signs of measures and law are of a Western machine: no letters say more. What is a letter in
# another encoding stands beside letters.
_WESTERN = "cp1252"
_NO_MEASURE = re.compile(
    r"(?!(?<![A-Za-z])(?:[§±×÷£€¢¥©®¶](?![A-Za-z])|°(?![A-Za-z]{2})|µ(?=[A-Za-z]{1,2}\b)))[^\x00-\x7f]"
)
_OTHER_SCRIPTS = (("\u0370", "\u1fff"), ("\u3000", "\u303f"), ("\uff00", "\uffef"))  # with signs of their own
_LANGUAGES = [(SMALL_WORDS.get(name, frozenset()), frozenset(letters)) for name, letters in LETTERS.items()]


@dataclass(frozen=True)
class Decoded:
    """Text, the encoding that it was in, as Python calls it, and, where that is a guess, from how many characters that
    are not ASCII."""

    text: str
    encoding: str
    guessed_from: int | None = None


def in_one_encoding(data: bytes, named: Sequence[str]) -> Decoded | None:
    """Return the text of bytes that are not UTF-8: in the first encoding of `named` in which they are valid, since a
    wrong one is often declared, or in the likeliest one; None where no encoding makes text of them."""
    for encoding in named:
        if (text := decoded(data, encoding)) is not None:
            return Decoded(text, encoding)
    return _guess(data)


def _guess(data: bytes) -> Decoded | None:
    in_western = decoded(data, _WESTERN)
    if in_western and not _NO_MEASURE.search(in_western):
        return Decoded(in_western, _WESTERN, _beyond_ascii(in_western))
    first = _HIGH.search(data)
    start = max(0, first.start() - _BEFORE) if first else 0
    sample = data[start : start + _SAMPLE]
    from chardet import EncodingEra, detect_all  # 30 ms of every parser process, for what is not UTF-8

    eras = EncodingEra.ALL & ~EncodingEra.MAINFRAME
    ranking = detect_all(sample, ignore_threshold=True, compat_names=False, encoding_era=eras, exclude_encodings=_NEVER)
    found = [(one["encoding"], one["confidence"]) for one in ranking if one["encoding"]]
    names = [_WIDER.get(name, name) for name, _ in found]
    for encoding in (*_likeliest_first(sample, names, [confidence for _, confidence in found]), *names):
        text = decoded(data, encoding)
        if text is not None:
            return Decoded(text, encoding, _beyond_ascii(text))
    return _damaged(data, names)


def _likeliest_first(sample: bytes, names: Sequence[str], confidences: Sequence[float]) -> list[str]:
    """The encodings near the first one, with the likeliest text first; of those that are as likely, as they came."""
    texts = [sample.decode(name, "replace") for name in names]
    likely: dict[str, tuple[int, int]] = {}
    best: list[int] = []
    for share in (_NEAR, _LESS_NEAR):
        near = [place for place, confidence in enumerate(confidences) if confidence >= share * confidences[0]]
        for text in {texts[place] for place in near} - likely.keys():
            likely[text] = _in_best_language(text)
        best = sorted(near, key=lambda place: -_weighed(likely[texts[place]]))
        if not best or not likely[texts[best[0]]][1]:
            break
    return [names[place] for place in best]


def decoded(data: bytes, encoding: str) -> str | None:
    """Return the text, or None where the bytes are not in this encoding or make controls that no text has."""
    try:
        text = data.decode(encoding)
    except (UnicodeError, LookupError):
        return None
    return None if CONTROLS.search(text) else text


def _damaged(data: bytes, names: Iterable[str]) -> Decoded | None:
    """Return text in which the few bytes that make none are U+FFFD."""
    most = _MAX_REPLACED * len(_HIGH.findall(data))
    for name in names:
        text = CONTROLS.sub("\ufffd", data.decode(name, "replace"))
        if text.count("\ufffd") <= most:
            return Decoded(text, name, _beyond_ascii(text))
    return None


def _beyond_ascii(text: str) -> int:
    return sum(map(len, _NOT_ASCII.findall(text)))


def strangeness(text: str) -> int:
    """How many letters and signs of a text are in it as no language has them: the mark of a wrong encoding.

    In any script these are words of two scripts, capitals after small letters, and signs that nobody types; in text in
    Latin letters also those of no alphabet of the language that fits best, but for Chinese and the like among them.
    """
    return _in_best_language(text)[1]


def _in_best_language(text: str) -> tuple[int, int]:
    """The small words, and the strange letters and signs, of the language that leaves most words over."""
    strange = len(_TWO_SCRIPTS.findall(text)) + len(_CAPITAL_INSIDE.findall(text))
    beyond = Counter("".join(_NOT_ASCII.findall(text)).lower())
    strange += sum(count for character, count in beyond.items() if not _is_usual(character))
    if not is_latin(text):
        return 0, strange
    letters = {letter: count for letter, count in beyond.items() if letter.isalpha() and letter < "\u2e80"}
    words = Counter(_WORD.findall(text.lower()))
    fits = [
        (
            sum(map(words.__getitem__, small)),
            strange + sum(count for letter, count in letters.items() if letter not in alphabet),
        )
        for small, alphabet in _LANGUAGES
    ]
    return max(fits, key=_weighed)


def _weighed(fit: tuple[int, int]) -> int:
    words, strange = fit
    return words - _STRANGE * strange


def is_latin(text: str) -> bool:
    """Tell whether most letters of a text are Latin."""
    return len(_LATIN_LETTER.findall(text)) >= len(_OTHER_LETTER.findall(text))


def _is_usual(character: str) -> bool:
    """Tell a letter, a mark on one, a digit and what people type between them from the signs of other encodings."""
    kind = unicodedata.category(character)
    if kind[0] in "LM" or kind in ("Nd", "Cf") or character in _SIGNS:
        return True
    return kind[0] in "PS" and any(first <= character <= last for first, last in _OTHER_SCRIPTS)
