"""E-books (EPUB): the chapters in reading order."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote

from lxml import etree, html  # type: ignore[import-untyped]

from rag_assets.documents.building import HeadingPath, TextBuilder, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.html.blocks import add_blocks
from rag_assets.documents.parsers.office.package import Package
from rag_assets.documents.parsers.office.properties import facts
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children
from rag_assets.errors import ParseError

_TYPE = "application/epub+zip"
_TEXT_TYPES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
# Obfuscated fonts are common and harm nothing: only these keep the text itself away.
_DRM_FILES = ("meta-inf/rights.xml", "meta-inf/license.lcpl")


def parse_epub(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse an e-book; its table of contents is left out, for it repeats the headings.

    Raises:
        ParseError: damaged, protected against copying, or with a part that is too large.
    """
    package = Package(data)
    path = _package_file(package)
    root = package.xml(path)
    if root is None:
        raise ParseError(f"the book's {path} is missing: it is damaged")
    builder, chapters = TextBuilder(), _chapters(root, posixpath.dirname(path))
    for chapter in chapters:
        _add_chapter(package, chapter, builder)
    about = child(root, "metadata")
    fields: dict[str, Any] = facts(about) if about is not None else {}
    if not builder.length and any(part in package.names for part in _DRM_FILES):
        raise ParseError("the book is protected against copying (DRM)")
    return whole_file(builder.document(content_type=_TYPE, **fields), name, "the book holds no text")


def _package_file(package: Package) -> str:
    root = package.xml("META-INF/container.xml")
    for file in root.iter("{*}rootfile") if root is not None else ():
        return attribute(file, "full-path")
    for lower, path in package.names.items():
        if lower.endswith(".opf"):
            return path
    raise ParseError("the book has no package file: it is damaged or no EPUB")


def _chapters(root: Element, folder: str) -> list[str]:
    items = {attribute(item, "id"): item for item in children(child(root, "manifest"), "item")}
    paths: list[str] = []
    for reference in children(child(root, "spine"), "itemref"):
        item = items.get(attribute(reference, "idref"))
        if item is None or attribute(item, "media-type") not in _TEXT_TYPES:
            continue
        if "nav" in attribute(item, "properties").split():
            continue
        paths.append(posixpath.normpath(posixpath.join(folder, unquote(attribute(item, "href")))))
    return paths


def _add_chapter(package: Package, path: str, builder: TextBuilder) -> None:
    data = package.read(path)
    if data is None or not data.strip():
        return
    builder.headings = HeadingPath()
    # Not an XML parser: books are as careless as web pages, and use HTML's entities without declaring them.
    source = normalize(decode(data)).encode()
    try:
        root = html.document_fromstring(source, parser=html.HTMLParser(encoding="utf-8", remove_comments=True))
    except etree.ParserError:  # nothing but markup that lxml drops
        return
    if root is not None:
        add_blocks(root, builder)
