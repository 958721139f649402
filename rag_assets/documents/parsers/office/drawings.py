"""Charts, diagrams and drawn text, as they occur in every kind of office file."""

from __future__ import annotations

from collections.abc import Iterator

from rag_assets.documents.parsers.office.names import DGM, A, C
from rag_assets.documents.parsers.office.number_formats import number_format
from rag_assets.documents.parsers.office.package import Package
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, local, whole_text

_MAX_POINTS = 10_000
_MAX_LABEL = 200  # characters


def drawn_text(paragraph: Element) -> str:
    """Return the text of an `a:p` element; a line break inside it is a newline."""
    parts = []
    for element in paragraph.iter(f"{A}t", f"{A}br", f"{A}tab"):
        parts.append(element.text or "" if element.tag == f"{A}t" else "\n" if element.tag == f"{A}br" else "\t")
    return "".join(parts)


def drawn_paragraphs(element: Element) -> list[str]:
    """Return the texts of all `a:p` elements below `element` that are not blank."""
    texts = (drawn_text(paragraph).strip() for paragraph in element.iter(f"{A}p"))
    return [text for text in texts if text]


def chart_blocks(package: Package, path: str) -> Iterator[tuple[str, str]]:
    """Yield a chart's title as a paragraph and its values as a table, each as (kind, text)."""
    root = package.xml(path)
    if root is None:
        return
    chart = child(root, "chart")
    title = child(chart, "title")
    if title is not None:
        yield "paragraph", " ".join(drawn_paragraphs(title))
    lines = list(_chart_lines(root))
    if len(lines) > 1:
        yield "table", "\n".join(lines)


def _chart_lines(root: Element) -> Iterator[str]:
    series = list(root.iter(f"{C}ser"))
    names = [" ".join(_points(child(one, "tx")).values()) for one in series]
    labels = next((found for one in series if (found := _points(child(one, "cat")) or _points(child(one, "xVal")))), {})
    values = [_points(child(one, "val")) or _points(child(one, "yVal")) for one in series]
    yield " | ".join(["", *names]).strip()
    places = sorted({place for points in (labels, *values) for place in points})
    for place in places[:_MAX_POINTS]:
        yield " | ".join([labels.get(place, ""), *(points.get(place, "") for points in values)])


def _points(element: Element | None) -> dict[int, str]:
    if element is None:
        return {}
    found: dict[int, str] = {}
    for point in element.iter(f"{C}pt"):
        place, value = point.get("idx") or "", child(point, "v")
        if place.isdecimal() and value is not None and value.text:
            found[int(place)] = _shown(point, value.text)
    written = whole_text(child(element, "v"))
    return found or ({0: written} if written else {})


def _shown(point: Element, text: str) -> str:
    """Return a point's value as the chart shows it; numbers have a format code, of their own or of all of them."""
    cache = point.getparent()
    if cache is None or local(cache) != "numCache":
        return text
    code = point.get("formatCode") or whole_text(child(cache, "formatCode"))
    since_1904 = attribute(child(cache.getroottree().getroot(), "date1904"), "val", "0") in ("1", "true")
    try:
        return number_format(0, code).shown(float(text), since_1904=since_1904)
    except (ValueError, OverflowError):
        return text


def diagram_lines(package: Package, path: str) -> list[str]:
    """Return the texts of a diagram (SmartArt) whose data are at `path`, in their stored order."""
    root = package.xml(path)
    if root is None:
        return []
    points = (point for point in root.iter(f"{DGM}pt") if point.get("type", "node") in ("node", "asst"))
    return [" ".join(lines) for point in points if (lines := drawn_paragraphs(point))]


def is_graphic(element: Element) -> bool:
    """Tell an element that refers to a chart or a diagram."""
    return element.tag == f"{C}chart" or (local(element) == "relIds" and element.tag.startswith(DGM))


def merged_label(above: list[str], column: int) -> str:
    """Return what a cell that is merged with the one above it says: the same, where that is a label and no text."""
    text = above[column] if column < len(above) else ""
    return text if len(text) <= _MAX_LABEL else ""
