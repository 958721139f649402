"""Which language a piece of source code is in, and its grammar."""

from __future__ import annotations

import importlib
import re
from functools import lru_cache

from tree_sitter import Language, Parser, Tree

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
# What a record's text must hold to be taken for code, where nothing names its type.
_SIGNS = (
    (
        "text/x-python",
        re.compile(r"^[ \t]*(?:async +)?def +\w+ *\(|^class +\w+[^\n]*:[ \t]*$", re.MULTILINE),
    ),
    ("text/x-go", re.compile(r"^package +\w+[ \t]*$|^func +[\w(][^\n]*\{", re.MULTILINE)),
    ("text/x-rust", re.compile(r"^[ \t]*(?:pub +)?(?:fn|impl|struct|enum|trait)\b[^\n]*[{;]", re.MULTILINE)),
    ("application/x-php", re.compile(r"\A\s*<\?php")),
    ("text/x-java", re.compile(r"^[ \t]*(?:public|private|protected) +[\w<>\[\] ]+[({]", re.MULTILINE)),
    (
        "text/javascript",
        re.compile(r"^[ \t]*(?:export +|async +)*function\b|^(?:const|let|var) +\w+ *=", re.MULTILINE),
    ),
)
# What the line with such a sign begins with; no line of most texts does, which is seen at once.
_BEGINNING = (
    r"[ \t]*(?:async|class|const|def|enum|export|fn|func|impl|let|package|private|protected|pub|struct|trait|var)"
)
_FIRST_LINE = re.compile(rf"{_BEGINNING}|\s*<\?php")
_OTHER_LINE = re.compile(rf"\n{_BEGINNING}")
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


def code_tree(document: Document) -> tuple[str, Tree] | None:
    """Return the content type of the code that a document is, and its syntax tree; None for a document of another kind.

    Text of no particular type is taken for code where it looks like it and parses without an error.
    """
    kind, text = document.content_type, document.text
    if kind in _GRAMMARS:
        return kind, _parsed(kind, text)
    if kind != "text/plain":
        return None
    sample = text[:_SAMPLE]
    if not _FIRST_LINE.match(sample) and not _OTHER_LINE.search(sample):
        return None
    if (prose := _PROSE.search(sample)) and not any(mark in sample[: prose.start()] for mark in _HOLDS_TEXT):
        return None
    for kind, signs in _SIGNS:
        if signs.search(sample):
            tree = _parsed(kind, sample)
            if not tree.root_node.has_error:
                return kind, tree if len(sample) == len(text) else _parsed(kind, text)
    return None


def _parsed(content_type: str, text: str) -> Tree:
    return _parser_for(content_type).parse(text.encode())


@lru_cache(maxsize=len(_GRAMMARS))
def _parser_for(content_type: str) -> Parser:
    module, function = _GRAMMARS[content_type]
    return Parser(Language(getattr(importlib.import_module(module), function)()))
