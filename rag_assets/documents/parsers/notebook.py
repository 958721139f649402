"""Jupyter notebooks: their cells in order, as Markdown, with what they printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rag_assets.documents.building import whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.markdown_blocks import markdown_blocks
from rag_assets.documents.parsers.markdown_unseen import without_unseen
from rag_assets.documents.quality import figures
from rag_assets.errors import ParseError


def parse_notebook(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a notebook of format 3 or 4. Pictures and widgets that cells have shown are left out.

    Raises:
        ParseError: it is no JSON, or holds no list of cells.
    """
    try:
        notebook = json.loads(decode(data, charset(content_type)))
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not a notebook: {error}") from error
    language = _language(notebook)
    cells = list(_cells(notebook))
    parts = [part for cell in cells for part in _cell(cell, language) if part.strip()]
    text = normalize("\n\n".join(parts))
    blocks = tuple(markdown_blocks(text))
    title = next((block.heading_path[-1] for block in blocks if block.kind == "heading"), "")
    counts = figures(cells=len(cells))
    document = Document(text, title, "application/x-ipynb+json", blocks=blocks, metadata=counts)
    return whole_file(document, name)


def _cells(notebook: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(notebook, dict):
        raise ParseError("not a notebook: the file is no JSON object")
    sheets = notebook.get("worksheets") if isinstance(notebook.get("worksheets"), list) else [notebook]
    found = [sheet.get("cells") for sheet in sheets or () if isinstance(sheet, dict)]
    lists = [cells for cells in found if isinstance(cells, list)]
    if not lists:
        raise ParseError("not a notebook: it has no list of cells")
    for cells in lists:
        yield from (cell for cell in cells if isinstance(cell, dict))


def _language(notebook: Any) -> str:
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else "python"


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _lines(cell.get("source", cell.get("input")))
    if cell.get("cell_type") == "heading":
        level = cell.get("level")
        yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {source}"
    elif cell.get("cell_type") == "code":
        yield _fenced(source, language)
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict):
                yield _fenced(_shown(output), "")
    else:
        yield without_unseen(normalize(source)) if cell.get("cell_type") == "markdown" else source


def _fenced(text: str, language: str) -> str:
    if not text.strip():
        return ""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def _shown(output: dict[str, Any]) -> str:
    """Return the text of one output; errors are no knowledge, and their traces are full of terminal colours."""
    if output.get("output_type") in ("error", "pyerr"):
        return ""
    data = output.get("data")
    if isinstance(data, dict):
        return _lines(data.get("text/plain") or data.get("text/markdown"))
    return _lines(output.get("text"))


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
