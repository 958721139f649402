from __future__ import annotations

import pytest

from rag_assets.documents.parsers.html.page import parse_html

MENU = "<ul>" + "".join(f"<li><a href=/{n}>Section number {n}</a>" for n in range(20)) + "</ul>"
SENTENCES = [f"The reservoir held {n} million litres in spring, and the dam was inspected twice." for n in range(20)]
STORY = "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
RELATED = "<ul>" + "".join(f"<li><a href=/r{n}>Ten more things about dams, part {n}</a>" for n in range(8)) + "</ul>"
FOOT = "<footer><p>Copyright of nobody, all rights reserved.</p></footer>"
ARTICLE = "<meta property='og:type' content='article'>"
LD = '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "NewsArticle"}</script>'


def text_of(page: str) -> str:
    (record,) = parse_html(f"<!doctype html><html><body>{page}</body></html>".encode(), "a.html", "text/html")
    assert record.document is not None, record.error
    return record.document.text


@pytest.mark.parametrize("declared", [ARTICLE, LD, ""])
def test_the_text_of_a_page_is_kept_without_its_menu_and_footer(declared: str) -> None:
    text = text_of(f"{declared}<div>{MENU}</div><div class=content><h1>Dams</h1>{STORY}</div>{FOOT}")
    assert [sentence in text for sentence in SENTENCES] == [True] * 20
    assert "Section number" not in text
    assert "Copyright" not in text


def test_an_article_keeps_quotes_code_and_tables_and_loses_links_to_others() -> None:
    middle = (
        "<blockquote class=embed><p>Look at <a href=/q>this dam</a></p></blockquote>"
        "<pre>gate = open(\n    level=3)</pre><table><tr><th>Year<th>Level<tr><td>2020<td>17</table>"
    )
    text = text_of(f"{ARTICLE}<main><h1>Dams</h1>{STORY}{middle}{STORY.replace('litres', 'gallons')}{RELATED}</main>")
    for part in ("Look at this dam", "gate = open(\n    level=3)", "Year | Level\n2020 | 17"):
        assert part in text
    assert "Ten more things" not in text


def test_a_page_that_is_no_article_keeps_all_of_its_main_element() -> None:
    links = "".join(f"<li><a href=/m{n}>module_{n}</a>" for n in range(60))
    text = text_of(f"<nav>{MENU}</nav><main><h1>Modules</h1><ul>{links}</ul><p>Short.</p><pre>x = 1</pre></main>{FOOT}")
    assert [f"module_{n}" in text for n in range(60)] == [True] * 60
    assert text.startswith("Modules")
    assert text.endswith("Short.\n\nx = 1")


TERMS = [f"Dam of kind {n}" for n in range(30)]
GLOSS = "All that an encyclopedia holds about it and more"
LISTS = {
    "<dl>{}</dl>": f"<dt><span><acronym>{{0}}</acronym></span><dd><p><a href=/wiki>\n{GLOSS}</a></p>",
    "<dl class=gloss>{}</dl>": f"<dt><span><b>{{0}}</b></span><dd><p><a href=/w>{GLOSS}</a></p><dd><a href=/b>Old</a>",
    "<div><dl>{}</dl></div>": f"<dt><dfn>{{0}}</dfn><dd><div><a href=/wiki>{GLOSS}</a></div>",
    "<ul>{}</ul>": f"<li><div><a href=/wiki>{GLOSS}</a></div><div class=note>on {{0}}</div>",
}


@pytest.mark.parametrize("shell", LISTS)
def test_a_list_is_a_menu_only_where_its_items_are_links_and_little_else(shell: str) -> None:
    listed = shell.format("".join(LISTS[shell].format(term) for term in TERMS))
    page = "<div>{}</div><div class=content><h1>Dams</h1><p>" + SENTENCES[0] + "</p><div>{}</div></div>"
    text = text_of(page.format(MENU, listed))
    assert [term in text for term in TERMS] == [True] * 30
    assert "Section number" not in text


NOTES = [
    "<aside class='footnote brackets' role=note><span>1</span><p>{}</aside>",
    "<aside class='footnote-list'><aside class=footnote><p>{}</aside></aside>",
    "<aside role=doc-footnote>{} See <a href=/source>the source</a>.</aside>",
    "<aside class='md-callout warning'><p>{}</aside>",
    "<aside class='admonition tip'><a href=/more>{}</a></aside>",
    "<aside><h4>A word on gates</h4><p>{}</aside>",
    "<div role=complementary><p>{}</div>",
]


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("main", ["<main>{}</main>", "<div role=main>{}</div>", "<article>{}</article>"])
def test_notes_and_boxes_within_the_text_are_text(main: str, note: str) -> None:
    kept = "Gates of oak were in use until 1911."
    assert kept in text_of(f"<nav>{MENU}</nav>{main.format(f'<h1>Dams</h1>{STORY}{note.format(kept)}')}{FOOT}")


@pytest.mark.parametrize(
    "aside",
    [f"<aside>{MENU}</aside>", "<aside class=newsletter-box><p>Section number one of our letter.</aside>"],
)
def test_what_lies_beside_the_text_is_none_wherever_it_stands(aside: str) -> None:
    for page in (f"<main><h1>Dams</h1>{STORY}{aside}</main>", f"<main><h1>Dams</h1>{STORY}</main>{aside}"):
        assert "Section number" not in text_of(page)
    beside = "<aside class=widgets><p>We sell concrete.</aside>"
    assert "concrete" not in text_of(f"<main><h1>Dams</h1>{STORY}</main>{beside}")


def test_sections_between_the_title_and_the_body_of_a_manual_page_are_kept() -> None:
    head = "<div><h1>dam(1)</h1></div><div><h2>NAME</h2><p>dam - hold water</p></div>"
    text = text_of(f"{head}<div><h2>DESCRIPTION</h2>{STORY}</div>{MENU}")
    assert text.startswith("dam(1)\n\nNAME\n\ndam - hold water\n\nDESCRIPTION")
    assert "Section number" not in text


def test_a_short_page_keeps_everything_that_is_no_navigation() -> None:
    page = f"{ARTICLE}<nav>{MENU}</nav><h1>Opening hours</h1><p>Mon-Fri 9-17.<p><a href=/map>How to find us</a>"
    assert text_of(page) == "Opening hours\n\nMon-Fri 9-17.\n\nHow to find us"


def test_a_page_that_is_wholly_a_form_or_an_aside_is_not_empty() -> None:
    assert text_of("<form><p>Everything is in a form.</p></form>") == "Everything is in a form."


def test_a_declared_article_that_the_extractor_does_not_find_is_read_as_a_page() -> None:
    rows = "".join(f"<tr><td>part {n}<td><a href=/{n}>order no. {n}</a><td>{n} EUR" for n in range(80))
    text = text_of(f"{ARTICLE}<main><h1>Spare parts</h1><table>{rows}</table></main>")
    assert "part 0 | order no. 0 | 0 EUR" in text
    assert "part 79 | order no. 79 | 79 EUR" in text


def test_a_title_that_the_page_repeats_is_kept_once_with_the_text() -> None:
    title = "A dam is inspected twice and found to be in good order"
    page = f"{ARTICLE}<div><p>{title}</p></div><article><h1>{title}</h1>{STORY}</article><div><p>{title}</p></div>"
    assert text_of(page).count(title) <= 1
