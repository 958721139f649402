"""OpenDocument text, spreadsheets and presentations."""

from __future__ import annotations

from typing import Any

from rag_assets.documents.building import HeadingPath, TextBuilder, whole_file
from rag_assets.documents.model import Record
from rag_assets.documents.parsers.office.odf_sheets import sheet_rows
from rag_assets.documents.parsers.office.odf_text import Reader
from rag_assets.documents.parsers.office.package import Package
from rag_assets.documents.parsers.office.properties import facts
from rag_assets.documents.parsers.office.running import is_page_number
from rag_assets.documents.parsers.office.sheets import add_sheet
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, local, parse_xml
from rag_assets.documents.parsers.zips import ZIP_MAGIC
from rag_assets.errors import ParseError

_BODIES = ("text", "spreadsheet", "presentation", "drawing")


def parse_odf(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse an OpenDocument file, zipped or flat; slides are pages, sheets are sections.

    Raises:
        ParseError: damaged, encrypted, or with a part that is too large.
    """
    content, styles, about, media_type = _parts(data)
    body = child(content, "body")
    kind = next((kind for kind in _BODIES if child(body, kind) is not None), None)
    if kind is None:
        raise ParseError("the file has no body of text, sheets or slides: it is of a kind that is not read")
    main = child(body, kind)
    assert main is not None
    builder = TextBuilder()
    fields: dict[str, Any] = facts(about) if about is not None else {"metadata": {}}
    if kind == "spreadsheet":
        _sheets(main, builder)
    elif kind == "text":
        Reader(builder, content).read(main)
        _margins(styles, content, builder)
    else:
        fields["metadata"]["quality"] = _slides(main, content, builder)
    return whole_file(builder.document(content_type=media_type, **fields), name, "the document holds no text")


def _parts(data: bytes) -> tuple[Element, Element | None, Element | None, str]:
    """Return the content, the styles, the properties and the media type."""
    if not data.startswith(ZIP_MAGIC):
        root = parse_xml(data, "the document")
        return root, root, child(root, "meta"), attribute(root, "mimetype") or "application/vnd.oasis.opendocument.text"
    package = Package(data)
    manifest = package.xml("META-INF/manifest.xml")
    if manifest is not None and next(manifest.iter("{*}encryption-data"), None) is not None:
        raise ParseError("the document is encrypted and needs a password: save it without one")
    content, about = package.xml("content.xml"), package.xml("meta.xml")
    if content is None:
        raise ParseError("the document has no content.xml: it is damaged")
    media_type = (package.read("mimetype") or b"application/vnd.oasis.opendocument.text").decode("ascii", "replace")
    return content, package.xml("styles.xml"), child(about, "meta"), media_type.strip()


def _margins(styles: Element | None, content: Element, builder: TextBuilder) -> None:
    """Append headers and footers that say something, once, at the end."""
    builder.headings = HeadingPath()
    seen: set[str] = set()
    pages = children(child(styles, "master-styles"), "master-page")
    for kind in ("header", "footer"):
        for margin in (inner for page in pages for inner in page if local(inner).partition("-")[0] == kind):
            if attribute(margin, "display", "true") == "false":
                continue
            found = TextBuilder()
            Reader(found, content).read(margin)
            for text in found.parts:
                if text not in seen and not is_page_number(text):
                    seen.add(text)
                    builder.add("paragraph", text)


def _sheets(spreadsheet: Element, builder: TextBuilder) -> None:
    for table in children(spreadsheet, "table"):
        builder.headings = HeadingPath()
        add_sheet(builder, attribute(table, "name"), sheet_rows(table))


def _slides(presentation: Element, content: Element, builder: TextBuilder) -> dict[str, int]:
    pages, empty = children(presentation, "page"), 0
    for number, page in enumerate(pages, start=1):
        builder.headings = HeadingPath()
        before = builder.length
        reader = Reader(builder, content, page=number)
        # The title comes first, wherever it stands in the drawing order; notes come last.
        for shape in sorted(page, key=_rank):
            reader.slide_shape(shape)
        empty += builder.length == before
    return {"pages": len(pages), "pages_without_text": empty}


def _rank(shape: Element) -> int:
    if local(shape) == "notes":
        return 2
    return 0 if attribute(shape, "class") == "title" else 1
