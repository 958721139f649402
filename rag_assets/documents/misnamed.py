"""Text under the name of an office file: programs that export tables and pages often call them .xls or .doc."""

from __future__ import annotations

import codecs
import re

from rag_assets.documents.names import suffix

_OFFICE = frozenset({"docx", "pptx", "xlsx", "xlsb", "xls", "legacy-office"})
_TABLES = frozenset({"xlsx", "xlsb", "xls"})
_TEXTS = frozenset({".doc", ".dot"})  # as programs of old called their instructions
_BINARY = bytes(byte for byte in range(0x20) if byte not in b"\t\n\v\f\r\x1a")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ELEMENT = re.compile(rb"<[!A-Za-z]")
_MAIL = re.compile(rb"(?:[!-9;-~]++:[^\n]*+\n(?:[ \t][^\n]*+\n)*+){0,20}?(?:mime-version|content-type):", re.IGNORECASE)
_DELIMITED = re.compile(rb"[^\n]*?[\t,;]")


def textual_kind(chosen: str, head: bytes, name: str) -> str | None:
    """Return the format of text whose name says that it is of the format `chosen`, or None where it may well be.

    `head` is what the file begins with, without white space and UTF-8 mark.
    """
    if chosen not in _OFFICE or not head:
        return None
    is_wide = head.startswith(_UTF16)
    plain = head[2:].replace(b"\0", b"") if is_wide else head
    if plain.translate(None, _BINARY) != plain:
        return None
    if plain.startswith(b"<?xml"):
        return "xml"
    if _ELEMENT.match(plain):
        return "html"
    if _MAIL.match(plain):
        return "mail"
    if chosen in _TABLES:
        return "csv" if _DELIMITED.match(plain) else None
    return "text" if suffix(name) in _TEXTS else None
