"""What Word's styles and numbering say about a paragraph: heading, list item, code; and its number."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children

_HEADING = re.compile(r"heading ?([1-9])$")
_CODE = re.compile(r"\b(code|source|verbatim|preformatted|macro text|plain text)\b")
_MONOSPACED = re.compile(r"courier|consolas|monospace|menlo|monaco|source code|fira code|lucida console| mono\b", re.I)
_MAX_DEPTH = 20  # styles based on styles
_PLACE = re.compile("%([1-9])")


@dataclass(frozen=True)
class Style:
    """What a style means: the heading level (1 outermost), and its list's id and level, where it has them."""

    name: str = ""
    heading: int | None = None
    number: str | None = None
    level: int = 0
    monospaced: bool = False

    @property
    def is_contents(self) -> bool:
        """Whether this is an entry of a table of contents: the same headings once more."""
        return self.name.startswith("toc ") and self.name != "toc heading"

    @property
    def is_code(self) -> bool:
        return bool(_CODE.search(self.name))


def is_monospaced(properties: Element | None) -> bool | None:
    """Tell whether run properties set a typewriter font; None where they set no font."""
    fonts = child(properties, "rFonts")
    name = attribute(fonts, "ascii") or attribute(fonts, "hAnsi")
    return bool(_MONOSPACED.search(name)) if name else None


class Styles:
    """The paragraph styles of a document by id."""

    def __init__(self, root: Element | None) -> None:
        self._elements = {attribute(style, "styleId"): style for style in children(root, "style")}
        self._known: dict[str, Style] = {}
        default = (
            key
            for key, style in self._elements.items()
            if attribute(style, "default") in ("1", "true") and attribute(style, "type") == "paragraph"
        )
        self.default = next(default, "")

    def get(self, key: str, depth: int = 0) -> Style:
        """Return a style, with what it inherits."""
        if key not in self._known:
            element = self._elements.get(key)
            if element is None or depth > _MAX_DEPTH:
                return Style()
            parent = attribute(child(element, "basedOn"), "val")
            inherited = self.get(parent, depth + 1) if parent else Style()
            self._known[key] = _style(element, inherited)
        return self._known[key]


def _style(element: Element, inherited: Style) -> Style:
    name = attribute(child(element, "name"), "val").lower()
    mono = is_monospaced(child(element, "rPr"))
    own = replace(inherited, name=name, monospaced=inherited.monospaced if mono is None else mono)
    named = _HEADING.match(name)
    if named:
        own = replace(own, heading=int(named.group(1)))
    elif name == "title":
        own = replace(own, heading=1)
    return paragraph_style(child(element, "pPr"), own)


def paragraph_style(properties: Element | None, base: Style) -> Style:
    """Return a style with what paragraph properties set on top of it."""
    outline = attribute(child(properties, "outlineLvl"), "val")
    if outline.isdecimal() and base.name != "title":
        base = replace(base, heading=int(outline) + 1 if int(outline) < 9 else None)
    numbering = child(properties, "numPr")
    if numbering is None:
        return base
    number = child(numbering, "numId")
    level = attribute(child(numbering, "ilvl"), "val")
    return replace(
        base,
        number=base.number if number is None else attribute(number, "val"),
        level=int(level) if level.isdecimal() else base.level,
    )


@dataclass
class _Level:
    start: int = 1
    shape: str = "decimal"
    label: str = ""


@dataclass
class _List:
    levels: dict[int, _Level] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """The counters of all lists, in reading order."""

    def __init__(self, root: Element | None) -> None:
        lists = {attribute(item, "abstractNumId"): _List(_levels(item)) for item in children(root, "abstractNum")}
        self._lists: dict[str, _List] = {}
        self._restarts: dict[str, dict[int, int]] = {}
        for number in children(root, "num"):
            key = attribute(number, "numId")
            abstract = attribute(child(number, "abstractNumId"), "val")
            self._lists[key] = lists.setdefault(abstract, _List())
            self._restarts[key] = dict(_overrides(number))

    def next(self, key: str, level: int) -> str | None:
        """Count one more item and return its label: `-` of a bullet, None where the list does not exist."""
        found = self._lists.get(key)
        if found is None:
            return None
        restart = self._restarts[key].pop(level, None)
        here = found.levels.get(level, _Level())
        before = found.counts.get(level, here.start - 1)
        found.counts[level] = (restart if restart is not None else before + 1) or 0
        for deeper in [other for other in found.counts if other > level]:
            del found.counts[deeper]
        if here.shape in ("bullet", "none"):
            return "-" if here.shape == "bullet" else ""
        return _PLACE.sub(lambda place: _count(found, int(place.group(1)) - 1), here.label or f"%{level + 1}.")


def _levels(abstract: Element) -> dict[int, _Level]:
    levels = {}
    for element in children(abstract, "lvl"):
        start = attribute(child(element, "start"), "val")
        shape = attribute(child(element, "numFmt"), "val", "decimal")
        label = attribute(child(element, "lvlText"), "val")
        number = attribute(element, "ilvl")
        levels[int(number) if number.isdecimal() else 0] = _Level(int(start) if start.isdecimal() else 1, shape, label)
    return levels


def _overrides(number: Element) -> list[tuple[int, int]]:
    found = []
    for override in children(number, "lvlOverride"):
        level, start = attribute(override, "ilvl"), attribute(child(override, "startOverride"), "val")
        if level.isdecimal() and start.isdecimal():
            found.append((int(level), int(start)))
    return found


def _count(numbered: _List, level: int) -> str:
    value = numbered.counts.get(level, numbered.levels.get(level, _Level()).start)
    shape = numbered.levels.get(level, _Level()).shape
    if shape in ("lowerLetter", "upperLetter") and value > 0:
        letters = chr(ord("a") + (value - 1) % 26) * min((value - 1) // 26 + 1, 10)
        return letters.upper() if shape == "upperLetter" else letters
    if shape in ("lowerRoman", "upperRoman") and 0 < value < 4000:
        return roman(value) if shape == "upperRoman" else roman(value).lower()
    return str(value)


def roman(value: int) -> str:
    """Return 1 to 3,999 as a Roman number."""
    signs = zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"),
        strict=True,
    )
    text = ""
    for size, sign in signs:
        text += sign * (value // size)
        value %= size
    return text
