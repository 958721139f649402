from __future__ import annotations

import base64
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


RDF = "xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:x='http://x' xmlns:dc='http://purl.org/dc/elements/1.1/'"


def test_rdf_is_what_it_says_of_things() -> None:
    document = xml(
        f"<r:RDF {RDF}><r:Description r:about='a.jpg' x:place='Oslo'><x:name><r:Bag><r:li>John</r:li><r:li/>"
        "<r:li>Jane</r:li></r:Bag></x:name><dc:title><r:Alt><r:li xml:lang='x-default'>Two people</r:li></r:Alt>"
        "</dc:title><x:note>Taken at noon</x:note></r:Description><r:Description x:place='Bergen'/></r:RDF>"
    )
    lines = document.text.split()
    assert " ".join(lines) == "place: Oslo name: John, Jane Two people Taken at noon place: Bergen"


def test_rdf_that_is_a_feed_is_read_as_one() -> None:
    document = xml(
        f"<r:RDF {RDF} xmlns='http://purl.org/rss/1.0/'><channel><title>News</title></channel>"
        "<item><title>First</title><description>short</description></item></r:RDF>"
    )
    assert document.text == "News\n\nFirst\n\nshort"


@pytest.mark.parametrize(
    "name", ["metadata", "image", "binary", "graphic", "imagedata", "style", "script", "code", "info"]
)
def test_the_text_of_an_element_is_text_whatever_its_name(name: str) -> None:
    assert "Plain words" in xml(f"<shop><{name}>Plain words</{name}><p>end</p></shop>").text
    assert "Plain words" in xml(f"<shop><{name} id='1'><label>Plain words</label></{name}><p>end</p></shop>").text
    assert "Plain words" in xml(f"<{name}>Plain words</{name}>").text


def test_bytes_of_pictures_and_where_they_lie_are_no_text() -> None:
    data = base64.encodebytes(bytes(range(256)) * 4).decode()
    document = xml(
        f"<book><p>Seen</p><binary content-type='image/gif'>R0lGODlhAQAB</binary><binary>{data}</binary>"
        f"<picture>{data.replace(chr(10), '')}</picture><graphic fileref='a.png'/><image href='b.png'/></book>"
    )
    assert document.text == "Seen"
    dna = "ACGT" * 50
    assert dna in xml(f"<gene><sequence>{dna}</sequence></gene>").text


@pytest.mark.parametrize("head", ["", "<!DOCTYPE a SYSTEM 'a.dtd'>", "<?xml version='1.0' encoding='iso-8859-1'?>"])
def test_entities_that_nobody_declares_are_those_of_html_or_stay_as_written(head: str) -> None:
    source = f"{head}<a t='&copy;'><p>caf&eacute; &ouml;: ü, a&nbsp;b, &hellip; &foo; &amp;x; &lt;</p></a>"
    encoding = "iso-8859-1" if "iso" in head else "utf-8"
    assert xml(source.encode(encoding)).text == "café ö: ü, a b, … &foo; &x; <"


def test_declared_entities_comments_and_cdata_stay_what_they_are_beside_undeclared_ones() -> None:
    source = "<!DOCTYPE a [<!ENTITY eacute 'own'>]><a><!-- &x; --><p>&eacute; &agrave; <![CDATA[&agrave;]]></p></a>"
    assert xml(source).text == "own à &agrave;"


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<!ENTITY ", "&a", "&a;"])
def test_marks_without_end_take_no_time(piece: str) -> None:
    began = time.process_time()
    parse(f"<a>{piece * 100_000}".encode(), "a.xml")
    assert time.process_time() - began < 10
