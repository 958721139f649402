from __future__ import annotations

import time

import pytest

from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse


def xml(data: str | bytes, name: str = "a.xml") -> Document:
    (record,) = parse(data.encode() if isinstance(data, str) else data, name)
    assert record.document is not None, record.error
    return record.document


def test_an_article_has_headings_paragraphs_lists_tables_and_code() -> None:
    document = xml(
        "<book xmlns='http://docbook.org/ns/docbook'><title>Book</title><chapter><title>One</title>"
        "<para>Some <emphasis>marked</emphasis> text.</para><section><title>Deep</title>"
        "<itemizedlist><listitem><para>a</para></listitem><listitem><para>b</para>"
        "<itemizedlist><listitem><para>c</para></listitem></itemizedlist></listitem></itemizedlist>"
        "<informaltable><tgroup><thead><row><entry>H</entry><entry>I</entry></row></thead>"
        "<tbody><row><entry>1</entry><entry>2</entry></row></tbody></tgroup></informaltable>"
        "<programlisting>if x:\n    y()</programlisting></section></chapter></book>"
    )
    assert document.text == (
        "Book\n\nOne\n\nSome marked text.\n\nDeep\n\n- a\n- b\n  - c\n\nH | I\n1 | 2\n\nif x:\n    y()"
    )
    assert document.title == "Book"
    assert document.blocks[-1].heading_path == ("Book", "One", "Deep")
    assert [block.kind for block in document.blocks][-3:] == ["list", "table", "code"]


def test_data_keep_the_names_of_their_fields() -> None:
    document = xml("<shop><item><name>Pen</name><price cur='EUR'>2</price></item><item id='7' colour='red'/></shop>")
    assert document.text == "name: Pen\nprice: 2\n\nitem: id=7, colour=red"


@pytest.mark.parametrize(
    "feed",
    [
        "<rss><channel><title>News</title><item><title>First</title><pubDate>2024</pubDate>"
        "<description>&lt;p&gt;Some &lt;b&gt;bold&lt;/b&gt; text&lt;/p&gt;</description></item></channel></rss>",
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>News</title><entry><title>First</title>"
        "<updated>2024</updated><summary>short</summary>"
        "<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><p>Some <b>bold</b> text</p></div></content>"
        "</entry></feed>",
    ],
)
def test_a_feed_is_a_section_for_each_entry(feed: str) -> None:
    document = xml(feed, "feed.rss")
    assert (document.text, document.title) == ("News\n\nFirst\n\n2024\n\nSome bold text", "News")
    assert document.blocks[-1].heading_path == ("News", "First")


def test_encodings_are_those_of_the_declaration_or_else_of_the_bytes() -> None:
    source = "<?xml version='1.0' encoding='{}'?><p>Größe</p>"
    for encoding in ("iso-8859-1", "utf-16", "utf-8"):
        assert xml(source.format(encoding).encode(encoding)).text == "Größe"
    assert xml(source.format("utf-16").encode("utf-8")).text == "Größe"


def test_external_entities_are_not_loaded_and_internal_ones_are_resolved() -> None:
    attack = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y "fine">]><p>see &y; &x;</p>'
    (record,) = parse(attack.encode(), "a.xml")
    text = record.document.text if record.document else ""
    assert "root:" not in text
    assert record.status == "failed" or "see fine" in text


def test_entities_that_multiply_are_refused_at_once() -> None:
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 11))
    began = time.process_time()
    (record,) = parse(f"<!DOCTYPE a [{entities}]><p>&a10;</p>".encode(), "a.xml")
    assert record.status == "failed"
    assert time.process_time() - began < 5


def test_xml_that_is_not_well_formed_fails_with_its_line() -> None:
    (record,) = parse(b"<a>\n<b>\n</a>", "a.xml")
    assert record.status == "failed"
    assert "line 3" in (record.error or "")


def test_xml_without_text_is_no_text() -> None:
    (record,) = parse(b"<a><b/></a>", "a.xml")
    assert record.status == "no_text"


def test_a_drawing_gives_its_texts() -> None:
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><title>Plan</title><style>a{}</style><text>Door</text></svg>"
    assert xml(svg, "a.svg").text == "Plan\n\nDoor"
