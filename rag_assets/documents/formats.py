"""The kinds of files that are read without any setting: how each is recognised, and its parser."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from rag_assets.documents.model import Record
from rag_assets.documents.text import CODE_TYPES, TEXT_SUFFIXES

Parser = Callable[[bytes, str, str | None], list[Record]]

_HERE = "rag_assets.documents"
_HTML_OPENINGS = (b"<!doctype html", b"<html", b"<head", b"<body")


@dataclass(frozen=True)
class Format:
    """A kind of file: how it is recognised, and the parser, given as `module:function` to load it late."""

    name: str
    parser: Parser | str
    suffixes: frozenset[str]
    content_types: frozenset[str]
    matches: Callable[[bytes], bool] | None = None

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


BUILTIN_FORMATS: tuple[Format, ...] = (
    Format("text", f"{_HERE}.text:parse_text", frozenset(TEXT_SUFFIXES), frozenset({"text/plain"})),
    Format("code", f"{_HERE}.text:parse_code", frozenset(CODE_TYPES), frozenset(CODE_TYPES.values())),
    Format(
        "markdown",
        f"{_HERE}.markdown:parse_markdown",
        frozenset({".md", ".markdown", ".mdx"}),
        frozenset({"text/markdown", "text/x-markdown"}),
    ),
    Format(
        "html",
        f"{_HERE}.html:parse_html",
        frozenset({".html", ".htm", ".xhtml"}),
        frozenset({"text/html", "application/xhtml+xml"}),
        _looks_like_html,
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
    ),
    Format("json", f"{_HERE}.records:parse_json", frozenset({".json"}), frozenset({"application/json"})),
    Format(
        "csv",
        f"{_HERE}.records:parse_csv",
        frozenset({".csv", ".tsv"}),
        frozenset({"text/csv", "text/tab-separated-values"}),
    ),
)
