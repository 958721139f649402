"""Pages that no HTML parser reads in reasonable time, told before one tries, and their text without one."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_TAG = re.compile(r"<(?:!--|(/?)([a-zA-Z][a-zA-Z0-9:-]*))")
_RAW = frozenset({"script", "style", "textarea", "title", "iframe", "xmp", "noembed", "noframes"})
_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})
# Their end tags may be left out: the next one of their kind closes them.
_OPTIONAL_END = """
    body colgroup dd dt head html li optgroup option p rb rp rt rtc tbody td tfoot th thead tr
"""
_SHALLOW = _VOID | frozenset(_OPTIONAL_END.split())
# What the standard opens again in every block after the one that left it open.
_FORMATTING = "a b big code em font i nobr s small strike strong tt u"
_REOPENED = frozenset(_FORMATTING.split())
_MAX_DEPTH = 512  # as in browsers; the time to parse grows with its square
_MAX_TAGS = 1_000_000
_MAX_REOPENED = 3_000_000  # elements


def is_tangled(source: str) -> bool:
    """Tell whether the page nests so deeply, or leaves so many tags open, that its tree would take minutes or
    gigabytes. Looks at each tag once."""
    depth = unclosed = reopened = 0
    for number, (closing, name) in enumerate(_tags(source)):
        if not closing:
            reopened += unclosed
        if name not in _SHALLOW:
            depth = max(0, depth + (-1 if closing else 1))
            if name in _REOPENED:
                unclosed = max(0, unclosed + (-1 if closing else 1))
        if depth > _MAX_DEPTH or number >= _MAX_TAGS or reopened > _MAX_REOPENED:
            return True
    return False


def plain_text(source: str) -> str:
    """Return the text outside of tags, a line for each run of it; scripts, styles and comments are left out."""
    parts = []
    end = 0
    for match, stop in _markup_of(source):
        parts.append(source[end : match.start()])
        end = stop
    parts.append(source[end:])
    lines = (" ".join(html.unescape(part).split()) for part in parts)
    return "\n".join(line for line in lines if line)


def _tags(source: str) -> Iterator[tuple[bool, str]]:
    for match, _ in _markup_of(source):
        if match.group(2):
            yield bool(match.group(1)), match.group(2).lower()


def _markup_of(source: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each tag or comment and where it ends; what lies in a script or style belongs to its tag."""
    position = 0
    while match := _TAG.search(source, position):
        name = (match.group(2) or "").lower()
        position = _after(source, ">", match.end()) if name else _after(source, "-->", match.end() - 2)
        if name in _RAW and not match.group(1):
            closing = re.compile(f"</{name}", re.IGNORECASE).search(source, position)
            position = _after(source, ">", closing.end()) if closing else len(source)
        yield match, position


def _after(source: str, mark: str, start: int) -> int:
    """Return the position behind the next `mark`, or the end of the page where there is none."""
    found = source.find(mark, start)
    return len(source) if found < 0 else found + len(mark)
