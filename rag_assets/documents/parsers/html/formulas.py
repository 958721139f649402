"""Formulas of a web page as text: TeX where the page has it, else the signs of its MathML."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

_STYLE = re.compile(r"\A\{?\\(?:display|text|script)style\s+(.*?)\}?\Z", re.DOTALL)
_TEX = re.compile(r"(?:\A|[/-])(?:la)?tex\Z", re.IGNORECASE)
_PICTURES = frozenset({"math", "tex", "latex"})  # words in the class of a picture that is a formula


def spell_formulas(tree: LexborHTMLParser, hidden: str) -> None:
    """Put text in the place of each formula. Pages hide the MathML of what they draw (`hidden` is the selector of
    what no reader sees), and draw it as pictures or as letters that are moved about, which no text comes from."""
    formulas = tree.css("math")
    for math in formulas:
        _shell(math, hidden).replace_with(_spelled(math))
    if formulas:
        return
    for script in tree.css("script[type^='math/tex']"):
        script.replace_with(_tex(script.text()))
    for picture in tree.css("img[alt][class]"):
        if _PICTURES & set(re.split(r"[\W_]+", (picture.attributes.get("class") or "").lower())):
            picture.replace_with(_tex(picture.attributes.get("alt") or ""))


def _shell(math: LexborNode, hidden: str) -> LexborNode:
    """Return the outermost element that is hidden and holds nothing but this formula, or the formula itself."""
    shell = inner = math
    while (above := inner.parent) is not None and above.tag in ("span", "div") and _is_alone(inner):
        inner = above
        if above.css_matches(hidden):
            shell = above
    return shell


def _is_alone(node: LexborNode) -> bool:
    beside = (node.prev, node.next)
    return all(other is None or (other.tag == "-text" and not other.text().strip()) for other in beside)


def _spelled(math: LexborNode) -> str:
    sources = [math.attributes.get("alttext") or ""]
    for annotation in math.css("annotation[encoding]"):
        if _TEX.search(annotation.attributes.get("encoding") or ""):
            sources.append(annotation.text())
    return next((text for source in sources if (text := _tex(source))), None) or _signs(math)


def _tex(source: str) -> str:
    text = " ".join(source.split())
    return _STYLE.sub(r"\1", text).strip()


def _signs(math: LexborNode) -> str:
    for annotation in math.css("annotation, annotation-xml"):
        annotation.decompose()
    return " ".join(math.text().split())
