from __future__ import annotations

import pytest
from lxml import html  # type: ignore[import-untyped]

from rag_assets.documents.model import Document
from rag_assets.documents.parsers.html.blocks import page_blocks
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


HEADINGS = {
    "<h3><a href=/x>Elsewhere</a></h3>": 1.0,
    "<a href=/x><h3>Elsewhere</h3></a>": 1.0,
    "<a href=/x><div><h3>Elsewhere</h3></div></a>": 1.0,
    "<h3><a href='#here'>Here</a></h3>": 0.0,
    "<h3>Here</h3><a href=/x>elsewhere</a>": 0.0,
}


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_is_a_link_where_it_leads_elsewhere(heading: str) -> None:
    assert page_blocks(html.document_fromstring(heading))[0].link_share == HEADINGS[heading]


FORMULAS = {
    "<math><msup><mi>x</mi><mn>2</mn></msup><mo>=</mo><mi>y</mi></math>": "x2=y",
    "<math alttext='{\\displaystyle x^{2}}'><mi>x</mi></math>": "x^{2}",
    "<span style='display: none'><math alttext='x^2'><mi>x</mi></math></span><img aria-hidden=true alt=x>": "x^2",
    "<span class=katex><span><math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation>"
    "</semantics></math></span><span aria-hidden=true>x2</span></span>": "x^2",
    "<math><semantics><mi>x</mi><annotation encoding='text/plain'>other</annotation></semantics></math>": "x",
    "<img class='math inline' src=f.png alt='x^2'>": "x^2",
    "<script type='math/tex; mode=display'>\\frac{x}{2}</script>": "\\frac{x}{2}",
    "<img class=photo src=f.png alt='a dam'>": "",
    "<span hidden>never <math alttext='x^2'><mi>x</mi></math></span>": "",
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_text_of_its_sentence(formula: str) -> None:
    expected = " ".join(f"where {FORMULAS[formula]} holds".split())
    assert blocks(f"<p>where {formula} holds</p>") == [("paragraph", expected)]


@pytest.mark.parametrize("empty", ["<embed src=a>", "<source src=a>", "<track src=a>", "<wbr>", "<param name=a>"])
def test_what_follows_an_element_without_content_is_not_lost(empty: str) -> None:
    assert blocks(f"<div>{empty}<p>kept</p>{empty}and kept</div>") == [("paragraph", "kept"), ("paragraph", "and kept")]


@pytest.mark.parametrize("style", ["visibility:hidden", "color: red; visibility: hidden;", "display:none"])
def test_what_is_hidden_by_its_style_is_no_text(style: str) -> None:
    assert blocks(f"<p>seen</p><div style='{style}'><p>never</p></div>") == [("paragraph", "seen")]


def test_a_page_that_hides_itself_until_a_script_has_run_is_read() -> None:
    assert blocks("<div id=app style='visibility: hidden'><h1>T</h1><p>x</div>") == [
        ("heading", "T"),
        ("paragraph", "x"),
    ]


def test_code_that_is_broken_over_lines_within_a_sentence_stays_in_it() -> None:
    code = "<a href=/t><code><span>test</span>\n<span>--reverse</span></code></a>"
    assert blocks(f"<p>Use the {code} option.</p>") == [("paragraph", "Use the test --reverse option.")]
