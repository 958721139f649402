from __future__ import annotations

import json
import time

import pytest

from rag_assets.documents.model import Record
from rag_assets.documents.registry import parse, register_parser, supported
from rag_assets.errors import ParseError, UnsupportedFormat


def one(data: bytes | str, name: str, content_type: str | None = None) -> Record:
    records = parse(data.encode() if isinstance(data, str) else data, name, content_type)
    assert len(records) == 1
    return records[0]


def text_of(data: bytes | str, name: str, content_type: str | None = None) -> str:
    record = one(data, name, content_type)
    assert record.document is not None, record.error
    return record.document.text


def test_content_wins_over_the_declared_type_and_that_over_the_suffix() -> None:
    assert one("%PDF-1.4 broken", "a.txt").status == "failed"
    assert text_of("<!doctype html><p>Hi", "a.txt") == "Hi"
    assert text_of("<p>Hi</p>", "a.md", "text/html; charset=utf-8") == "Hi"
    assert text_of("# Hi", "a.md", "text/plain") == "# Hi"
    assert one('{"text": "t"}', "a.jsonl", "application/octet-stream").source_type == "record"


def test_a_format_that_nobody_registered_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match=r"\.xyz"):
        parse(b"abc", "a.xyz")


def test_binary_content_with_a_text_name_is_a_failed_record() -> None:
    record = one(bytes(range(256)) * 10, "picture.txt")
    assert record.status == "failed"
    assert "binary" in (record.error or "")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.jsonl", "a.csv", "a.pdf", "a.py", "a.json"])
@pytest.mark.parametrize("data", [b"", b" \n\t ", b"\xef\xbb\xbf\n"])
def test_an_empty_file_holds_no_text(name: str, data: bytes) -> None:
    assert one(data, name).status == "no_text"


def test_an_error_of_a_parser_library_fails_that_file_only() -> None:
    def broken(data: bytes, name: str, content_type: str | None) -> list[Record]:
        raise IndexError("list\0 index\nout of range")

    register_parser("broken", broken, suffixes=[".broken-in-a-test"])
    record = one(b"x", "a.broken-in-a-test")
    assert (record.status, record.error) == (
        "failed",
        "the broken parser failed: it ends too early, or points outside of itself",
    )


def test_a_registered_format_is_used_and_scanned() -> None:
    def refuse(data: bytes, name: str, content_type: str | None) -> list[Record]:
        raise ParseError("page 3 is damaged")

    assert not supported("a.later")
    register_parser("later", refuse, suffixes=[".later"], content_types=["application/x-later"])
    assert supported("dir/A.LATER")
    assert one(b"x", "a", "application/x-later").error == "page 3 is damaged"


def test_code_keeps_its_text_and_has_code_blocks() -> None:
    record = one("import os\r\n\r\n\r\ndef f():\r\n    pass\r\n", "a.py")
    assert record.document is not None
    text = record.document.text
    assert [text[b.start : b.end] for b in record.document.blocks] == ["import os", "def f():\n    pass"]
    assert {block.kind for block in record.document.blocks} == {"code"}


def test_markdown_front_matter_becomes_metadata_and_leaves_the_text() -> None:
    front = "---\ntitle: Guide\nlang: de\nid: 7\nsince: 2024-05-01\n---\n"
    document = one(front + "\n# Eins\n\nText\n\n## Zwei\n\n- a\n- b\n", "a.md").document
    assert document is not None
    assert document.text.startswith("# Eins")
    assert (document.title, document.language) == ("Guide", "de")
    assert (document.metadata["doc_id"], document.metadata["since"]) == ("7", "2024-05-01")
    assert [(b.kind, b.heading_path, document.text[b.start : b.end]) for b in document.blocks] == [
        ("heading", ("Eins",), "# Eins"),
        ("paragraph", ("Eins",), "Text"),
        ("heading", ("Eins", "Zwei"), "## Zwei"),
        ("list", ("Eins", "Zwei"), "- a\n- b"),
    ]


@pytest.mark.parametrize(
    "front", ["---\n- a\n---\n", "---\na: [\n---\n", "---\nx: &x [1]\ny: *x\n---\n", "---\nno end\n"]
)
def test_what_is_no_front_matter_stays_in_the_text(front: str) -> None:
    assert text_of(front + "body", "a.md") == front + "body"


