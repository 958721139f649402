"""What each chunker is for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rag_assets.chunking import ChunkingSpec, chunk_document
from rag_assets.chunking.tokenizers import TiktokenCounter, load_counter
from rag_assets.documents.building import paragraphs
from rag_assets.documents.model import Block, Chunk, Document, embedding_text
from rag_assets.documents.parsers.markdown_blocks import markdown_blocks
from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import InvalidProfile, TokenizerUnavailable

TABLE = "| name | price |\n|---|---|\n" + "".join(f"| item {n} | {n * 3} |\n" for n in range(30))
FENCE = "```\n" + "".join(f"line {n}\n" for n in range(20)) + "```"


def cut(document: Document, strategy: str, size: int, overlap: int = 0, **fields: Any) -> list[Chunk]:
    spec = ChunkingSpec.model_validate({"strategy": strategy, "size": size, "overlap": overlap, **fields})
    return chunk_document(document, spec)


def contents(document: Document, strategy: str, size: int, overlap: int = 0, **fields: Any) -> list[str]:
    return [chunk.content for chunk in cut(document, strategy, size, overlap, **fields)]


def markdown(text: str, title: str = "") -> Document:
    return Document(text, title=title, content_type="text/markdown", blocks=tuple(markdown_blocks(text)))


def code(text: str, kind: str = "text/x-python", **fields: Any) -> Document:
    return Document(text, content_type=kind, blocks=paragraphs(text, "code"), **fields)


# The settings


def test_settings_that_are_left_alone_are_not_stored_so_that_older_profiles_stay_what_they_are() -> None:
    assert ChunkingSpec(size=1200, overlap=150).model_dump() == {"strategy": "recursive", "size": 1200, "overlap": 150}
    stored = {"strategy": "recursive", "size": 1200, "overlap": 150}
    assert ChunkingSpec.model_validate(stored) == ChunkingSpec(size=1200, overlap=150)
    first = {"name": "s", "provider": "wordllama", "model": "l2_supercat_256", "dimensions": 256, "terms": 1}
    older = make_profile(**first, chunking=stored, index={"storage": "vector"})
    assert older.spec_hash.startswith("0731d6605867")


@pytest.mark.parametrize(
    "change",
    [{"strategy": "markdown"}, {"context_header": True}, {"strategy": "token"}, {"strategy": "hybrid", "size": 301}],
)
def test_each_setting_that_moves_a_boundary_or_a_vector_makes_another_profile(change: dict[str, Any]) -> None:
    base = {"name": "p", "provider": "hash", "model": "hash", "dimensions": 64}
    plain = {"strategy": "recursive", "size": 300, "overlap": 30}
    changed = make_profile(**base, chunking={**plain, **change})
    assert changed.spec_hash != make_profile(**base, chunking=plain).spec_hash
    assert type(changed).model_validate(json.loads(changed.model_dump_json())) == changed


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"strategy": "token", "size": 256, "overlap": 256}, "overlap 256 must be at least 0 and less than"),
        ({"strategy": "token", "size": 8193, "overlap": 0}, "not between 20 and 8,192 tokens"),
        ({"strategy": "sentence", "size": 256, "overlap": 0, "tokenizer": "wordllama"}, "only token and hybrid"),
        ({"strategy": "token", "size": 256, "overlap": 0, "tokenizer": "tiktoken:"}, "has no name"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_runs(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidProfile, match=reason):
        ChunkingSpec.model_validate(fields)


@pytest.mark.parametrize("missing", ["size", "overlap"])
def test_size_and_overlap_have_to_be_given(missing: str) -> None:
    with pytest.raises(InvalidProfile, match=missing):
        ChunkingSpec.model_validate({"strategy": "sentence", "size": 100, "overlap": 10} | {missing: None})


# Tokens


def test_tokens_are_those_of_the_model_itself() -> None:
    text = "Tokenisation of uncommon words takes more tokens than words. " * 40
    counter = load_counter("wordllama")
    chunks = cut(Document(text), "token", 64, 16)
    counts = [counter.count(chunk.content) for chunk in chunks]
    assert max(counts) <= 64
    assert min(counts[:-1]) > 48
    assert all(before.end > after.start for before, after in pairwise(chunks))


def test_a_model_s_folder_names_its_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (tmp_path / "0_Transformer").mkdir()
    tokenizer.save(str(tmp_path / "0_Transformer" / "tokenizer.json"))
    words = ["a"] * 55
    found = contents(Document(" ".join(words)), "token", 20, tokenizer=str(tmp_path))
    assert [len(content.split()) for content in found] == [20, 20, 15]


def test_one_token_can_be_a_page_long_but_no_chunk_is_endless(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    path = tmp_path / "tokenizer.json"
    Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")).save(str(path))
    found = contents(Document("x" * 100_000), "token", 20, tokenizer=str(path))
    assert max(map(len, found)) <= 40_000
    assert "".join(found) == "x" * 100_000


def test_a_tiktoken_encoding_finds_its_tokens_within_characters_of_several_bytes() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    bytes_only = tiktoken.Encoding(
        "bytes", pat_str=r"\s+|\S+", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
    )
    counter = TiktokenCounter(bytes_only)
    assert counter.count("aé日") == 6
    assert list(counter.starts("aé日")) == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("name", ["/no/such/folder", "tiktoken:no-such-encoding"])
def test_a_tokenizer_that_is_not_here_is_named(name: str) -> None:
    pytest.importorskip("tiktoken")
    with pytest.raises(TokenizerUnavailable, match=name.rpartition(":")[2]):
        cut(Document("text"), "token", 20, tokenizer=name)


# Text


def test_characters_are_cut_wherever_the_size_is_reached() -> None:
    assert contents(Document("abcdefghij" * 5), "character", 20, 5)[:2] == [
        "abcdefghijabcdefghij",
        "fghijabcdefghijabcde",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith met J. K. Row at 5 p.m. today. Why?", ["Dr. Smith met J. K. Row at 5 p.m. today.", "Why?"]),
        ("It cost 3.50! He said “No.” See no. 4 of it.", ["It cost 3.50!", "He said “No.”", "See no. 4 of it."]),
        ("1. First item here.\n2. Second item here.", ["1. First item here.", "2. Second item here."]),
        ("Das ist z.B. so. Und vgl. Abb. drei.", ["Das ist z.B. so.", "Und vgl. Abb. drei."]),
        ("日本語の文です。次の文！「はい。」と言った。", ["日本語の文です。", "次の文！", "「はい。」", "と言った。"]),
        ("यह पहला वाक्य है। यह दूसरा है।", ["यह पहला वाक्य है।", "यह दूसरा है।"]),
        ("A heading\n\nAnd a paragraph", ["A heading", "And a paragraph"]),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_says(text: str, sentences: list[str]) -> None:
    from rag_assets.chunking.outline import Outline
    from rag_assets.chunking.sentences import sentence_starts

    edges = [0, *sentence_starts(text, Outline(())), len(text)]
    assert [text[start:end].strip() for start, end in pairwise(edges)] == sentences


def test_a_window_holds_whole_sentences_and_repeats_whole_ones() -> None:
    text = "The first one is here. The second is short. A third one follows it. The fourth ends."
    assert contents(Document(text), "sentence", 50, 25) == [
        "The first one is here. The second is short.",
        "The second is short. A third one follows it.",
        "A third one follows it. The fourth ends.",
    ]


def test_paragraphs_are_kept_whole_where_they_fit() -> None:
    text = "\n\n".join(["one " * 10, "two " * 12, "three " * 9])
    document = Document(text, blocks=paragraphs(text))
    assert [content.split()[0] for content in contents(document, "paragraph", 60)] == ["one", "two", "three"]
    assert [content.split()[0] for content in contents(Document(text), "paragraph", 95)] == ["one", "three"]


# Structure


@pytest.mark.parametrize("strategy", ["paragraph", "markdown", "hybrid", "sentence"])
@pytest.mark.parametrize("block", [TABLE[:230].strip(), FENCE], ids=["table", "fence"])
def test_a_table_or_fence_that_fits_is_in_one_chunk(strategy: str, block: str) -> None:
    text = f"# One\n\n{'Some words before it. ' * 9}\n\n{block}\n\n{'Some words after it. ' * 9}"
    found = contents(markdown(text), strategy, len(block) + 30, 20)
    assert any(block in content for content in found)


@pytest.mark.parametrize("strategy", ["paragraph", "markdown", "hybrid"])
def test_code_that_begins_with_an_indented_line_is_in_one_chunk_too(strategy: str) -> None:
    lines = "a = 1\n    b = 22222\n    c = 33333\n" + "    d = some(call, of, things)\n" * 4
    text = f"{'A sentence that says nothing. ' * 9}\n\n    {lines}\nThe end of it."
    assert any(lines.strip() in content for content in contents(markdown(text), strategy, 200, 60))


@pytest.mark.parametrize("strategy", ["paragraph", "markdown", "hybrid", "faq", "code", "sentence"])
def test_a_table_that_does_not_fit_is_cut_between_rows_and_its_header_goes_along(strategy: str) -> None:
    chunks = cut(markdown(f"# Prices\n\n{TABLE}"), strategy, 120)
    assert len(chunks) > 4
    for chunk in chunks[1:]:
        assert all(line.startswith("| item") and line.endswith("|") for line in chunk.content.splitlines())
        assert chunk.context == "| name | price |"
    assert chunks[0].context == ""


def test_small_sections_share_a_chunk_with_their_siblings_only() -> None:
    text = "# A\n\nintro\n\n## A1\n\none\n\n## A2\n\ntwo\n\n# B\n\nother\n\n## B1\n\n" + "long words. " * 8
    assert contents(markdown(text), "markdown", 60) == [
        "# A\n\nintro\n\n## A1\n\none\n\n## A2\n\ntwo",
        "# B\n\nother",
        "## B1\n\n" + ("long words. " * 4).strip(),
        ("long words. " * 4).strip(),
    ]
    assert contents(markdown(text), "markdown", 45)[:2] == [
        "# A\n\nintro\n\n## A1\n\none\n\n## A2\n\ntwo",
        "# B\n\nother",
    ]
    assert contents(markdown(text), "markdown", 30)[:2] == ["# A\n\nintro\n\n## A1\n\none", "## A2\n\ntwo"]


def test_hybrid_does_not_leave_a_piece_that_is_too_small_to_be_found() -> None:
    text = "# A\n\nhi\n\n# B\n\n" + "words of B. " * 12 + "\n\n# C\n\n" + "words of C. " * 6
    alone, joined = contents(markdown(text), "markdown", 100), contents(markdown(text), "hybrid", 100)
    assert alone[0] == "# A\n\nhi"
    assert joined[0].startswith("# A\n\nhi\n\n# B\n\nwords")
    assert len(joined) < len(alone)


def test_hybrid_measures_in_tokens_where_a_tokenizer_is_given() -> None:
    text = "\n\n".join(f"# Section {n}\n\n{'some words of it. ' * 15}" for n in range(3))
    chunks = cut(markdown(text), "hybrid", 100, 10, tokenizer="wordllama")
    counter = load_counter("wordllama")
    assert all(counter.count(chunk.content) <= 100 for chunk in chunks)
    assert [chunk.content for chunk in chunks if chunk.content.startswith("# Section")] == [
        f"# Section {n}\n\n{'some words of it. ' * 15}".strip() for n in range(3)
    ]


def test_a_pair_is_one_chunk_where_it_fits_and_its_question_goes_along_where_not() -> None:
    question, answer = "Is it open on Sundays?", "Yes, from ten to six. " * 10
    text = f"{question}\n\n{answer.strip()}"
    blocks = (Block("question", 0, len(question)), Block("answer", len(question) + 2, len(text)))
    pair = Document(text, title=question, blocks=blocks)
    assert contents(pair, "faq", 300) == [text]
    chunks = cut(pair, "faq", 100)
    assert [chunk.context for chunk in chunks] == ["", *[question] * (len(chunks) - 1)]
    assert len(chunks) > 2


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("# Help\n\n## Can I pay?\n\nYes.\n\n## How much?\n\nA lot.", "# Help\n\n## Can I pay?\n\nYes."),
        ("Q: Can I pay?\nA: Yes.\n\nQ: How much?\nA: A lot.", "Q: Can I pay?\nA: Yes."),
    ],
)
def test_pairs_are_found_in_headings_that_ask_and_in_lines_that_say_so(text: str, first: str) -> None:
    found = contents(markdown(text), "faq", 400)
    assert found[0] == first
    assert len(found) == 2


# Code

SHAPES = '''import math

# How round it is.
LIMIT = 3


class Circle:
    """A round shape.

    It has no corners.
    """

    def area(self):
        return math.pi * self.r ** 2

    def grow(self, by):
        """Make it larger."""
        self.r += by


def unit():
    """The circle of radius one."""
    return Circle(1)
'''


def test_functions_and_classes_are_whole_where_they_fit() -> None:
    found = contents(code(SHAPES), "code", 240)
    assert found[0].endswith("LIMIT = 3")
    assert found[1].startswith("class Circle")
    assert found[1].endswith("self.r += by")
    assert found[2].startswith("def unit")


def test_a_class_that_does_not_fit_is_divided_into_its_methods() -> None:
    found = contents(code(SHAPES), "code", 120)
    assert any(content.startswith("def area") and content.endswith("self.r ** 2") for content in found)
    assert any(content.startswith("def grow") and content.endswith("self.r += by") for content in found)


def test_a_comment_stays_with_what_it_is_about() -> None:
    text = "a = 1\n\n" + "# About f, which is\n# rather long.\ndef f():\n    return 2\n" + "b = 3\n" * 9
    assert any("# About f" in content and "return 2" in content for content in contents(code(text), "code", 70))


def test_the_context_of_code_is_its_symbol_kind_and_documentation() -> None:
    document = code(SHAPES, metadata={"path": "shapes/circle.py"})
    contexts = [chunk.context for chunk in cut(document, "code", 240, context_header=True)]
    assert contexts == [
        "shapes/circle.py",
        "shapes/circle.py • Circle • class • A round shape. • It has no corners.",
        "shapes/circle.py • unit • function • The circle of radius one.",
    ]
    parts = [chunk.context for chunk in cut(document, "code", 120, context_header=True)]
    assert "shapes/circle.py • Circle.grow • method • Make it larger." in parts


@pytest.mark.parametrize(
    ("kind", "text", "symbol"),
    [
        (
            "text/javascript",
            "/** Adds. */\nexport function add(a, b) {\n  return a + b;\n}\n",
            "add • function • Adds.",
        ),
        ("text/x-typescript", "export class Box<T> {\n  get(): T { return this.t; }\n}\n", "Box • class"),
        ("text/x-go", "package a\n\n// Run runs.\nfunc Run() int {\n\treturn 1\n}\n", "Run • function • Run runs."),
        ("text/x-java", "public class A {\n  void m() {}\n}\n", "A • class"),
        ("text/x-rust", "/// Adds.\npub fn add() -> u8 {\n    1\n}\n", "add • function • Adds."),
        ("text/x-c", "/* Adds. */\nstatic int *add(int a) {\n  return 0;\n}\n", "add • function • Adds."),
        ("text/x-c++", "namespace n {\nclass A { void m(); };\n}\n", "n • namespace"),
        ("text/x-ruby", "# A box.\nclass Box\n  def get\n    1\n  end\nend\n", "Box • class • A box."),
        ("application/x-php", "<?php\n// Adds.\nfunction add() {\n  return 1;\n}\n", "add • function • Adds."),
        ("text/x-shellscript", "# Runs.\nrun() {\n  echo 1\n}\n", "run • function • Runs."),
    ],
)
def test_each_language_has_its_own_syntax_tree(kind: str, text: str, symbol: str) -> None:
    (chunk,) = cut(code(text, kind), "code", 400, context_header=True)
    assert chunk.context == symbol


def test_text_that_is_plainly_code_is_taken_for_code() -> None:
    (chunk,) = cut(Document("def f(x):\n    return x + 1\n"), "code", 200, context_header=True)
    assert chunk.context == "f • function"
    (chunk,) = cut(Document("He asked: def or class? Both."), "code", 200, context_header=True)
    assert chunk.context == ""


def test_code_nested_ten_thousand_deep_ends_no_process() -> None:
    text = "x = " + "[" * 10_000 + "]" * 10_000
    assert "".join(contents(code(text), "code", 500)).replace(" ", "") == text.replace(" ", "")


# Context


def test_a_model_reads_title_and_headings_where_they_are_asked_for() -> None:
    document = markdown("# Guide\n\n## Setup\n\n" + "Install it first. " * 20, title="Manual")
    chunks = cut(document, "recursive", 200, 20, context_header=True)
    assert {chunk.context for chunk in chunks[1:]} == {"Manual › Guide › Setup"}
    assert embedding_text(chunks[1].context, chunks[1].content).startswith("Manual › Guide › Setup\n\nInstall it")
    assert {chunk.context for chunk in cut(document, "recursive", 200, 20)} == {""}


def test_a_context_is_short_and_of_two_lines_whatever_the_title_holds() -> None:
    heading = "very long heading " * 20
    text = f"# {heading}\n\n## {heading}\n\n| {'column | ' * 60}\n|{'---|' * 60}\n" + f"| {'cell | ' * 60}\n" * 20
    for chunk in cut(markdown(text, title="A title\nof two lines " * 30), "markdown", 1000, context_header=True):
        assert len(chunk.context) <= 300
        assert chunk.context.count("\n") <= 1
        assert chunk.context.startswith("A title of two lines")


def test_a_context_does_not_say_anything_twice() -> None:
    document = markdown("# Guide\n\nWords.", title="Guide")
    assert [chunk.context for chunk in cut(document, "markdown", 100, context_header=True)] == ["Guide"]
