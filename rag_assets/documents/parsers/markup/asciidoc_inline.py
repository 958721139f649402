"""Text within a line of AsciiDoc: marks, links, macros and attributes."""

from __future__ import annotations

import re

_MAX_VALUE = 300  # characters
_BUILT_IN = {
    "nbsp": " ", "sp": " ", "empty": "", "blank": "", "lt": "<", "gt": ">", "amp": "&", "plus": "+", "asterisk": "*",
    "tilde": "~", "caret": "^", "apos": "'", "quot": '"', "lsquo": "‘", "rsquo": "’", "ldquo": "“", "rdquo": "”",
    "deg": "°", "startsb": "[", "endsb": "]", "vbar": "|", "backtick": "`", "two-colons": "::", "zwsp": "",
    "cpp": "C++", "pp": "++", "brvbar": "¦",
}  # fmt: skip
_VALUE = re.compile(r"(?<!\\)\{([\w][\w-]*)\}")
_LINK = re.compile(
    r"(?<![\w:])(?:link:(?:\+\+)?|mailto:)?((?:https?|ftp|irc|file)://[^\s\[\]<>]*|(?<=link:)[^\s\[\]]+|"
    r"(?<=mailto:)[^\s\[\]]+)\[([^\]\n]{0,1000})\]"
)  # fmt: skip
_MACRO = re.compile(
    r"\b(xref|image|icon|kbd|btn|menu|footnote|footnoteref|stem|latexmath|asciimath|pass|indexterm2?|anchor|link|mailto)"
    r":([^\s\[\]:]*)\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]"
)  # fmt: skip
_CROSS = re.compile(r"<<([^<>,\n]+)(?:,[ \t]*([^<>\n]*))?>>")
_ANCHOR = re.compile(r"\[\[[^\[\]\n]*\]\]|\(\(\([^()\n]*\)\)\)")
_TERM = re.compile(r"\(\(([^()\n]+)\)\)")
_ROLE = re.compile(r"\[[.#][^\[\]\n]*\](?=[#*_`])")
_PASSED = re.compile(r"(\+{2,3}|`\+|\$\$)([^\n]{0,400}?)(?:\1|\+`)")
_DOUBLE = re.compile(r"(\*\*|__|``|##)(?=\S)([^\n]{0,400}?\S)\1")
_SINGLE = re.compile(r"(?<![\w*_`#\\])([*_`#])(?=\S)([^\n]{0,400}?\S)\1(?![\w*_`#])")
_RAISED = re.compile(r"(?<=\S)([\^~])([^\s^~]{1,40})\1")
_ESCAPED = re.compile(r"\\(?=[*_`#{<\[(|'])")
_DROPPED = frozenset({"indexterm", "anchor", "icon"})


class Attributes:
    """The values that a document gives to names."""

    def __init__(self) -> None:
        self._values = dict(_BUILT_IN)

    def put(self, name: str, value: str) -> None:
        """Set a value; with a `!` the name has none."""
        if "!" in name:
            self._values.pop(name.strip("!").lower(), None)
        else:
            self._values[name.lower()] = value[:_MAX_VALUE]

    def filled_in(self, text: str) -> str:
        """Return text with the values for the names in braces that have one."""
        return _VALUE.sub(lambda name: self._values.get(name[1].lower(), name[0]), text) if "{" in text else text


def inline(text: str, attributes: Attributes) -> str:
    """Return what a reader sees of text within a line."""
    text = attributes.filled_in(text)
    if text.isalnum():
        return text
    text = _ROLE.sub("", _ANCHOR.sub("", text))
    text = _TERM.sub(r"\1", text)
    text = _LINK.sub(lambda link: _label(link[2]) or link[1], text)
    text = _MACRO.sub(_macro, text)
    text = _CROSS.sub(lambda cross: cross[2] or cross[1], text)
    text = _PASSED.sub(r"\2", text)
    for marks in (_DOUBLE, _SINGLE, _SINGLE):  # such as bold italics
        text = marks.sub(r"\2", text)
    return _ESCAPED.sub("", _RAISED.sub(r"\2", text))


def _label(said: str) -> str:
    """Return the text of a link without what else stands in its brackets."""
    if said.startswith('"'):
        return said[1:].partition('"')[0]
    return re.split(r",\s*(?:\w+\s*=|window\b|role\b)", said)[0].removesuffix("^").strip()


def _macro(macro: re.Match[str]) -> str:
    name, target, said = macro[1], macro[2], macro[3]
    if name in _DROPPED:
        return ""
    if name in ("footnote", "footnoteref"):
        return f" ({said})" if said else ""
    if name == "image":
        return said.split(",")[0].strip('" ')
    if name == "menu":
        return " > ".join(filter(None, (target, said)))
    return (said if name in ("stem", "latexmath", "asciimath", "pass") else _label(said)) or target
