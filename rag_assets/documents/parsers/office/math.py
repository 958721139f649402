"""Office equations (OMML) as linear text in the notation of LaTeX, for readers and models."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rag_assets.documents.parsers.office.names import M, W
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, local

_NARY = {"∑": r"\sum", "∏": r"\prod", "∫": r"\int", "∬": r"\iint", "∮": r"\oint", "⋃": r"\bigcup", "⋂": r"\bigcap"}
_FUNCTION_NAMES = "sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log ln exp lim max min det"
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


def equation(element: Element) -> str:
    """Return the text of an `m:oMath` element; symbols stay Unicode."""
    return " ".join(_all(element).split())


def _all(elements: Iterable[Element]) -> str:
    return "".join(_one(element) for element in elements)


def _one(element: Element) -> str:
    if element.tag == f"{M}t" or element.tag == f"{W}t":
        return element.text or ""
    if not isinstance(element.tag, str) or element.tag.endswith("Pr"):
        return ""
    write = _WRITERS.get(local(element)) if element.tag.startswith(M) else None
    return write(element) if write else _all(element)


def _part(element: Element, name: str) -> str:
    part = child(element, name)
    return "" if part is None else _all(part)


def _property(element: Element, name: str, default: str) -> str:
    found = child(element, f"{local(element)}Pr", name)
    return default if found is None else attribute(found, "val")


def _fraction(element: Element) -> str:
    return f"\\frac{{{_part(element, 'num')}}}{{{_part(element, 'den')}}}"


def _base(element: Element) -> str:
    base = _part(element, "e")
    return base if len(base.strip()) <= 1 else f"{{{base}}}"


def _scripts(element: Element) -> str:
    sub, sup = _part(element, "sub"), _part(element, "sup")
    return _base(element) + (f"_{{{sub}}}" if sub else "") + (f"^{{{sup}}}" if sup else "")


def _radical(element: Element) -> str:
    degree = _part(element, "deg")
    return rf"\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"


def _nary(element: Element) -> str:
    sign = _property(element, "chr", "∫")
    sub, sup = _part(element, "sub"), _part(element, "sup")
    limits = (f"_{{{sub}}}" if sub else "") + (f"^{{{sup}}}" if sup else "")
    return f"{_NARY.get(sign, sign)}{limits} {_part(element, 'e')}"


def _delimited(element: Element) -> str:
    opening, closing = _property(element, "begChr", "("), _property(element, "endChr", ")")
    return opening + _property(element, "sepChr", "|").join(_all(e) for e in children(element, "e")) + closing


def _function(element: Element) -> str:
    name = _part(element, "fName").strip()
    return f"{_named(name)}({_part(element, 'e')})" if name in _FUNCTIONS else f"{name} {_part(element, 'e')}"


def _named(name: str) -> str:
    return f"\\{name}" if name in _FUNCTIONS else name


def _limit(element: Element) -> str:
    mark = "_" if local(element) == "limLow" else "^"
    return f"{_named(_part(element, 'e').strip())}{mark}{{{_part(element, 'lim')}}}"


def _lines(element: Element) -> str:
    return r" \\ ".join(_all(e) for e in children(element, "e"))


def _matrix(element: Element) -> str:
    return r" \\ ".join(" & ".join(_all(e) for e in children(row, "e")) for row in children(element, "mr"))


_WRITERS: dict[str, Callable[[Element], str]] = {
    "f": _fraction,
    "sSup": _scripts,
    "sSub": _scripts,
    "sSubSup": _scripts,
    "rad": _radical,
    "nary": _nary,
    "d": _delimited,
    "func": _function,
    "limLow": _limit,
    "limUpp": _limit,
    "eqArr": _lines,
    "m": _matrix,
}
