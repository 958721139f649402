"""Where the shapes of a slide stand, for the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.documents.parsers.office.names import A, P
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, local

TITLES = frozenset({"title", "ctrTitle"})

# Shapes whose tops differ by less are in one row, and read from left to right.
_ROW = 228_600  # English Metric Units: a quarter of an inch

Places = dict[tuple[str, str], tuple[int, int]]


def role_of(shape: Element) -> str | None:
    """Return the type of the placeholder that a shape fills, `""` for a general one, None for none."""
    placeholder = next(shape.iter(f"{P}ph"), None)
    return None if placeholder is None else attribute(placeholder, "type")


def placeholder_places(layout: Element | None) -> Places:
    """Return where a layout puts each of its placeholders, by kind and number."""
    places: Places = {}
    tree = child(layout, "cSld", "spTree")
    for shape in tree if tree is not None else ():
        placeholder, offset = next(shape.iter(f"{P}ph"), None), _offset(shape)
        if placeholder is not None and offset is not None:
            places["", attribute(placeholder, "idx")] = offset
            places.setdefault((attribute(placeholder, "type"), ""), offset)
    return places


def place_of(shape: Element, places: Places) -> tuple[int, int, int]:
    """Return a sort key: titles first, then by row from the top, and from the left within a row."""
    if local(shape) == "AlternateContent":
        inner: Iterable[Element] = shape.iter(f"{P}sp", f"{P}graphicFrame", f"{P}grpSp")
        shape = next(iter(inner), shape)
    placeholder = next(shape.iter(f"{P}ph"), None) if local(shape) != "grpSp" else None
    offset = _offset(shape)
    if offset is None and placeholder is not None:
        kind, number = attribute(placeholder, "type"), attribute(placeholder, "idx")
        offset = places.get(("", number)) or places.get((kind, ""))
    x, y = offset or (0, 0)
    is_title = placeholder is not None and attribute(placeholder, "type") in TITLES
    return (0 if is_title else 1, y // _ROW, x)


def _offset(shape: Element) -> tuple[int, int] | None:
    found = child(shape, "spPr", "xfrm", "off")
    if found is None:
        found = child(shape, "xfrm", "off")
    if found is None:
        found = child(shape, "grpSpPr", "xfrm", "off")
    if found is None or found.tag != f"{A}off":
        return None
    try:
        return int(attribute(found, "x")), int(attribute(found, "y"))
    except ValueError:
        return None
