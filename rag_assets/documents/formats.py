"""The kinds of files that are read without any setting: how each is recognised, and its parser."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from rag_assets.documents.model import Record
from rag_assets.documents.parsers.text import CODE_TYPES, TEXT_SUFFIXES
from rag_assets.documents.sniff import media_kind

Parser = Callable[[bytes, str, str | None], list[Record]]

_HERE = "rag_assets.documents"
_OPENXML = "application/vnd.openxmlformats-officedocument"
_PICTURES = frozenset(f"a {kind} image" for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WebP"))
_HTML_OPENINGS = (b"<!doctype html", b"<html", b"<head", b"<body")


@dataclass(frozen=True)
class Format:
    """A kind of file: how it is recognised, and the parser, given as `module:function` to load it late.

    `textual` formats decode their bytes as text, so bytes that are known to be something else are refused.
    `light` ones are read by plain Python in time that grows with their size: no process of its own for a small file.
    """

    name: str
    parser: Parser | str
    suffixes: frozenset[str]
    content_types: frozenset[str]
    matches: Callable[[bytes], bool] | None = None
    textual: bool = False
    light: bool = False

    def load(self) -> Parser:
        if not isinstance(self.parser, str):
            return self.parser
        module, _, attribute = self.parser.partition(":")
        parser: Parser = getattr(importlib.import_module(module), attribute)
        return parser


def _looks_like_html(head: bytes) -> bool:
    return head[:16].lower().startswith(_HTML_OPENINGS)


def _looks_like_pdf(head: bytes) -> bool:
    return head.startswith(b"%PDF-")


def _is_rtf(head: bytes) -> bool:
    return head.startswith(b"{\\rtf")


def _is_picture(head: bytes) -> bool:
    return media_kind(head) in _PICTURES


BUILTIN_FORMATS: tuple[Format, ...] = (
    Format(
        "text",
        f"{_HERE}.text:parse_text",
        frozenset(TEXT_SUFFIXES),
        frozenset({"text/plain"}),
        textual=True,
        light=True,
    ),
    Format(
        "code",
        f"{_HERE}.text:parse_code",
        frozenset(CODE_TYPES),
        frozenset(CODE_TYPES.values()),
        textual=True,
        light=True,
    ),
    Format(
        "markdown",
        f"{_HERE}.markdown:parse_markdown",
        frozenset({".md", ".markdown", ".mdx"}),
        frozenset({"text/markdown", "text/x-markdown"}),
        textual=True,
        light=True,
    ),
    Format(
        "html",
        f"{_HERE}.html:parse_html",
        frozenset({".html", ".htm", ".xhtml"}),
        frozenset({"text/html", "application/xhtml+xml"}),
        _looks_like_html,
        textual=True,
    ),
    Format(
        "pdf",
        f"{_HERE}.pdf:parse_pdf",
        frozenset({".pdf"}),
        frozenset({"application/pdf", "application/x-pdf"}),
        _looks_like_pdf,
    ),
    Format(
        "jsonl",
        f"{_HERE}.records:parse_jsonl",
        frozenset({".jsonl", ".ndjson"}),
        frozenset({"application/jsonl", "application/x-ndjson", "application/x-jsonlines"}),
        textual=True,
        light=True,
    ),
    Format(
        "json",
        f"{_HERE}.records:parse_json",
        frozenset({".json"}),
        frozenset({"application/json"}),
        textual=True,
        light=True,
    ),
    Format(
        "csv",
        f"{_HERE}.records:parse_csv",
        frozenset({".csv", ".tsv"}),
        frozenset({"text/csv", "text/tab-separated-values"}),
        textual=True,
        light=True,
    ),
    Format(
        "docx",
        f"{_HERE}.office.docx:parse_docx",
        frozenset({".docx", ".docm", ".dotx", ".dotm"}),
        frozenset({f"{_OPENXML}.wordprocessingml.document", "application/vnd.ms-word.document.macroenabled.12"}),
    ),
    Format(
        "pptx",
        f"{_HERE}.office.pptx:parse_pptx",
        frozenset({".pptx", ".pptm", ".ppsx", ".potx"}),
        frozenset({f"{_OPENXML}.presentationml.presentation", f"{_OPENXML}.presentationml.slideshow"}),
    ),
    Format(
        "xlsx",
        f"{_HERE}.office.xlsx:parse_xlsx",
        frozenset({".xlsx", ".xlsm", ".xltx", ".xltm"}),
        frozenset({f"{_OPENXML}.spreadsheetml.sheet", "application/vnd.ms-excel.sheet.macroenabled.12"}),
    ),
    Format(
        "xls", f"{_HERE}.office.xls:parse_xls", frozenset({".xls", ".xlt"}), frozenset({"application/vnd.ms-excel"})
    ),
    Format(
        "legacy-office",
        f"{_HERE}.office.legacy:parse_legacy_office",
        frozenset({".doc", ".dot", ".ppt", ".pps", ".pot", ".xlsb"}),
        frozenset({"application/msword", "application/vnd.ms-powerpoint"}),
    ),
    Format(
        "odf",
        f"{_HERE}.office.odf:parse_odf",
        frozenset({".odt", ".ods", ".odp", ".odg", ".ott", ".ots", ".otp", ".fodt", ".fods", ".fodp"}),
        frozenset(
            f"application/vnd.oasis.opendocument.{kind}" for kind in ("text", "spreadsheet", "presentation", "graphics")
        ),
    ),
    Format("epub", f"{_HERE}.office.epub:parse_epub", frozenset({".epub"}), frozenset({"application/epub+zip"})),
    Format("rtf", f"{_HERE}.rtf:parse_rtf", frozenset({".rtf"}), frozenset({"application/rtf", "text/rtf"}), _is_rtf),
    Format(
        "mail",
        f"{_HERE}.mail:parse_eml",
        frozenset({".eml", ".mht", ".mhtml"}),
        frozenset({"message/rfc822", "multipart/related"}),
    ),
    Format("msg", f"{_HERE}.msg:parse_msg", frozenset({".msg"}), frozenset({"application/vnd.ms-outlook"})),
    Format(
        "subtitles",
        f"{_HERE}.subtitles:parse_subtitles",
        frozenset({".srt", ".vtt"}),
        frozenset({"text/vtt", "application/x-subrip"}),
        textual=True,
    ),
    Format(
        "xml",
        f"{_HERE}.xml_text:parse_xml_file",
        frozenset({".xml", ".rss", ".atom", ".dbk", ".svg"}),
        frozenset({"application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "image/svg+xml"}),
        textual=True,
    ),
    Format(
        "image",
        f"{_HERE}.images:parse_image",
        frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp"}),
        frozenset(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "tiff", "bmp")),
        _is_picture,
    ),
    Format(
        "zip",
        f"{_HERE}.archives:parse_zip",
        frozenset({".zip"}),
        frozenset({"application/zip", "application/x-zip-compressed"}),
    ),
)
