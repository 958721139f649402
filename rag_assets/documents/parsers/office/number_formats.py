"""Numbers in a spreadsheet as its program shows them under their number formats, with English names and signs."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from rag_assets.documents.parsers.office.cells import iso_date, plain
from rag_assets.documents.parsers.office.date_formats import shown_date
from rag_assets.documents.parsers.office.number_codes import Section, Token, sections

# Built-in formats whose code is nowhere in the file (ECMA-376, part 1, 18.8.30).
_ACCOUNTING = '_({0}* #,##0{1}_);_({0}* (#,##0{1});_({0}* "-"{2}_);_(@_)'
_BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    5: "$#,##0_);($#,##0)",
    6: "$#,##0_);($#,##0)",
    7: "$#,##0.00_);($#,##0.00)",
    8: "$#,##0.00_);($#,##0.00)",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    12: "# ?/?",
    13: "# ??/??",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    37: "#,##0_);(#,##0)",
    38: "#,##0_);(#,##0)",
    39: "#,##0.00_);(#,##0.00)",
    40: "#,##0.00_);(#,##0.00)",
    41: _ACCOUNTING.format("", "", ""),
    42: _ACCOUNTING.format("$", "", ""),
    43: _ACCOUNTING.format("", ".00", "??"),
    44: _ACCOUNTING.format("$", ".00", "??"),
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
    48: "##0.0E+0",
    49: "@",
}
# Dates that each reader sees in the order of the own country: ISO 8601 is the one that means the same everywhere.
_LOCAL_DATES = frozenset({14, 22, *range(27, 37), *range(50, 59)})
_SIMPLE = re.compile(r"[#,]*(0+)(?:\.(0+))?")
_CONTEXT = Context(prec=400, Emax=10**6, Emin=-(10**6))
_MAX_DENOMINATOR = 10**7
_Show = Callable[[float], str]  # of a number that is not negative


class NumberFormat:
    """How the cells of one style show their numbers and texts."""

    def __init__(self, code: str, *, local_date: bool = False) -> None:
        self.sections = sections(code)
        self.hides = not any(section.tokens for section in self.sections)
        self.local_date = local_date
        # Taken apart once, for millions of cells.
        self._shows = {id(section): _SHOWS[section.kind](section.tokens) for section in self.sections}

    def shown(self, value: float, *, since_1904: bool = False) -> str:
        """Return a number as its reader sees it; one that the format hides altogether is shown plainly.

        Raises:
            ValueError: it is infinite or not a number.
        """
        if not math.isfinite(value):
            raise ValueError(f"{value} is not finite")
        if self.local_date:
            return iso_date(value, since_1904=since_1904)
        section, signed = self._chosen(value)
        if section.kind == "date":
            return shown_date(value, section.tokens, since_1904=since_1904)
        if self.hides:
            return plain(value)
        text = self._shows[id(section)](abs(value))
        return (f"-{text.lstrip()}" if signed and value < 0 and section.kind != "literal" else text).strip()

    def shown_text(self, text: str) -> str:
        """Return a text as its reader sees it; one that the format hides is shown plainly."""
        section = next((part for part in self.sections if part.kind == "text"), None)
        if section is None or len(section.tokens) == 1:
            return text
        return "".join(text if token.kind == "text" else token.text for token in section.tokens).strip()

    def _chosen(self, value: float) -> tuple[Section, bool]:
        """Return the section for a number, and whether a minus sign has to be added to it."""
        parts = self.sections[:3]
        if len(parts) > 1 and parts[-1].kind == "text" and len(self.sections) < 4:
            parts = parts[:-1]  # a last section with @ is the one of texts
        first, *others = parts
        if not others:
            return first, True
        if first.condition is None:
            if value > 0 or (value == 0 and len(parts) == 2 and others[0].condition is None):
                return first, False
        elif first.condition.holds(value):
            return first, not first.condition.is_negative()
        second = others[0]
        if second.condition is not None:
            if second.condition.holds(value):
                return second, not second.condition.is_negative()
        elif value < 0 or len(parts) == 2:
            return second, first.condition is not None and not first.condition.leaves_negative()
        return (parts[2] if len(parts) == 3 else first), True


@functools.lru_cache(maxsize=1024)
def number_format(number: int, code: str = "") -> NumberFormat:
    """Return the format with an id, and with a code if the file states one."""
    if not code or number in _LOCAL_DATES:
        return NumberFormat(_BUILT_IN.get(number, "General"), local_date=number in _LOCAL_DATES)
    return NumberFormat(code)


def _general(tokens: Sequence[Token]) -> _Show:
    def show(value: float) -> str:
        return "".join(plain(value) if token.kind in ("general", "text") else token.text for token in tokens)

    return show


def _literal(tokens: Sequence[Token]) -> _Show:
    text = "".join(token.text for token in tokens)
    return lambda value: text


def _number(tokens: Sequence[Token]) -> _Show:
    slash = _fraction_slash(tokens)
    if slash:
        return lambda value: _fraction(exact(value), tokens, slash)
    digits = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    scale = 2 * sum(token.kind == "percent" for token in tokens)
    exponent = next((at for at, token in enumerate(tokens) if token.kind == "exponent" and at > digits[0]), len(tokens))
    mantissa, power = list(tokens[:exponent]), tokens[exponent:]
    last = max(at for at in digits if at < exponent)
    while last + 1 < len(mantissa) and mantissa[last + 1].kind == "comma":
        del mantissa[last + 1]
        scale -= 3
    if power:
        return lambda value: _scientific(exact(value).scaleb(scale, _CONTEXT), mantissa, power)
    fill = _simple(mantissa) or functools.partial(_decimal, tokens=mantissa)
    return lambda value: fill(exact(value).scaleb(scale, _CONTEXT) if scale else exact(value))


def _simple(tokens: Sequence[Token]) -> Callable[[Decimal], str] | None:
    """Return a short way for what nearly all codes are, such as `#,##0.00`, with text around it."""
    digits = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    inner = "".join(token.text for token in tokens[digits[0] : digits[-1] + 1])
    match = _SIMPLE.fullmatch(inner)
    is_odd = any(token.kind == "point" for token in tokens[: digits[0]])
    if match is None or is_odd or ("," in inner and len(match.group(1)) > 1):
        return None
    before = "".join(token.text for token in tokens[: digits[0]])
    after = "".join(token.text for token in tokens[digits[-1] + 1 :])
    decimals, zeros = len(match.group(2) or ""), len(match.group(1))
    step, group = Decimal(1).scaleb(-decimals), "," if "," in inner else ""
    width = zeros + decimals + (1 if decimals else 0)

    def show(value: Decimal) -> str:
        return f"{before}{value.quantize(step, ROUND_HALF_UP, _CONTEXT):{group}f}{after}"

    def padded(value: Decimal) -> str:
        return before + f"{value.quantize(step, ROUND_HALF_UP, _CONTEXT):f}".zfill(width) + after

    return padded if zeros > 1 else show


def exact(value: float) -> Decimal:
    """Return a number as it was written: whole ones in all digits, others in 15, the precision of spreadsheets."""
    return Decimal(int(value)) if value == int(value) and value < 2**53 else Decimal(f"{value:.15g}")


def _decimal(value: Decimal, tokens: Sequence[Token]) -> str:
    """Fill the placeholders before and after the point; literals stay where they are among them."""
    point = next((at for at, token in enumerate(tokens) if token.kind == "point"), len(tokens))
    decimals = sum(token.kind == "digit" for token in tokens[point:])
    rounded = value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, _CONTEXT)
    whole, _, part = f"{rounded:f}".partition(".")
    return _whole(whole.lstrip("0"), tokens[:point]) + _part(part, tokens[point:])


def _whole(digits: str, tokens: Sequence[Token]) -> str:
    places = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    if not places:
        return "".join(token.text for token in tokens) + digits
    grouped = any(token.kind == "comma" and places[0] < at < places[-1] for at, token in enumerate(tokens))
    shown: list[str] = []
    left = len(places)
    for at, token in enumerate(tokens):
        if token.kind == "digit":
            # The first placeholder takes all digits for which there is none.
            count = left if at != places[0] else max(left, len(digits))
            for place in range(count, left - 1, -1):
                digit = digits[-place] if place <= len(digits) else {"0": "0", "?": " "}.get(token.text, "")
                shown.append(digit + ("," if grouped and digit.isdigit() and place % 3 == 1 and place > 1 else ""))
            left -= 1
        elif not (token.kind == "comma" and grouped):
            shown.append(token.text)
    return "".join(shown)


def _part(digits: str, tokens: Sequence[Token]) -> str:
    kept = len(digits.rstrip("0"))
    asked = [token.text for token in tokens if token.kind == "digit"]
    kept = max([kept, *(at + 1 for at, text in enumerate(asked) if text == "0")])
    shown, place = "", 0
    for token in tokens:
        if token.kind == "digit":
            shown += digits[place] if place < kept else " " if token.text == "?" else ""
            place += 1
        else:
            shown += token.text
    return shown


def _scientific(value: Decimal, tokens: Sequence[Token], power: Sequence[Token]) -> str:
    mantissa, exponent = _normalised(value, tokens)
    sign = "-" if exponent < 0 else "+" if power[0].text.endswith("+") else ""
    return _decimal(mantissa, tokens) + power[0].text[0] + sign + _whole(str(abs(exponent)).lstrip("0"), power[1:])


def _normalised(value: Decimal, tokens: Sequence[Token]) -> tuple[Decimal, int]:
    """Return mantissa and power of ten; the power is a multiple of the number of placeholders before the point."""
    point = next((at for at, token in enumerate(tokens) if token.kind == "point"), len(tokens))
    step = max(sum(token.kind == "digit" for token in tokens[:point]), 1)
    decimals = sum(token.kind == "digit" for token in tokens[point:])
    if not value:
        return value, 0
    power = value.adjusted() // step * step
    mantissa = value.scaleb(-power, _CONTEXT).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, _CONTEXT)
    if mantissa >= 10**step:
        power += step
        mantissa = value.scaleb(-power, _CONTEXT)
    return mantissa, power


def _fraction_slash(tokens: Sequence[Token]) -> int:
    """Return where the slash of a fraction is, between placeholders, or 0."""
    for at, token in enumerate(tokens[:-1]):
        is_denominator = tokens[at + 1].kind == "digit" or tokens[at + 1].text.isdecimal()
        if token.kind == "slash" and at and tokens[at - 1].kind == "digit" and is_denominator:
            return at
    return 0


def _fraction(value: Decimal, tokens: Sequence[Token], slash: int) -> str:
    start, end = slash - 1, slash + 1
    while start and tokens[start - 1].kind == "digit":
        start -= 1
    while end < len(tokens) and (tokens[end].kind == "digit" or tokens[end].text.isdecimal()):
        end += 1
    wholes = [at for at, token in enumerate(tokens[:start]) if token.kind == "digit"]
    asked = "".join(token.text for token in tokens[slash + 1 : end])
    limit = min(10 ** len(asked) - 1, _MAX_DENOMINATOR)
    exact = Fraction(value)
    whole, rest = divmod(exact, 1) if wholes else (0, exact)
    if asked.isdecimal() and int(asked):
        above, below = math.floor(rest * int(asked) + Fraction(1, 2)), int(asked)
    else:
        above, below = rest.limit_denominator(limit).as_integer_ratio()
    if wholes and above == below:
        whole, above = whole + 1, 0
    written = f"{above}/{below}" if above or not wholes else "" if whole else "0"
    lead = _whole(str(whole).lstrip("0"), tokens[: wholes[-1] + 1]) if wholes else ""
    between = "".join(token.text for token in tokens[wholes[-1] + 1 if wholes else 0 : start])
    return f"{lead}{between}{written}" + "".join(token.text for token in tokens[end:])


# Dates are shown by themselves: they need to know the first day of the book.
_SHOWS = {"general": _general, "text": _general, "literal": _literal, "date": _literal, "number": _number}
