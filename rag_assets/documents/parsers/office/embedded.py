"""Files of other kinds that stand in the text of an office file as if they were part of it."""

from __future__ import annotations

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.model import Document
from rag_assets.documents.parsers.html.page import add_page
from rag_assets.documents.parsers.nested import inner_records, opened
from rag_assets.documents.registry import choose
from rag_assets.errors import ParseError, UnsupportedFormat


def embedded(data: bytes, path: str) -> Document | None:
    """Return what a file inside another says, whatever its kind; None where it cannot be read."""
    try:
        with opened() as budget:
            if choose(data, path).name == "html":
                builder = TextBuilder()
                add_page(data, builder)
                return builder.document()
            return inner_records(data, path, None, budget)[0].document
    except (ParseError, UnsupportedFormat):
        return None
