"""The kinds of files that are read without any setting: how each is recognised, and its parser."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from rag_assets.documents.model import Record
from rag_assets.documents.parsers.text import CODE_TYPES, TEXT_SUFFIXES
from rag_assets.documents.sniff import is_mailbox, is_manual_page, media_kind

Parser = Callable[[bytes, str, str | None], list[Record]]

_PARSERS = "rag_assets.documents.parsers"
_OPENXML = "application/vnd.openxmlformats-officedocument"
_PICTURES = frozenset(f"a {kind} image" for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WebP"))
_HTML_OPENINGS = (b"<!doctype html", b"<html", b"<head", b"<body")


@dataclass(frozen=True)
class Format:
    """A kind of file: how it is recognised, and the parser, given as `module:function` to load it late.

    `textual` formats decode their bytes as text, so bytes that are known to be something else are refused.
    """

    name: str
    parser: Parser | str
    suffixes: frozenset[str]
    content_types: frozenset[str]
    matches: Callable[[bytes], bool] | None = None
    textual: bool = False

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


def _is_calendar(head: bytes) -> bool:
    return head[:15].upper() == b"BEGIN:VCALENDAR"


def _is_contact(head: bytes) -> bool:
    return head[:11].upper() == b"BEGIN:VCARD"


def _is_picture(head: bytes) -> bool:
    return media_kind(head) in _PICTURES


BUILTIN_FORMATS: tuple[Format, ...] = (
    Format(
        "text",
        f"{_PARSERS}.text:parse_text",
        frozenset(TEXT_SUFFIXES),
        frozenset({"text/plain"}),
        textual=True,
    ),
    Format(
        "code",
        f"{_PARSERS}.text:parse_code",
        frozenset(CODE_TYPES),
        frozenset(CODE_TYPES.values()),
        textual=True,
    ),
    *(
        Format(
            name, f"{_PARSERS}.light_markup:parse_{name}", frozenset(suffixes), frozenset({content_type}), textual=True
        )
        for name, content_type, suffixes in (
            ("asciidoc", "text/asciidoc", (".adoc", ".asciidoc", ".asc")),
            ("org", "text/org", (".org",)),
            ("rst", "text/x-rst", (".rst", ".rest")),
            ("latex", "text/x-tex", (".tex", ".latex", ".ltx")),
        )
    ),
    Format(
        "man",
        f"{_PARSERS}.light_markup:parse_man",
        frozenset({".man", ".mdoc", ".roff", ".3pm", ".1ssl", ".3ssl", ".5ssl", ".7ssl", ".1p", ".3p"}),
        frozenset({"text/troff"}),
        is_manual_page,
        textual=True,
    ),
    Format(
        "notebook",
        f"{_PARSERS}.notebook:parse_notebook",
        frozenset({".ipynb"}),
        frozenset({"application/x-ipynb+json"}),
        textual=True,
    ),
    Format(
        "calendar",
        f"{_PARSERS}.calendar:parse_calendar",
        frozenset({".ics", ".ical", ".ifb"}),
        frozenset({"text/calendar"}),
        _is_calendar,
        textual=True,
    ),
    Format(
        "contacts",
        f"{_PARSERS}.contacts:parse_contacts",
        frozenset({".vcf", ".vcard"}),
        frozenset({"text/vcard", "text/x-vcard", "text/directory"}),
        _is_contact,
        textual=True,
    ),
    Format(
        "markdown",
        f"{_PARSERS}.markdown:parse_markdown",
        frozenset({".md", ".markdown", ".mdx"}),
        frozenset({"text/markdown", "text/x-markdown"}),
        textual=True,
    ),
    Format(
        "html",
        f"{_PARSERS}.html.page:parse_html",
        frozenset({".html", ".htm", ".xhtml"}),
        frozenset({"text/html", "application/xhtml+xml"}),
        _looks_like_html,
        textual=True,
    ),
    Format(
        "pdf",
        f"{_PARSERS}.pdf:parse_pdf",
        frozenset({".pdf"}),
        frozenset({"application/pdf", "application/x-pdf"}),
        _looks_like_pdf,
    ),
    Format(
        "jsonl",
        f"{_PARSERS}.records:parse_jsonl",
        frozenset({".jsonl", ".ndjson"}),
        frozenset({"application/jsonl", "application/x-ndjson", "application/x-jsonlines"}),
        textual=True,
    ),
    Format(
        "json",
        f"{_PARSERS}.records:parse_json",
        frozenset({".json"}),
        frozenset({"application/json"}),
        textual=True,
    ),
    Format(
        "csv",
        f"{_PARSERS}.records:parse_csv",
        frozenset({".csv", ".tsv"}),
        frozenset({"text/csv", "text/tab-separated-values"}),
        textual=True,
    ),
    Format(
        "docx",
        f"{_PARSERS}.office.docx:parse_docx",
        frozenset({".docx", ".docm", ".dotx", ".dotm"}),
        frozenset({f"{_OPENXML}.wordprocessingml.document", "application/vnd.ms-word.document.macroenabled.12"}),
    ),
    Format(
        "pptx",
        f"{_PARSERS}.office.pptx:parse_pptx",
        frozenset({".pptx", ".pptm", ".ppsx", ".potx"}),
        frozenset({f"{_OPENXML}.presentationml.presentation", f"{_OPENXML}.presentationml.slideshow"}),
    ),
    Format(
        "xlsx",
        f"{_PARSERS}.office.xlsx:parse_xlsx",
        frozenset({".xlsx", ".xlsm", ".xltx", ".xltm"}),
        frozenset({f"{_OPENXML}.spreadsheetml.sheet", "application/vnd.ms-excel.sheet.macroenabled.12"}),
    ),
    Format(
        "xls", f"{_PARSERS}.office.xls:parse_xls", frozenset({".xls", ".xlt"}), frozenset({"application/vnd.ms-excel"})
    ),
    Format(
        "xlsb",
        f"{_PARSERS}.office.xlsb:parse_xlsb",
        frozenset({".xlsb"}),
        frozenset({"application/vnd.ms-excel.sheet.binary.macroenabled.12"}),
    ),
    Format(
        "legacy-office",
        f"{_PARSERS}.office.legacy:parse_legacy_office",
        frozenset({".doc", ".dot", ".ppt", ".pps", ".pot"}),
        frozenset({"application/msword", "application/vnd.ms-powerpoint"}),
    ),
    Format(
        "odf",
        f"{_PARSERS}.office.odf:parse_odf",
        frozenset({".odt", ".ods", ".odp", ".odg", ".ott", ".ots", ".otp", ".fodt", ".fods", ".fodp"}),
        frozenset(
            f"application/vnd.oasis.opendocument.{kind}" for kind in ("text", "spreadsheet", "presentation", "graphics")
        ),
    ),
    Format("epub", f"{_PARSERS}.office.epub:parse_epub", frozenset({".epub"}), frozenset({"application/epub+zip"})),
    Format(
        "rtf", f"{_PARSERS}.rtf:parse_rtf", frozenset({".rtf"}), frozenset({"application/rtf", "text/rtf"}), _is_rtf
    ),
    Format(
        "mail",
        f"{_PARSERS}.mail:parse_eml",
        frozenset({".eml", ".mht", ".mhtml"}),
        frozenset({"message/rfc822", "multipart/related"}),
    ),
    Format(
        "mbox",
        f"{_PARSERS}.mbox:parse_mbox",
        frozenset({".mbox", ".mbx"}),
        frozenset({"application/mbox"}),
        is_mailbox,
    ),
    Format("msg", f"{_PARSERS}.msg:parse_msg", frozenset({".msg"}), frozenset({"application/vnd.ms-outlook"})),
    Format(
        "subtitles",
        f"{_PARSERS}.subtitles:parse_subtitles",
        frozenset({".srt", ".vtt"}),
        frozenset({"text/vtt", "application/x-subrip"}),
        textual=True,
    ),
    Format(
        "xml",
        f"{_PARSERS}.xml:parse_xml_file",
        frozenset({".xml", ".rss", ".atom", ".dbk", ".svg"}),
        frozenset({"application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "image/svg+xml"}),
        textual=True,
    ),
    Format(
        "image",
        f"{_PARSERS}.images:parse_image",
        frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp"}),
        frozenset(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "tiff", "bmp")),
        _is_picture,
    ),
    Format(
        "zip",
        f"{_PARSERS}.archives:parse_zip",
        frozenset({".zip"}),
        frozenset({"application/zip", "application/x-zip-compressed"}),
    ),
)
