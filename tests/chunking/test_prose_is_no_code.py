"""Text of no particular type is parsed as code only where it could be some: prose with words of code in it is not."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking import grammars
from rag_assets.chunking.grammars import code_tree
from rag_assets.documents.model import Document

PROSE = "\nThe pump has to be shut before anybody opens it.\n"


def language(text: str) -> str | None:
    found = code_tree(Document(text))
    return found[0] if found else None


@pytest.mark.parametrize(
    "text",
    [
        f"Pumps\n{PROSE}\nclass Pump is this one:\n",
        f"{PROSE}\nfunction shut() {{ return 1 }}\nconst a = `b`",
        f"{PROSE}\nstruct pump {{ /* private */ int x; }};\n",
        "Die Pumpe ist vor dem Öffnen zu schließen.\nclass Pumpe:\n",
    ],
)
def test_prose_is_not_parsed(text: str) -> None:
    with patch.object(grammars, "_parser_for", side_effect=AssertionError("parsed")):
        assert language(text) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f'def shut(pump):\n    """Shut it.\n{PROSE}    """\n    return pump\n', "text/x-python"),
        ("def shut(a, b):\n    return a if a is not b and b in a else b or a\n", "text/x-python"),
        ("class Pump:\n    # The pump has to be shut before\n    is_open = True\n", "text/x-python"),
        ("package pumps\n\nfunc Shut() string {\n\treturn `" + PROSE + "`\n}\n", "text/x-go"),
        ("/*" + PROSE + "*/\npub fn shut(open: bool) -> bool { !open }\n", "text/x-rust"),
        ("class Pump {\n  public static final synchronized native void shut();\n}\n", "text/x-java"),
        ("<?php\necho 1; ?>" + PROSE, "application/x-php"),
        ("for (const one of all) one.shut()\nfunction shut() { return 1 }\n", "text/javascript"),
    ],
)
def test_code_with_prose_in_it_is_code(text: str, kind: str) -> None:
    assert language(text) == kind


SOME = [
    "async",
    "class A",
    "const a =",
    "def f(",
    "enum",
    "export",
    "fn",
    "func f() {",
    "function",
    "impl",
    "let",
    "{;",
]
OTHERS = [
    "package a",
    "private",
    "protected f(",
    "pub",
    "public a{",
    "struct",
    "trait",
    "var",
    "<?php",
    ":",
    "A",
    "{",
    "(",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*SOME, *OTHERS, "\n", "\t", " ", "\u00a0", "\f"]), max_size=8).map("".join))
def test_what_has_a_sign_of_code_has_a_line_that_begins_so(text: str) -> None:
    begins = grammars._FIRST_LINE.match(text) or grammars._OTHER_LINE.search(text)
    assert begins or not any(signs.search(text) for _, signs in grammars._SIGNS)
