"""The format codes of spreadsheets (ECMA-376, part 1, 18.8.31), taken apart: sections, conditions, placeholders."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

_MAX_CODE = 1024  # characters; programs keep 255
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?'
    r"|\\(?P<escaped>.)"
    r"|[_*](?P<space>.)"
    r"|\[(?P<bracket>[^\]]*)\]"
    r"|(?P<general>general|standard)"
    r"|(?P<half>am/pm|a/p|上午/下午)"
    r"|(?P<exponent>e[+-])"
    r"|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?|e+|g+|b+|aaaa?)"
    r"|(?P<digit>[0#?])"
    r"|(?P<end>;)"
    r"|(?P<text>@)"
    r"|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
_CONDITION = re.compile(r"(<=|>=|<>|=|<|>)\s*(-?[0-9]{1,30}(?:\.[0-9]{0,30})?)")
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
_SIGNS = {".": "point", ",": "comma", "%": "percent", "/": "slash"}


@dataclass(frozen=True)
class Token:
    """A piece of a code.

    Its kind is `literal`, `digit` (a placeholder), `point`, `comma`, `percent`, `exponent`, `slash`, `text`, `general`,
    `date` (in lower case), `minute`, `half` (a.m. or p.m.) or `elapsed`.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Condition:
    """Which numbers a section is for."""

    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Tell whether a number is one of them."""
        return _COMPARED[self.sign](value, self.limit)

    def is_negative(self) -> bool:
        """Tell whether all of them are negative: their section then writes the sign itself."""
        return (self.sign in ("<", "<=") and self.limit <= 0) or (self.sign == "=" and self.limit < 0)

    def leaves_negative(self) -> bool:
        """Tell whether the numbers that are none of them are negative."""
        return self.sign in (">", ">=") and self.limit == 0


@dataclass(frozen=True)
class Section:
    """What a code says of some numbers; its kind is `date`, `general`, `text`, `number` or `literal`."""

    tokens: tuple[Token, ...]
    condition: Condition | None
    kind: str


def sections(code: str) -> list[Section]:
    """Return the sections of a code, one to four; a code longer than programs write is read as `General`."""
    parts: list[tuple[list[Token], list[Condition]]] = [([], [])]
    for match in _TOKEN.finditer(code if len(code) <= _MAX_CODE else "General"):
        kind = match.lastgroup or ""
        text = match.group(kind)
        condition = _CONDITION.fullmatch(text.strip()) if kind == "bracket" else None
        if kind == "end":
            parts.append(([], []))
        elif condition:
            parts[-1][1].append(Condition(condition.group(1), float(condition.group(2))))
        else:
            parts[-1][0].extend(_tokens(kind, text))
    return [_section(tokens, conditions[0] if conditions else None) for tokens, conditions in parts[:4]]


def _tokens(kind: str, text: str) -> Iterator[Token]:
    if kind == "bracket":
        # Colours, languages and the digits of other scripts are left out.
        if _ELAPSED.fullmatch(text):
            yield Token("elapsed", text.lower())
        elif text.startswith("$"):
            yield Token("literal", text[1:].partition("-")[0])
    elif kind == "space":
        yield Token("literal", " ")
    elif kind in ("quoted", "escaped", "other"):
        yield Token(_SIGNS.get(text, "literal") if kind == "other" else "literal", text)
    else:
        yield Token(kind, text.lower() if kind == "date" else text)


def _section(tokens: list[Token], condition: Condition | None) -> Section:
    kinds = {token.kind for token in tokens}
    if kinds & {"elapsed", "half"} or ("date" in kinds and "general" not in kinds):
        return Section(tuple(_with_minutes(tokens)), condition, "date")
    named = next((kind for kind in ("general", "text") if kind in kinds), "number" if "digit" in kinds else "literal")
    return Section(tuple(tokens), condition, named)


def _with_minutes(tokens: Iterable[Token]) -> list[Token]:
    """Tell minutes, which stand after hours or before seconds, from months."""
    told = list(tokens)
    clock = [at for at, token in enumerate(told) if token.kind in ("date", "elapsed")]
    for number, at in enumerate(clock):
        before = told[clock[number - 1]].text if number else ""
        after = told[clock[number + 1]].text if number + 1 < len(clock) else ""
        if told[at].kind == "date" and told[at].text in ("m", "mm") and (before[:1] == "h" or after[:1] == "s"):
            told[at] = replace(told[at], kind="minute")
    return told
