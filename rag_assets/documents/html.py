"""Web pages: the main content as visible text, with headings, lists, tables and code as blocks."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import trafilatura
from lxml import etree, html  # type: ignore[import-untyped]
from selectolax.lexbor import LexborHTMLParser

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.html_blocks import add_blocks
from rag_assets.documents.model import Record
from rag_assets.documents.names import charset, is_web
from rag_assets.documents.normalize import decode, normalize

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_INVISIBLE = (
    "script, style, noscript, template, svg, iframe, object, canvas, [hidden], [aria-hidden=true], "
    "[style*='display:none'], [style*='display: none']"
)
_BOILERPLATE = "nav, footer, aside, form, button, select, [role=navigation], [role=banner], body > header"
_MAIN = ("main", "[role=main]", "article")
_SMALL = 600  # characters: a page this short carries too few signals for the extractor to judge
_LOST = 0.1  # below this share of the page's text the extractor has lost content, not boilerplate


def parse_html(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a web page: its main content, without anything a reader does not see.

    Raises:
        ParseError: binary content.
    """
    meta = _META_CHARSET.search(data[:4096])
    declared = charset(content_type) or (meta.group(1).decode() if meta else None)
    tree = LexborHTMLParser(normalize(decode(data, declared)))
    facts = _facts(tree, name if is_web(name) else None)
    for node in tree.css(_INVISIBLE):
        if node.tag not in ("html", "body"):
            node.decompose()
    document = _main_content(tree).document(content_type="text/html", **facts)
    return whole_file(document, name, "the page shows no text")


def _facts(tree: LexborHTMLParser, address: str | None) -> dict[str, str | None]:
    title = tree.css_first("title")
    root = tree.css_first("html[lang]")
    language = (root.attributes.get("lang") or "").strip() if root else ""
    return {
        "title": " ".join(title.text().split()) if title else "",
        "language": re.split("[-_]", language)[0].lower() or None,
        "canonical_url": _canonical(tree, address),
    }


def _canonical(tree: LexborHTMLParser, address: str | None) -> str | None:
    link = tree.css_first("link[rel~=canonical][href]")
    target = (link.attributes.get("href") or "").strip() if link else ""
    try:
        url = urljoin(address or "", target)
    except ValueError:
        return address
    return url if is_web(url) else address


def _main_content(tree: LexborHTMLParser) -> TextBuilder:
    source = tree.html or ""
    for node in tree.css(_BOILERPLATE):
        node.decompose()
    plain = _built(_parsed(_main_html(tree)))
    if not plain.length:
        # Some sites wrap the whole page in a form or an aside.
        plain = _built(_parsed(source))
    if not plain.length and tree.body is not None:
        # libxml2 drops what is nested deeper than 256 elements.
        plain.add("paragraph", LexborHTMLParser(source).text(separator="\n"))
    if plain.length < _SMALL:
        return plain
    extracted = trafilatura.bare_extraction(source, include_comments=False)
    body = getattr(extracted, "body", None)
    article = _built(body) if body is not None else TextBuilder()
    return article if article.length > _LOST * plain.length else plain


def _main_html(tree: LexborHTMLParser) -> str:
    for selector in _MAIN:
        nodes = tree.css(selector)
        if len(nodes) == 1:
            return nodes[0].html or ""
    return tree.html or ""


def _parsed(source: str) -> etree._Element | None:
    if not source.strip():
        return None
    # The parser is told UTF-8, and so is not misled by a <meta charset> of the original bytes.
    return html.document_fromstring(source.encode(), parser=html.HTMLParser(encoding="utf-8"))


def _built(root: etree._Element | None) -> TextBuilder:
    builder = TextBuilder()
    if root is not None:
        add_blocks(root, builder)
    return builder
