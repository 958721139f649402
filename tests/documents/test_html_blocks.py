from __future__ import annotations

import pytest

from rag_assets.documents.model import Document
from rag_assets.documents.parsers.html.page import parse_html


def parsed(page: str) -> Document:
    (record,) = parse_html(page.encode(), "a.html", "text/html; charset=utf-8")
    assert record.document is not None, record.error
    return record.document


def blocks(page: str) -> list[tuple[str, str]]:
    document = parsed(page)
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>a<br>b <b>c</b>d</p>", [("paragraph", "a\nb cd")]),
        ("<a href=/>li<p>nk</p>x</a>more", [("paragraph", "li"), ("paragraph", "nk"), ("paragraph", "xmore")]),
        ("<p>a<!-- c -->b</p>c<?x y?>d", [("paragraph", "ab"), ("paragraph", "cd")]),
        ("<ul><li>a<ul><li>b<li>c</ul>tail<li><p>x<p>y</ul>end",
         [("list", "- a\n  - b\n  - c\n  tail\n- x\n  y"), ("paragraph", "end")]),
        ("<ol start=3><li>a<li value=7>b<ol><li>c</ol><li><li>d<p>e</ol>",
         [("list", "3. a\n7. b\n  1. c\n9. d\n  e")]),
        ("<dl><dt>term<dd>meaning</dl>", [("list", "- term\n- meaning")]),
        ("<table><caption>C<tr><th>1<th>2<tr><td>a<br>b<td>c</table>", [("table", "C\n1 | 2\na b | c")]),
        ("<table><tr><th rowspan=2>R<td colspan=2>x<tr><td>y<td>z<tr><td>p<td>q<td>r</table>",
         [("table", "R | x | x\nR | y | z\np | q | r")]),
        ("<h2>T <a href='#t'>¶</a></h2><p>x", [("heading", "T"), ("paragraph", "x")]),
        ("<h1>a<div>b</div></h1>", [("heading", "a b")]),
    ],
)  # fmt: skip
def test_elements_become_blocks(page: str, expected: list[tuple[str, str]]) -> None:
    assert blocks(page) == expected


def test_code_keeps_its_white_space_inside_a_list_too() -> None:
    code = "<pre><code>def f():\n    <span>return</span> 1</code></pre>"
    assert blocks(f"<ol><li>First{code}then<li>last</ol>") == [
        ("list", "1. First"),
        ("code", "def f():\n    return 1"),
        ("list", "then\n2. last"),
    ]
    assert blocks("<code>a\n b</code>") == [("code", "a\n b")]
    assert blocks("<p>call <code>f()</code> now") == [("paragraph", "call f() now")]


@pytest.mark.parametrize("head", ["<p>Output:</p>", ""])
@pytest.mark.parametrize("blank", ["", "\n", " \n\t\n"])
def test_the_first_line_of_code_keeps_its_indentation(head: str, blank: str) -> None:
    output = "     city      | temp\n---------------+------\n San Francisco |   50"
    document = parsed(f"{head}<pre>{blank}{output}\n\n</pre><p>end")
    code = next(block for block in document.blocks if block.kind == "code")
    assert document.text[code.start : code.end] == output
    assert document.text.endswith(f"{output}\n\nend")


def test_a_table_that_lays_out_the_page_or_numbers_lines_is_not_one_of_data() -> None:
    assert blocks("<table><tr><td><h1>T</h1><td><p>x</table>") == [("heading", "T"), ("paragraph", "x")]
    assert blocks("<table><tr><td>1<td><pre>a\n b</pre></table>")[1] == ("code", "a\n b")
    assert {kind for kind, _ in blocks(f"<table><tr><td>menu<td>{'long text ' * 200}</table>")} == {"paragraph"}


def test_a_heading_that_is_left_open_does_not_swallow_the_page() -> None:
    found = blocks("<h1>Title<div>" + "A sentence of the text. " * 40 + "<ul><li>a</ul>")
    assert [kind for kind, _ in found] == ["paragraph", "paragraph", "list"]
    assert found[0][1] == "Title"


def test_questions_and_answers_of_an_accordion_are_kept() -> None:
    page = """
        <button>Menu</button><select><option>German</select>
        <h3><button aria-expanded=false aria-controls=a1>How do I pay?</button></h3><div id=a1 hidden>By card.</div>
        <details><summary>May I return it?</summary><p>Within 30 days.</details>
        <div id=d hidden role=dialog>We use cookies</div><button aria-controls=d>Cookies</button><p hidden>never</p>
    """
    assert parsed(page).text.split("\n\n") == ["How do I pay?", "By card.", "May I return it?", "Within 30 days."]