def test_bug_15_a_fence_of_four_backticks_hides_headings_and_shorter_fences() -> None:
    document = one("# Real\n\n````\n```\n# fake\n```\n````\n\n| a |\n|---|\n| 1 |\n", "a.md").document
    assert document is not None
    assert [block.kind for block in document.blocks] == ["heading", "code", "table"]


def test_bug_23_only_visible_text_is_kept_and_blocks_are_not_welded() -> None:
    assert text_of("<nav>Home</nav><main><p>Text</p></main><script>x=1</script>", "a.html") == "Text"
    page = "<style>p{}</style><div>one</div><div>two</div><p hidden>no</p><td>x</td><ul><li>a<li>b</ul>"
    assert text_of(page, "a.html") == "one\n\ntwo\n\nx\n\n- a\n- b"
    assert text_of("<p>a<br>b <b>c</b>d</p>", "a.html") == "a\nb cd"


def test_a_page_tells_its_title_language_and_address() -> None:
    page = '<html lang="de-AT"><title> A\n B </title><link rel=canonical href="/x"><body><p>t'
    document = one(page, "https://example.org/y", "text/html").document
    assert document is not None
    assert (document.title, document.language, document.canonical_url) == (
        "A B",
        "de",
        "https://example.org/x",
    )


def test_a_page_is_read_in_the_charset_that_it_names() -> None:
    page = '<meta charset="iso-8859-2"><p>żółw</p>'
    assert text_of(page.encode("iso-8859-2"), "a.html") == "żółw"


def test_headings_of_a_page_lead_to_their_paragraphs() -> None:
    document = one(
        "<h1>A</h1><p>x</p><h2>B</h2><table><tr><td>1<td>2</table><h1>C</h1><pre>y\n z</pre>", "a.html"
    ).document
    assert document is not None
    assert [(b.kind, b.heading_path, document.text[b.start : b.end]) for b in document.blocks] == [
        ("heading", ("A",), "A"),
        ("paragraph", ("A",), "x"),
        ("heading", ("A", "B"), "B"),
        ("table", ("A", "B"), "1 | 2"),
        ("heading", ("C",), "C"),
        ("code", ("C",), "y\n z"),
    ]


def test_a_long_article_is_kept_and_its_menu_is_not() -> None:
    paragraphs = "".join(f"<p>Sentence {n} about the reservoir and its dam, told at length.</p>" for n in range(40))
    text = text_of(f"<ul><li><a href=/>Home</a><li><a href=/b>Blog</a></ul><article>{paragraphs}</article>", "a.html")
    assert "Sentence 0 " in text
    assert "Sentence 39 " in text
    assert "Blog" not in text


def test_text_nested_deeper_than_libxml2_goes_is_not_lost() -> None:
    assert text_of("<div>" * 400 + "deep", "a.html") == "deep"


def test_beir_records_become_sources_of_their_own() -> None:
    lines = [
        {"_id": 1, "title": "T", "text": "body", "lang": "en", "metadata": {"url": "https://e.org/"}},
        {"id": "b", "text": "x"},
    ]
    first, second = parse("\n".join(map(json.dumps, lines)).encode(), "c.jsonl")
    assert first.document is not None
    assert second.document is not None
    assert (first.key, first.source_type, first.document.text) == ("1", "record", "T\n\nbody")
    assert first.document.metadata == {"doc_id": "1", "lang": "en", "url": "https://e.org/"}
    assert (first.document.language, first.document.canonical_url) == ("en", "https://e.org/")
    assert (second.key, second.document.text, second.document.title) == ("b", "x", "")


def test_bug_27_blank_lines_are_skipped_and_bad_lines_are_named_by_their_number() -> None:
    source = '\ufeff{"id": "a", "text": "x"}\n\n  \r\n{"id": "b", "text"\n[1]\n{"id": "c", "text": "y\u2028z"}\n'
    found = [(r.key, r.status) for r in parse(source.encode(), "c.jsonl")]
    assert found == [("a", "ready"), ("b", "failed"), ("line:5", "failed"), ("c", "ready")], (
        "by its id where it is there"
    )
    assert "line 4" in (parse(source.encode(), "c.jsonl")[1].error or "")


def test_a_second_record_with_the_same_id_fails_and_names_both_lines() -> None:
    source = '{"id": 1, "text": "x"}\n\n{"id": "1", "text": "y"}\n'
    first, second = parse(source.encode(), "c.jsonl")
    assert (first.status, second.status, second.key) == ("ready", "failed", "line:3")
    assert "line 3" in (second.error or "")
    assert "line 1" in (second.error or "")


