"""The version of everything between a file's bytes and a document."""

from __future__ import annotations

# Part of every document checksum: raise it when a parser's output changes for the same bytes.
PARSER_VERSION = "18"
