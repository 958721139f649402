"""XML from strangers: no external entities, no network, no expansion without bounds."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TypeAlias

from lxml import etree  # type: ignore[import-untyped]

from rag_assets.errors import ParseError

Element: TypeAlias = etree._Element


def parse_xml(data: bytes, what: str, *, entities: bool = False) -> Element:
    """Return the root element of `data`, without comments and processing instructions.

    External entities and DTDs are never loaded. Entities that the document defines itself are resolved where
    `entities` is set, as far as libxml2's amplification limit lets them grow.

    Raises:
        ParseError: not well formed; the message begins with `what` and says at which line.
    """
    parser = etree.XMLParser(
        resolve_entities="internal" if entities else False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ParseError(f"{what} is not valid XML: {error}") from error
    if root is None:
        raise ParseError(f"{what} is not valid XML: it has no root element")
    return root


def stream(data: bytes, what: str, *tags: str) -> Iterator[Element]:
    """Yield the complete elements of `tags` (any namespace) one at a time; each is emptied after its turn.

    Raises:
        ParseError: not well formed.
    """
    names = [f"{{*}}{tag}" for tag in tags]
    try:
        for _, element in etree.iterparse(
            io.BytesIO(data), tag=names, resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
        ):
            yield element
            element.clear()
            # The emptied elements themselves would still add up in a sheet of a million rows.
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise ParseError(f"{what} is not valid XML: {error}") from error


def local(element: Element) -> str:
    """Return an element's name without its namespace, or `""` for what is no element."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def children(element: Element | None, name: str) -> list[Element]:
    """Return the children of that local name."""
    return [] if element is None else list(element.iterchildren(f"{{*}}{name}"))


def child(element: Element | None, *path: str) -> Element | None:
    """Return the first descendant along a path of local names, or None."""
    for name in path:
        if element is None:
            return None
        element = next(element.iterchildren(f"{{*}}{name}"), None)
    return element


def attribute(element: Element | None, name: str, default: str = "") -> str:
    """Return the attribute of that local name, whatever its namespace."""
    if element is None:
        return default
    plain = element.get(name)
    if plain is not None:
        return str(plain)
    for key, value in element.attrib.items():
        if key.endswith("}" + name):
            return str(value)
    return default


def whole_text(element: Element | None) -> str:
    """Return all text below an element, white space collapsed."""
    return "" if element is None else " ".join("".join(element.itertext()).split())
