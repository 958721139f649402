from __future__ import annotations

import json

import pytest

from rag_assets.documents.checksum import document_checksum
from rag_assets.documents.model import Document
from rag_assets.documents.parsers.html.page import parse_html
from rag_assets.documents.registry import parse

SENTENCES = [f"The reservoir held {n} million litres in spring, and the dam was inspected twice." for n in range(20)]
STORY = "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
ARTICLE = "<meta property='og:type' content='article'>"
VOICES = [f"I have lived below the dam for {n} years and nobody has ever asked us about it, ever." for n in range(90)]
SHORT = "".join(f"<p>{sentence}</p>" for sentence in SENTENCES[:8])


def document_of(page: str) -> Document:
    (record,) = parse_html(f"<!doctype html><html><body>{page}</body></html>".encode(), "a.html", "text/html")
    assert record.document is not None, record.error
    return record.document


def text_of(page: str) -> str:
    return document_of(page).text


THREADS = {
    "named": ("<div id=comments><h3>90 comments</h3>{}</div>", "<div class=comment><b>Ann</b><p>{}</p></div>"),
    "listed": ("<ol class=commentlist>{}</ol>", "<li class='comment even'><cite>Ann</cite><p>{}</p>"),
    "unnamed": (
        "<div class=x1><h3>What do you say?</h3>{}</div>",
        "<div class=x2><div><b>Ann</b></div><p>{}</p></div>",
    ),
}


SHELLS = ["<main><h1>Dams</h1><div class=text>{}</div>{}</main>", "<article><div><h1>Dams</h1>{}</div>{}</article>"]


@pytest.mark.parametrize(("thread", "shell"), [*zip(THREADS, SHELLS[:1] * 3, strict=True), ("named", SHELLS[1])])
def test_a_short_article_is_kept_under_long_comments_and_they_are_not(thread: str, shell: str) -> None:
    around, each = THREADS[thread]
    text = text_of(ARTICLE + shell.format(STORY, around.format("".join(each.format(voice) for voice in VOICES))))
    assert [sentence in text for sentence in SENTENCES] == [True] * 20
    assert "below the dam" not in text


def test_comments_within_the_main_element_are_none_of_a_text_that_the_markup_names() -> None:
    around, each = THREADS["named"]
    thread = around.format("".join(each.format(voice) for voice in VOICES[:30]))
    text = text_of(f"<main><h1>Dams</h1><div class='entry-content wide'>{STORY}</div>{thread}</main>")
    assert SENTENCES[-1] in text
    assert "below the dam" not in text


def test_what_people_write_in_a_forum_is_its_text() -> None:
    around, each = THREADS["named"]
    thread = around.format("".join(each.format(voice) for voice in VOICES))
    text = text_of(f"<main><h1>Is the dam safe?</h1>{SHORT}{thread}</main>")
    assert [voice in text for voice in VOICES] == [True] * 90


SIBLINGS = [
    "<p><a href=/report>The report of the commission</a> says why.</p>",
    "<p>By night.</p>",
    "<h2>What the <a href=#found>commission</a> found</h2>",
    "<p><a href=/a>Oaks</a>, <a href=/b>elms</a> and the <a href=/c>ash</a> were felled too.</p>",
]


@pytest.mark.parametrize("sibling", SIBLINGS)
@pytest.mark.parametrize("place", ["{sibling}{story}", "{story}{sibling}{story}", "{story}{sibling}"])
def test_what_stands_beside_paragraphs_of_an_article_is_of_it(sibling: str, place: str) -> None:
    body = place.format(sibling=sibling, story=STORY)
    assert text_of(f"<p>{sibling}</p>") in text_of(f"{ARTICLE}<div><h1>Dams</h1></div><div class=text>{body}</div>")


BODIES = [
    "<div itemprop=articleBody>{}</div>",
    "<div class='post entry-content'>{}</div>",
    "<section class=e-content>{}</section>",
]
BOXES = ["<div class=promo>{}</div>", "<div class='shared-box widget'>{}</div>", "<div class=related>{}</div>"]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("box", BOXES)
def test_the_body_that_a_page_declares_is_not_lost_for_the_names_in_it(body: str, box: str) -> None:
    boxes = "".join(box.format(f"<p>{sentence}</p>") for sentence in SENTENCES[8:])
    beside = (
        "<div class=teasers>" + "".join(f"<div><h4>{voice}</h4><p>{voice}</p></div>" for voice in VOICES[:9]) + "</div>"
    )
    text = text_of(f"{ARTICLE}<h1>Dams</h1>{body.format(SHORT + boxes)}{beside}")
    assert [sentence in text for sentence in SENTENCES] == [True] * 20


def test_the_article_that_json_ld_holds_is_found_on_the_page() -> None:
    told = json.dumps({"@type": "NewsArticle", "articleBody": " ".join(SENTENCES)}).replace("dam", "d&#97;m")
    boxes = "".join(f"<div class=promo><p>{sentence}</p></div>" for sentence in SENTENCES[8:])
    for data in (told, told[:-1] + ", }"):
        script = f'<script type="application/ld+json">{data}</script>'
        text = text_of(
            f"{script}<h1>Dams</h1><div class=text>{SHORT}{boxes}</div><p>We sell concrete for other dams.</p>"
        )
        assert [sentence in text for sentence in SENTENCES] == [True] * 20


def test_how_much_of_the_running_text_was_kept_is_counted_and_does_not_make_another_document() -> None:
    around, each = THREADS["named"]
    thread = around.format("".join(each.format(voice) for voice in VOICES))
    menu = "<nav>" + "<a href=/x>Section of the page</a> " * 40 + "</nav>"
    boxes = "".join(f"<div class=promo><p>{sentence}</p></div>" for sentence in SENTENCES[8:])
    whole = f"{ARTICLE}{menu}<h1>Dams</h1><div class=text>{STORY}</div>{thread}"
    half = f"{ARTICLE}<h1>Dams</h1><div class=text>{SHORT}{SHORT}</div>{boxes}"
    shares = [document_of(page).metadata["quality"]["share_kept"] for page in (whole, half, "<p>All of it.")]
    assert shares[0] > 0.9
    assert 0 < shares[1] < 0.7
    assert shares[2] == 1.0


def test_a_page_around_the_same_text_is_the_same_document() -> None:
    page = "<html><body><h1>Dams</h1>{}<div class=text>{}</div></body></html>"
    beside = "<div class=offers><h4>Buy our concrete</h4><span>It is good for dams.</span></div>"
    shell = [page.format(ARTICLE, STORY), page.format(ARTICLE + beside, STORY)]
    documents = [parse(one.encode(), "a.html")[0].document for one in shell]
    assert documents[0]
    assert documents[1]
    assert documents[0].metadata["quality"]["share_kept"] != documents[1].metadata["quality"]["share_kept"]
    assert document_checksum(documents[0]) == document_checksum(documents[1])
