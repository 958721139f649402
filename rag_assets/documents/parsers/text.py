"""Plain text and source code."""

from __future__ import annotations

from rag_assets.documents.building import paragraphs, whole_file
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import charset, suffix
from rag_assets.documents.normalize import decode, normalize
from rag_assets.documents.quality import figures

TEXT_SUFFIXES = (".txt", ".log", ".rst", ".text")
CODE_TYPES = {
    ".py": "text/x-python",
    ".js": "text/javascript",
    ".ts": "text/x-typescript",
    ".go": "text/x-go",
    ".java": "text/x-java",
    ".sql": "application/sql",
    ".sh": "text/x-shellscript",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".ini": "text/x-ini",
    ".cfg": "text/x-ini",
    ".rs": "text/x-rust",
    ".c": "text/x-c",
    ".h": "text/x-c",
    ".cpp": "text/x-c++",
    ".rb": "text/x-ruby",
    ".php": "application/x-php",
    ".css": "text/css",
}


def parse_text(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse prose; a block is a paragraph. Raises ParseError for binary content."""
    decoded = decode(data, charset(content_type))
    text = normalize(decoded)
    counts = figures(characters_in=len(decoded))
    return whole_file(Document(text=text, blocks=paragraphs(text), metadata=counts), name)


def parse_code(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse source code; a block is a run of lines without a blank one. Raises ParseError if it is binary."""
    decoded = decode(data, charset(content_type))
    text = normalize(decoded)
    kind = CODE_TYPES.get(suffix(name), "text/plain")
    counts = figures(characters_in=len(decoded))
    # The path is what a reader calls a file of code, and what a model reads in front of its parts.
    document = Document(text, normalize(name), kind, blocks=paragraphs(text, "code"), metadata=counts)
    return whole_file(document, name)
