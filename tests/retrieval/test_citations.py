"""Of what an answer cites and quotes, what stands there, what stands elsewhere, and what nowhere."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from rag_assets.errors import InvalidArgument
from rag_assets.retrieval import check_citations, format_retrieved_context
from tests.support.cited import passage

WARRANTY = "Every pump has a warranty of five years, from delivery on — “as is”, if it’s kept dry."
RETURNS = "Goods may be\nreturned within   thirty days. Größe und Straße: §\u00a05."
PASSAGES = [passage(WARRANTY, "warranty.md", start=100, end=100 + len(WARRANTY)), passage(RETURNS, "returns.md")]


def verdicts(answer: str) -> list[tuple[str, int | None]]:
    return [(one.verdict, one.number) for one in check_citations(answer, PASSAGES).quotes]


def test_known_and_unknown_numbers_are_told_apart() -> None:
    found = check_citations("It is [2], also [1, 7] and [3–5]; not (4) or [x], but [2].", PASSAGES)
    assert (found.cited, found.unknown) == ((2, 1), (7, 3, 4, 5))
    assert not found.holds
    assert check_citations("Five years [1].", PASSAGES).holds
    assert not check_citations("Five years.", PASSAGES).holds


@pytest.mark.parametrize(
    "quoted",
    [
        "“a warranty of five years” [1]", '"a warranty of five years," [1]', "„a warranty of FIVE years“ [1]",
        "« a warranty of five years » [1]", "»a warranty of five years« [1]", "「a warranty of five years」[1]",
        "”a warranty of five years” [1]", "According to [1], “a warranty of five years” is given",
        "[1] says: “a warranty\n> of five years”", "“a warranty of five years [1]”",
        "“Every pump … five years” [1]", "“Every pump [...] from delivery on” [2][1]",
        "“from delivery on - \"as is\", if it's kept dry” [1]", "“a warranty of five\u00a0years”, it says [1]",
    ],
)  # fmt: skip
def test_a_quote_that_stands_in_its_passage_is_found_whatever_the_typography(quoted: str) -> None:
    assert verdicts(f"Well. {quoted}.") == [("stands", 1)]


def test_quotes_that_stand_elsewhere_nowhere_or_without_a_citation_are_told_apart() -> None:
    assert verdicts("“within thirty days” [1].") == [("elsewhere", 2)]
    assert verdicts("“within forty days” [2].") == [("nowhere", None)]
    assert verdicts("“within thirty days” [9].") == [("elsewhere", 2)]
    assert verdicts("“within thirty days” it is. Also: five years [1].") == [("uncited", 2)]
    assert verdicts("“something else” it is. Also: five years [1].") == [("uncited", None)]
    assert verdicts("“five years” [1] and “thirty days” [2] and “five years” [2].") == [
        ("stands", 1), ("stands", 2), ("elsewhere", 1),
    ]  # fmt: skip
    assert verdicts("“five years … Every pump” [1]") == [("nowhere", None)], "the order counts"
    assert verdicts("“ive year” [1]") == [("nowhere", None)], "words are not parted"


def test_unicode_is_one_text_however_it_is_composed() -> None:
    assert verdicts("“GRO\u0308SSE und Stra\u00dfe: § 5” [2]") == [("stands", 2)]
    assert verdicts("“Gro\u0308\u00dfe und STRASSE” [2]") == [("stands", 2)]


def test_the_place_is_the_one_where_it_stands() -> None:
    for text in ("a warranty of five years", "Every pump", "kept dry."):
        (quote,) = check_citations(f"“{text}” [1]", PASSAGES).quotes
        assert quote.place is not None
        assert WARRANTY[slice(*quote.place)] == text.rstrip(".")
        assert quote.source_place == (quote.place[0] + 100, quote.place[1] + 100)
    (quote,) = check_citations("“returned within thirty days” [2]", PASSAGES).quotes
    assert quote.place is not None
    assert RETURNS[slice(*quote.place)] == "returned within   thirty days"
    (quote,) = check_citations("x “GRO\u0308SSE UND” [2]", PASSAGES).quotes
    assert quote.place is not None
    assert RETURNS[slice(*quote.place)] == "Größe und"
    assert (quote.start, quote.end) == (3, 14)


def test_any_part_of_a_passage_is_found_and_where_it_was() -> None:
    rng = random.Random(11)
    content = (
        "Ärger mit Ⅳ Ventilen: ﬁlter, naïve Maße — 漢字仮名交じり文。 한국어 e\u0301te\u0301 \u200bpump’s №5 “in” §7 "
        * 3
    )
    one = passage(content)
    words = [(m, n) for m in range(len(content)) for n in (m + rng.randrange(4, 40),) if n <= len(content)]
    for start, end in rng.sample(words, 120):
        while start > 0 and not content[start - 1].isspace():
            start -= 1
        while end < len(content) and not content[end].isspace():
            end += 1
        text = content[start:end].strip()
        if not any(letter.isalnum() for letter in text) or any(mark in text for mark in "“”…"):
            continue
        (quote,) = check_citations(f"“{text}” [1]", [one]).quotes
        assert quote.verdict == "stands", text
        assert quote.place is not None
        again = content[slice(*quote.place)]
        assert again.strip(" ,.。:;") == text.strip(" ,.。:;\u200b") or again in text


def test_what_a_context_shows_can_be_quoted_from_it() -> None:
    context = format_retrieved_context([passage("As shown in [7], pumps\nleak. [1] They do.")])
    shown = "As shown in ［7］, pumps\n> leak."
    assert shown in context.text
    found = check_citations(f"“{shown}” [1]", context)
    assert [(one.verdict, one.number) for one in found.quotes] == [("stands", 1)]
    assert found.holds


@pytest.mark.parametrize("answer", ["", "“", "“”", "[", "[]", "[1", "“ ” [1]", '"', "„“”«»", "[9999999]", "[-1] [1-]"])
def test_no_answer_is_too_odd(answer: str) -> None:
    check_citations(answer, PASSAGES)


@pytest.mark.parametrize(("answer", "passages"), [(3, []), ("x", 3), ("x", ["y"]), ("x", {1: "y"}), ("x", "y")])
def test_a_wrong_argument_is_refused(answer: Any, passages: Any) -> None:
    with pytest.raises(InvalidArgument):
        check_citations(answer, passages)


@pytest.mark.slow
def test_an_answer_of_very_many_quotes_is_read_once_and_not_for_each_of_them() -> None:
    started = time.monotonic()
    found = check_citations('"five years" [1], "thirty days" [2]. ' * 20_000, PASSAGES)
    assert len(found.quotes) == 40_000
    assert found.holds
    assert time.monotonic() - started < 90  # read for each, it took many minutes
