"""Names with signs: `C++`, `C#`, `.NET`, `A/B`, `R&D`, `-40`, `§12`.

A sign that stands directly at a word, or between two, makes a name of them, which is a term beside its parts. Postgres
would drop the sign, so it is spelled out, between two of a letter that NFKC leaves in no text: no word is written like
a name. With a number in it the term is none that a dictionary stems.
"""

from __future__ import annotations

import re

_SPELLED = "\u00aa"
MAX_NAME_CHARS = 32
_MAX_PARTS = 4  # more are a path or an address

# A hyphen or a slash before a word of letters is punctuation more often than not.
BEFORE = r"(?:--|-(?=\d)|\.(?=[^\W\d])|[+#@§¶°$€£¥])"
BETWEEN = "(?:[-_./:'&@]|[+#]{1,2}[-_./:]?)"
AFTER = r"(?:\+{1,2}|[#%‰$€£¥])"

_MAKES_A_NAME = re.compile("[&@+#/]")
_MAY_BE_NAMED = re.compile("[&@+#/.]")
_SIGNS = re.compile("([-./:'&@+#]+)")
_OF_A_WORD = re.compile("[+#]+")  # belongs to the word before it
_SPLITS_WORDS = re.compile("[&@+#]+")
_NO_LETTER = re.compile(r"[\W_]")
_TO_ITS_NUMBER = re.compile(r"([§¶])\s+(?=\d)")
_FROM_ITS_NUMBER = re.compile(r"(?<=\d)(?=°)")
_AFTER_A_BLANK = "%‰€£¥"  # as French and German print them
_AFTER_ITS_NUMBER = re.compile(rf"[ \u00a0\u202f](?=[{_AFTER_A_BLANK}](?!\w))(?<=\d.)")
_JOINS_PARTS = re.compile("[-/:'&@+#]+")
_JOINS_NAMES = re.compile("[-']")


def set_signs(text: str) -> str:
    """Return `text` with signs where they belong: a section sign at its number, a degree at its unit."""
    if "§" in text or "¶" in text:
        text = _TO_ITS_NUMBER.sub(r"\1", text)
    if any(sign in text for sign in _AFTER_A_BLANK):
        text = _AFTER_ITS_NUMBER.sub("", text)
    return _FROM_ITS_NUMBER.sub(" ", text) if "°" in text else text


def words_between(body: str) -> list[str]:
    """The words and codes at the sides of signs that join no code."""
    return _SPLITS_WORDS.split(body)


def names_of(before: str, body: str, after: str) -> list[str]:
    """The names in `before`, `body` and `after`, spelled out: the first word with the signs before it, each word with
    the signs that belong to it, and the whole, also of what stands between hyphens; words with dots between them as one
    word."""
    if not before and not after and not _MAY_BE_NAMED.search(body):
        return []
    parts = _SIGNS.split(body)  # words at even places, signs between them at odd ones
    words, between = parts[::2], parts[1::2]
    if len(words) > _MAX_PARTS:
        return []
    names = [before + words[0]] if before else []
    for word, signs in zip(words, [*between, after], strict=True):
        if own := _OF_A_WORD.match(signs):
            names.append(word + own[0])
    if after:
        names.append(words[-1] + after)
    if _MAKES_A_NAME.search(body):
        names.append(before + body + after)
    found = [_spelled(name) for name in names if len(name) <= MAX_NAME_CHARS]
    found += [part.replace(".", "")[:MAX_NAME_CHARS] for part in _JOINS_PARTS.split(body) if "." in part.strip(".")]
    sections = _JOINS_NAMES.split(body)  # R&D-Abteilung, AT&T's
    if len(sections) > 1:
        ends = zip([before, *[""] * (len(sections) - 1)], sections, [*[""] * (len(sections) - 1), after], strict=True)
        found += [name for first, section, last in ends for name in names_of(first, section, last)]
    return list(dict.fromkeys(found))


def _spelled(name: str) -> str:
    return _NO_LETTER.sub(lambda sign: f"{_SPELLED}{ord(sign[0])}{_SPELLED}", name)