def test_a_record_with_an_id_and_a_bad_field_fails_under_its_id() -> None:
    record = one('{"id": "a", "text": 5}', "c.jsonl")
    assert (record.key, record.status) == ("a", "failed")
    assert "line 1" in (record.error or "")


def test_records_without_text_are_no_text() -> None:
    record = one('{"id": "a", "title": "", "text": " "}', "c.jsonl")
    assert (record.key, record.status) == ("a", "no_text")


def test_bug_18_nul_and_bug_19_surrogates_in_json_escapes_are_cleaned_everywhere() -> None:
    record = one(r'{"id": "a\u0000", "title": "t\u0000", "text": "x\u0000\ud800", "k\u0000": ["\u0000v"]}', "c.jsonl")
    assert record.document is not None
    assert (record.key, record.document.title, record.document.text) == ("a", "t", "t\n\nx\ufffd")
    quality = {"replacement_characters": 1, "characters_out": 5}
    assert record.document.metadata == {"doc_id": "a", "k": ["v"], "quality": quality}


@pytest.mark.parametrize(("question", "answer"), [("question", "answer"), ("Q", "A"), ("prompt", "response")])
def test_pairs_become_faq_sources(question: str, answer: str) -> None:
    record = one(json.dumps({question: "Open?", answer: "Yes.", "area": "shop"}), "f.jsonl")
    document = record.document
    assert document is not None
    assert (record.source_type, document.title, document.text) == ("faq", "Open?", "Open?\n\nYes.")
    assert [(b.kind, document.text[b.start : b.end]) for b in document.blocks] == [
        ("question", "Open?"),
        ("answer", "Yes."),
    ]
    assert document.metadata == {"doc_id": record.key, "area": "shop"}


def test_a_pair_keeps_its_key_when_its_answer_changes() -> None:
    assert one('{"q": "Open?", "a": "Yes."}', "f.jsonl").key == one('{"q": "Open?", "a": "No."}', "f.jsonl").key


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_pairs_are_read_whatever_the_delimiter(delimiter: str) -> None:
    rows = [["id", "question", "answer"], ["7", "Open?", '"Yes, and\nno; a|b\t."'], ["8", "Far?", "No."]]
    source = "\r\n".join(delimiter.join(row) for row in rows)
    first, second = parse(source.encode("utf-8-sig"), "f.csv")
    assert first.document is not None
    assert (first.key, first.document.text) == ("7", "Open?\n\nYes, and\nno; a|b\t.")
    assert second.key == "8"


def test_rows_of_a_plain_csv_become_column_and_value_lines() -> None:
    ready, twin, short, long = parse(b"name,price,\nBolt,3,\n\nBolt,3,x\nNut\nNail,4,,5\n", "p.csv")
    assert ready.document is not None
    assert twin.document is not None
    assert short.document is not None
    assert ready.document.text == "name: Bolt\nprice: 3"
    assert twin.document.text == "name: Bolt\nprice: 3\ncolumn 3: x"
    assert short.document.text == "name: Nut"
    assert long.document is not None
    assert long.document.text == "name: Nail\nprice: 4\ncolumn 4: 5"


def test_an_identical_row_without_an_id_is_one_source() -> None:
    assert len(parse(b"name,price\nBolt,3\nBolt,3\n", "p.csv")) == 1


def test_an_unclosed_quote_is_reported_with_the_line_where_it_opens() -> None:
    first, second = parse(b'id,name\n1,ok\n2,"never closed\n3,lost\n', "p.csv")
    assert (first.status, second.status, second.key) == ("ready", "failed", "line:3")


def test_json_arrays_are_collections_and_other_json_is_text() -> None:
    assert [r.key for r in parse(b'[{"id": "a", "text": "x"}, 3]', "c.json")] == ["a", "item:2"]
    assert text_of('{"a": 1}', "c.json") == '{"a": 1}'
    assert one('{"a": ', "c.json").status == "failed"


def test_five_thousand_records_take_well_under_a_second() -> None:
    body = "A sentence about nothing much. " * 50
    data = "\n".join(json.dumps({"_id": str(n), "title": "t", "text": body}) for n in range(5000)).encode()
    started = time.process_time()
    assert len(parse(data, "c.jsonl")) == 5000
    assert time.process_time() - started < 1.5
