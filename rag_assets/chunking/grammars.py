"""Which language a piece of source code is in, and its grammar."""

from __future__ import annotations

import importlib
import re
from functools import lru_cache

from tree_sitter import Language, Parser

from rag_assets.documents.model import Document

# content type: module and function of the grammar
_GRAMMARS = {
    "text/x-python": ("tree_sitter_python", "language"),
    "text/javascript": ("tree_sitter_javascript", "language"),
    "text/x-typescript": ("tree_sitter_typescript", "language_typescript"),
    "text/x-go": ("tree_sitter_go", "language"),
    "text/x-java": ("tree_sitter_java", "language"),
    "text/x-rust": ("tree_sitter_rust", "language"),
    "text/x-c": ("tree_sitter_c", "language"),
    "text/x-c++": ("tree_sitter_cpp", "language"),
    "text/x-ruby": ("tree_sitter_ruby", "language"),
    "application/x-php": ("tree_sitter_php", "language_php"),
    "text/x-shellscript": ("tree_sitter_bash", "language"),
}
# What a record's text must hold to be taken for code, where nothing names its type: one of the words at least, which
# most texts have none of, and what they stand in.
_SIGNS = (
    (
        "text/x-python",
        ("def ", "class "),
        re.compile(r"^[ \t]*(?:async +)?def +\w+ *\(|^class +\w+[^\n]*:[ \t]*$", re.MULTILINE),
    ),
    ("text/x-go", ("package ", "func "), re.compile(r"^package +\w+[ \t]*$|^func +[\w(][^\n]*\{", re.MULTILINE)),
    (
        "text/x-rust",
        ("fn", "impl", "struct", "enum", "trait"),
        re.compile(r"^[ \t]*(?:pub +)?(?:fn|impl|struct|enum|trait)\b[^\n]*[{;]", re.MULTILINE),
    ),
    ("application/x-php", ("<?php",), re.compile(r"\A\s*<\?php")),
    (
        "text/x-java",
        ("public ", "private ", "protected "),
        re.compile(r"^[ \t]*(?:public|private|protected) +[\w<>\[\] ]+[({]", re.MULTILINE),
    ),
    (
        "text/javascript",
        ("function", "const ", "let ", "var "),
        re.compile(r"^[ \t]*(?:export +|async +)*function\b|^(?:const|let|var) +\w+ *=", re.MULTILINE),
    ),
)
# Five words in a row are an error in all of these languages, unless one is a word of theirs, or something is open that
# may hold any text. A parser takes up to a tenth of a second to find as much, since it tries to recover.
_OWN_WORDS = (
    "and|as|assert|async|await|case|chan|class|const|def|del|elif|else|enum|except|export|extends|final|finally|fn|for|"
    "from|func|function|global|go|if|impl|implements|import|in|interface|is|lambda|let|match|mod|mut|native|new|nonlocal|"
    "not|of|or|package|private|protected|pub|public|raise|ref|return|static|struct|synchronized|throws|trait|try|type|"
    "unsafe|use|var|where|while|with|yield"
)
_PROSE = re.compile(rf"^[ \t]*(?:(?!(?:{_OWN_WORDS})\b)[^\W\d_]+ ){{4}}(?!(?:{_OWN_WORDS})\b)[^\W\d_]+", re.MULTILINE)
_HOLDS_TEXT = ('"""', "'''", "/*", "`", "<<", "?>")
_SAMPLE = 20_000  # characters


def language_of(document: Document) -> str | None:
    """Return the content type of the code that a document is, or None for a document of another kind.

    Text of no particular type is taken for code where it looks like it and parses without an error.
    """
    if document.content_type in _GRAMMARS:
        return document.content_type
    if document.content_type != "text/plain":
        return None
    sample = document.text[:_SAMPLE]
    if (prose := _PROSE.search(sample)) and not any(mark in sample[: prose.start()] for mark in _HOLDS_TEXT):
        return None
    for kind, words, signs in _SIGNS:
        if (
            any(word in sample for word in words)
            and signs.search(sample)
            and not parser_for(kind).parse(sample.encode()).root_node.has_error
        ):
            return kind
    return None


@lru_cache(maxsize=len(_GRAMMARS))
def parser_for(content_type: str) -> Parser:
    """Return the parser of a language that `language_of` names."""
    module, function = _GRAMMARS[content_type]
    return Parser(Language(getattr(importlib.import_module(module), function)()))
