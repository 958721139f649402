"""The text of single elements of a web page: phrases, lines, and code with its white space."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
BREAKS = frozenset({"br"})
_UNSEEN_TAGS = """
    audio canvas datalist embed head iframe link map meta meter noscript object progress script select style svg
    template textarea title video
"""
_INLINE_TAGS = """
    a abbr acronym b bdi bdo big br button cite code data del dfn em font i img input ins kbd label mark math nobr q
    rb ref rp rt ruby s samp small span strike strong sub sup time tt u var wbr
"""
UNSEEN = frozenset(_UNSEEN_TAGS.split())
INLINE = frozenset(_INLINE_TAGS.split())


class Phrase:
    """Running text that is put together from inline elements until a block begins or ends."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._links: list[etree._Element] = []
        self._linked = 0
        self.is_empty = True  # nothing but white space has been said since the last block

    def add(self, text: str | None) -> None:
        if text:
            self._parts.append(text)
            self.is_empty = self.is_empty and not text.strip()
            if self._links:
                self._linked += len(text.strip())

    def enter(self, inline: etree._Element) -> None:
        """Begin an inline element."""
        if inline.tag == "a" and inline.get("href"):
            self._links.append(inline)
        self.add(inline.text)

    def leave(self, element: etree._Element) -> bool:
        """End an element; True where it was an inline one."""
        if self._links and self._links[-1] is element:
            self._links.pop()
        return tag_of(element) in INLINE

    @property
    def in_link(self) -> bool:
        """Whether a link is open, as around a heading that is one as a whole."""
        return bool(self._links)

    def take(self) -> tuple[str, int]:
        """Return the text so far and how many of its characters are links, and begin anew."""
        taken = "".join(self._parts), self._linked
        self._parts, self._linked, self.is_empty = [], 0, True
        return taken


def tag_of(element: etree._Element) -> str:
    """Return the tag's name; comments and processing instructions have none and count as unseen."""
    return element.tag if isinstance(element.tag, str) else "script"


def line(element: etree._Element, heading: bool = False) -> str:
    """Return the text under `element` on one line; from a heading, links to itself such as ¶ are left out."""
    return " ".join("".join(_fragments(element, " ", heading)).split())


def preformatted(element: etree._Element) -> str:
    """Return the text under `element` with its white space and line breaks."""
    return "".join(_fragments(element, "\n"))


def _fragments(element: etree._Element, line_break: str, heading: bool = False) -> Iterator[str]:
    """Yield the text under `element`, with a space around every block so that no two words are welded."""
    yield element.text or ""
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, child in walk:
        if child is element:
            continue
        tag = tag_of(child)
        if event == "start":
            if tag in UNSEEN or tag in BREAKS or (heading and _is_permalink(child)):
                walk.skip_subtree()
                yield line_break if tag in BREAKS else ""
            else:
                yield ("" if tag in INLINE else " ") + (child.text or "")
        else:
            yield ("" if tag in INLINE or tag in UNSEEN else " ") + (child.tail or "")


def _is_permalink(element: etree._Element) -> bool:
    target = element.get("href") or ""
    return element.tag == "a" and "#" in target and not any(map(str.isalnum, "".join(element.itertext())))
