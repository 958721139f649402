"""Web pages: the main content as visible text, with headings, lists, tables and code as blocks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

from lxml import etree, html  # type: ignore[import-untyped]
from selectolax.lexbor import LexborHTMLParser, LexborNode

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import NOINDEX_META, charset, is_web
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.html.blocks import add_blocks, page_blocks
from rag_assets.documents.parsers.html.content import content
from rag_assets.documents.parsers.html.declared import declared
from rag_assets.documents.parsers.html.formulas import spell_formulas
from rag_assets.documents.parsers.html.guard import is_tangled, plain_text
from rag_assets.documents.quality import figures

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_MAYBE_NOINDEX = re.compile(r"<meta[^>]{0,2000}?(?:noindex|none)", re.IGNORECASE)
_INVISIBLE = (
    "script, style, noscript, template, svg, iframe, object, canvas, select, datalist, textarea, dialog, button, "
    "[hidden], [aria-hidden=true], [style*='display:none'], [style*='display: none'], "
    "[style*='visibility:hidden'], [style*='visibility: hidden'], "
    # Without content by the standard; libxml2 takes what follows for theirs.
    "embed, source, track"
)
_QUESTIONS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"})


def parse_html(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a web page: its main content, without anything a reader does not see.

    Raises:
        ParseError: binary content.
    """
    source = _source(data, content_type)
    document = _tangled(source) if is_tangled(source) else _page(source, name if is_web(name) else None)
    noindex = {NOINDEX_META: True} if _asks_for_noindex(source) else {}
    document = replace(document, metadata=figures({**document.metadata, **noindex}, characters_in=len(source)))
    return whole_file(document, name, "the page shows no text")


def add_page(data: bytes, builder: TextBuilder) -> None:
    """Append all that a page shows, which is itself a part of a document: nothing of it is taken for a menu.

    Raises:
        ParseError: binary content.
    """
    source = _source(data, None)
    if is_tangled(source):
        builder.add("paragraph", plain_text(source))
        return
    tree = LexborHTMLParser(source)
    _drop_unseen(tree)
    root = _element_tree(tree.html or "")
    if root is not None:
        add_blocks(root, builder)


def _source(data: bytes, content_type: str | None) -> str:
    meta = _META_CHARSET.search(data[:4096])
    return normalize(decode(data, charset(content_type) or (meta.group(1).decode() if meta else None)))


def _asks_for_noindex(source: str) -> bool:
    """Whether a `<meta>` says noindex, or none, to all robots or to this program."""
    if not _MAYBE_NOINDEX.search(source):
        return False
    for node in LexborHTMLParser(source).css("meta[name][content]"):
        if (node.attributes.get("name") or "").strip().lower() in ("robots", "rag-assets"):
            words = re.split(r"[\s,;]+", (node.attributes.get("content") or "").lower())
            if "noindex" in words or "none" in words:
                return True
    return False


def _tangled(source: str) -> Document:
    builder = TextBuilder()
    builder.add("paragraph", plain_text(source))
    return builder.document(content_type="text/html")


def _page(source: str, address: str | None) -> Document:
    tree = LexborHTMLParser(source)
    facts = _facts(tree, address)
    says = declared(tree)
    _drop_unseen(tree)
    builder = TextBuilder()
    root = _element_tree(tree.html or "")
    if root is not None:
        found = content(root, page_blocks(root), says)
        for block in found.blocks:
            builder.add(block.kind, block.text, level=block.level)
        facts["metadata"] = figures(share_kept=found.share_kept)
    return builder.document(content_type="text/html", **facts)


def _facts(tree: LexborHTMLParser, address: str | None) -> dict[str, Any]:
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


def _drop_unseen(tree: LexborHTMLParser) -> None:
    spell_formulas(tree, _INVISIBLE)
    opened = _opened_by_buttons(tree)
    for node in tree.css(_INVISIBLE):
        if node.tag not in ("html", "body") and not _is_shown(node, opened):
            node.decompose()


def _opened_by_buttons(tree: LexborHTMLParser) -> set[str]:
    controls = tree.css("[aria-controls]")
    return {name for node in controls for name in (node.attributes.get("aria-controls") or "").split()}


def _is_shown(node: LexborNode, opened: set[str]) -> bool:
    """Keep the questions and answers of an accordion: buttons in headings, and the panels that they open; and a page
    that hides itself until a script has run."""
    if "visibility" in (node.attributes.get("style") or "") and node.css_first("main, article, h1") is not None:
        return True
    if node.tag == "button":
        parent = node.parent
        return parent is not None and parent.tag in _QUESTIONS
    return node.tag != "dialog" and node.attributes.get("role") != "dialog" and node.attributes.get("id") in opened


def _element_tree(source: str) -> etree._Element | None:
    if not source.strip():
        return None
    # The parser is told UTF-8, and so is not misled by a <meta charset> of the original bytes; without `huge_tree`
    # it would drop what is nested deeper than 256 elements.
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, collect_ids=False, remove_comments=True, remove_pis=True)
    return html.document_fromstring(source.encode(), parser=parser)
