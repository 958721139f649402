"""The corpus of the benchmarks: what is read of documentation, and what is left out."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

from bench.corpus import Seen, write_questions
from bench.corpus_questions import questions_of
from bench.corpus_texts import Text, texts_of, wanted

_PROSE = "The parser reads each line of the file before it decides which of the rules applies to what follows. "


def test_pages_manuals_nodes_and_texts_are_read_and_listings_are_not() -> None:
    assert wanted("./usr/share/doc/a/html/intro.html")
    assert wanted("./usr/share/man/de/man1/ls.1.gz")
    assert wanted("./usr/share/info/a.info-2.gz")
    assert wanted("./usr/share/doc/a/README.txt")
    assert not wanted("./usr/share/doc/a/html/genindex.html")
    assert not wanted("./usr/share/doc/a/html/_sources/intro.rst.txt")
    assert not wanted("./usr/share/doc/a/html/classA-members.html")
    assert not wanted("./usr/share/info/figure.png")


def test_of_a_page_its_main_part_is_read_in_paragraphs() -> None:
    main = "<main><h1>Rules</h1><p>One\n two.</p><pre>a\n  b</pre><p>Three.</p></main>"
    page = f"<title>A - Docs</title><nav>Home</nav>{main}<footer>End</footer>"
    assert list(texts_of("./usr/share/doc/a/x.html", page.encode())) == [
        Text("doc/a/x.html", "Rules", "One two.\n\na\n b\n\nThree.")
    ]


def test_of_a_manual_page_the_words_are_read() -> None:
    page = b'.TH LS 1\n.SH "NAME"\nls \\- list \\fBfiles\\fR\n.PP\n.B Sorted\nby name.\n'
    [found] = texts_of("./usr/share/man/man1/ls.1.gz", gzip.compress(page))
    assert found == Text("man/man1/ls.1", "ls.1", "NAME\nls - list files\n\nSorted\nby name.")


def test_nodes_of_info_are_documents() -> None:
    nodes = [
        "This is a.info\n",
        "\nFile: a.info,  Node: One\n\n1 First\n*******\n\nText.\n",
        "\nFile: a.info,  Node: B\n\nC",
    ]
    info = "\x1f".join(nodes).encode()
    assert [(one.key, one.title) for one in texts_of("./usr/share/info/a.info", info)] == [
        ("info/a.info#1", "1 First"),
        ("info/a.info#2", ""),
    ]


def test_long_texts_are_cut_between_paragraphs_and_damaged_files_give_none() -> None:
    parts = list(texts_of("./usr/share/doc/a/b.txt", ("x" * 30_000 + "\n\n" + "y" * 30_000).encode()))
    assert [(one.key, one.text[0], len(one.text)) for one in parts] == [
        ("doc/a/b.txt", "x", 30_000),
        ("doc/a/b.txt~1", "y", 30_000),
    ]
    assert list(texts_of("./usr/share/doc/a/b.txt.gz", b"no gzip")) == []


def test_what_stood_in_an_earlier_document_is_left_out() -> None:
    seen = Seen()
    first, second = (f"{number} {_PROSE * 3}" for number in (1, 2))
    assert seen.fresh(Text("a", "", f"{first}\n\nshort")) == f"{first}\n\nshort"
    assert seen.fresh(Text("b", "", first)) is None
    assert seen.fresh(Text("c", "", f"{first}\n\n{second}\n\nshort")) is not None


def test_questions_are_made_of_the_text(tmp_path: Path) -> None:
    paragraph = _PROSE * 6
    record = {"title": "How rules apply", "text": f"Start.\n\n{'Filler text. ' * 20}\n\n{paragraph}\n\nEnd."}
    assert [kind for kind, _ in questions_of(record, True)] == ["short", "claim", "paragraph"]
    assert [kind for kind, _ in questions_of(record, False)] == ["claim", "paragraph"]
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "title": "Only", "text": "Nothing."}\n', encoding="utf-8")
    (tmp_path / "chunks.tsv").write_text("a\t1\n", encoding="utf-8")
    assert sum(write_questions(tmp_path, Counter()).values()) == 0
    assert (tmp_path / "qrels" / "test.tsv").read_text(encoding="utf-8") == "query-id\tcorpus-id\tscore\n"
