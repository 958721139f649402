"""Personal data taken out of a text before it leaves the process: by forms that are known, in time that grows with the
text and not faster.

It finds what has a form: addresses of e-mail, numbers of phones, accounts and cards, and long numbers. It knows no
names, and nothing that is written out in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

_CARD = range(13, 20)  # digits
_IBAN = range(15, 35)  # letters and digits
_IBAN_DIGITS = 8  # at least

# As they are typed, and as they come out of a page or a letter that was set.
_SPACE = r" \t\u00a0\u2000-\u200b\u202f\u2060"
_DASH = r"\u2010-\u2015\u2212-"
_GAP = rf"[{_SPACE}.{_DASH}]"  # within the number of an account

# Each starts only where a run of its characters starts, and takes the run without going back.
_EMAIL = re.compile(r"(?<![\w.%+'-])[\w.%+'-]++[@＠﹫][\w.-]++")
_PRINTED_IBAN = re.compile(
    rf"(?<![A-Za-z0-9])[A-Z]{{2}}\d{{2}}(?:[{_SPACE}]?[A-Z0-9]{{4}}){{2,7}}(?:[{_SPACE}]?[A-Z0-9]{{1,3}})?(?![A-Za-z0-9])"
)
_LIKE_IBAN = re.compile(rf"(?<![A-Za-z0-9])(?=([A-Za-z]{{2}}\d{{2}}(?:{_GAP}?[A-Za-z0-9]){{11,30}}))")
_DIGITS = re.compile(rf"\d++(?:[{_SPACE}./()_{_DASH}]{{1,2}}\d++)*+")
_GAPS = re.compile(_GAP)
_NUMBER = re.compile(r"\d{9,}+")  # an account, a customer or an identity rather than a year or a part number
_DATE = rf"(?!\d{{1,2}}[./{_DASH}]\d{{1,2}}[./{_DASH}]\d{{2,4}}(?!\d))"
_PHONE = re.compile(rf"(?<![\w+]){_DATE}(?:\+|\(?0)(?:[{_SPACE}()./{_DASH}]{{0,2}}\d){{6,14}}(?!\d)")
_GROUPED = re.compile(
    rf"(?<!\d)(?:\(?\d{{3}}\)?{_GAP}{{1,2}}\d{{3}}{_GAP}\d{{4}}|\d{{3}}[{_DASH}]\d{{2}}[{_DASH}]\d{{4}})(?!\d)"
)


def masked(text: str, forms: Sequence[str] = ()) -> str:
    """The text with what has such a form replaced by the name of the form in brackets.

    `forms`: further ones, in which `#` is any digit, `?` any letter, and every other character is itself.
    """
    for pattern in map(_pattern_of, forms):
        text = pattern.sub("[masked]", text)
    text = _EMAIL.sub("[email]", text)
    text = _PRINTED_IBAN.sub("[iban]", text)
    text = _without_ibans(text)
    text = _DIGITS.sub(_without_cards, text)
    text = _PHONE.sub("[phone]", text)
    text = _GROUPED.sub("[phone]", text)
    return _NUMBER.sub("[number]", text)


def masked_values(value: Any, forms: Sequence[str] = ()) -> Any:
    """A value of JSON with every text in it masked, the keys of objects too."""
    if isinstance(value, str):
        return masked(value, forms)
    if isinstance(value, dict):
        return {masked(str(name), forms): masked_values(one, forms) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_values(one, forms) for one in value]
    return value


@lru_cache(maxsize=100)
def _pattern_of(form: str) -> re.Pattern[str]:
    # Of fixed length: there is nothing to go back to.
    return re.compile("".join({"#": r"\d", "?": r"[^\W\d_]"}.get(sign, re.escape(sign)) for sign in form))


def _without_ibans(text: str) -> str:
    """Words may stand behind a number of an account, so each end is tried, the furthest first."""
    pieces, place = [], 0
    for match in _LIKE_IBAN.finditer(text):
        if match.start() >= place and (length := _iban_length(match[1])):
            pieces += [text[place : match.start()], "[iban]"]
            place = match.start() + length
    return "".join([*pieces, text[place:]])


def _iban_length(text: str) -> int:
    """How much of the text's beginning is a number of an account; 0: nothing of it."""
    ends = [place + 1 for place, sign in enumerate(text) if not _GAPS.fullmatch(sign)]
    fitting = (ends[count - 1] for count in reversed(_IBAN) if count <= len(ends))
    return next((end for end in fitting if _is_iban(_GAPS.sub("", text[:end]))), 0)


def _is_iban(text: str) -> bool:
    if sum(sign.isdigit() for sign in text) < _IBAN_DIGITS:
        return False  # words, one in a hundred of which would pass
    turned = text[4:] + text[:4]
    return int("".join(str(int(sign, 36)) for sign in turned)) % 97 == 1


def _without_cards(match: re.Match[str]) -> str:
    """A run of groups of digits without the cards in it, which begin and end with groups."""
    text = match[0]
    groups = [one.span() for one in re.finditer(r"\d++", text)]
    pieces, place, first = [], 0, 0
    while first < len(groups):
        last = _card_end(text, groups, first)
        if last is not None:
            pieces += [text[place : groups[first][0]], "[card]"]
            place = groups[last][1]
        first = 1 + (first if last is None else last)
    return "".join([*pieces, text[place:]])


def _card_end(text: str, groups: Sequence[tuple[int, int]], first: int) -> int | None:
    """The group with which a card's number ends that begins with group `first`."""
    digits, found = "", None
    for last in range(first, len(groups)):
        digits += text[slice(*groups[last])]
        if len(digits) >= _CARD.stop:
            break
        if len(digits) in _CARD and _passes_luhn(digits):
            found = last
    return found


def _passes_luhn(digits: str) -> bool:
    total = 0
    for place, sign in enumerate(reversed(digits)):
        doubled = int(sign) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0
