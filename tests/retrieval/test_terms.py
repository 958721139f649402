"""What lexical search finds by another spelling, and that the spelling that was asked for ranks first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rag_assets.embedding.profiles import DEFAULT_PROFILE, make_profile
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, Retriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from tests.support.worlds import HASH_PROFILE, ingested

LANGUAGES = {
    "c.md": "The language C has pointers, and a C program has a main function. C is small.",
    "cpp.md": "The language C++ has classes and templates, and a program has a main function.",
    "csharp.md": "The language C# has properties and a garbage collector, and a program has a main function.",
    "fsharp.md": "The language F# has pattern matching, and a program has a main function.",
    "f.md": "In grade F the language of the test is plain; a program of F lessons follows.",
    "dotnet.md": "The framework .NET runs on servers, and a program has a main function.",
    "net.md": "The net is a mesh; a net of the net is a program of nets.",
    "node.md": "With Node.js a script runs on servers; a program has an event loop.",
    "ab.md": "In an A/B test two pages are compared by a program.",
    "blood.md": "Groups A and B: a B donor gives to B, an A donor to A. The program asks A or B.",
    "rd.md": "The R&D department has a program.",
    "letters.md": "The letters R, D and R again, then D: a program for the alphabet with R and D.",
    "cold.md": "The pump works down to -40 degrees, says the program.",
    "warm.md": "Size 40: bolts come with the program in 40 days.",
    "law.md": "As § 12 says, the program is free of charge.",
    "page.md": "See 12 and 12 again: chapter 12 is on page 12 of the program.",
    "wide.md": "Part ＫＸ－７７２ is a valve.",
    "sensor.md": "The gap is 5 \u00b5m wide.",
    "joao.md": "João Conceição wrote the manual of pumps.",
    "joao2.md": "Joao Conceicao wrote the manual of hoses.",
    "trade.md": "Der Großhandel liefert Pumpen.",
    "trade2.md": "Der Grosshandel liefert Rohre.",
    "tree.md": "ёлка стоит в зале",
    "ligature.md": "The of\ufb01ce takes the \ufb02ow of war\u00adranty cases by tele\u200bphone.",
    "refund.md": "환불은 칠일 이내에 신청하세요. 돈을 돌려 드립니다.",
    "order.md": "주문을 확인하고 배송을 기다립니다.",
}
OF_THE_FIRST = "first"


@pytest.fixture(scope="module")
def library(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    add_spec(database, make_profile(**{**HASH_PROFILE.model_dump(), "name": OF_THE_FIRST, "terms": 1}))
    ingested(database, tmp_path_factory.mktemp("library"), "acme", LANGUAGES, profile=DEFAULT_PROFILE)
    ingest(database, "acme", "support", OF_THE_FIRST)
    yield database
    database.close()


def found(
    database: Database, query: str, retriever: type[Retriever] = LexicalRetriever, profile: str = DEFAULT_PROFILE
) -> list[str]:
    scope = open_scope(database, "acme", "support", profile)
    return [result.source_name for result in retriever(database).search(query, scope, top_k=50)]


@pytest.mark.parametrize("retriever", [LexicalRetriever, HybridRetriever])
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("C#", "csharp.md"), ("c#", "csharp.md"), ("C++", "cpp.md"), ("F#", "fsharp.md"), (".NET", "dotnet.md"),
        ("C", "c.md"),
        ("A/B", "ab.md"), ("R&D", "rd.md"), ("-40", "cold.md"), ("\u221240", "cold.md"), ("§12", "law.md"),
        ("§ 12", "law.md"), ("the C# language", "csharp.md"), ("program in C++?", "cpp.md"), ("Node.js", "node.md"),
        ("NodeJS", "node.md"), ("KX-772", "wide.md"), ("kx 772", "wide.md"), ("5\u03bcm", "sensor.md"),
        ("João Conceição", "joao.md"), ("Joao Conceicao", "joao2.md"), ("joão", "joao.md"), ("Großhandel", "trade.md"),
        ("Grosshandel", "trade2.md"), ("елка", "tree.md"), ("ёлка", "tree.md"), ("office", "ligature.md"),
        ("flow", "ligature.md"), ("warranty", "ligature.md"), ("telephone", "ligature.md"), ("환불", "refund.md"),
        ("환불을", "refund.md"), ("돈", "refund.md"), ("배송", "order.md"),
    ],
)  # fmt: skip
def test_what_is_written_like_the_query_is_first(
    library: Database, query: str, first: str, retriever: type[Retriever]
) -> None:
    assert found(library, query, retriever)[0] == first


@pytest.mark.parametrize(
    ("query", "both"),
    [
        ("João Conceição", {"joao.md", "joao2.md"}), ("Joao Conceicao", {"joao.md", "joao2.md"}),
        ("Großhandel", {"trade.md", "trade2.md"}), ("Grosshandel", {"trade.md", "trade2.md"}),
    ],
)  # fmt: skip
def test_both_spellings_are_found(library: Database, query: str, both: set[str]) -> None:
    assert set(found(library, query)) == both


def test_the_stored_text_stays_as_it_was_written(library: Database) -> None:
    scope = open_scope(library, "acme", "support")
    (result,) = LexicalRetriever(library).search("KX-772", scope)
    assert result.content == LANGUAGES["wide.md"]
    assert (result.citation["start"], result.citation["end"]) == (0, len(LANGUAGES["wide.md"]))


def test_a_profile_is_searched_with_the_terms_that_it_was_published_with(library: Database) -> None:
    assert found(library, "KX-772", profile=OF_THE_FIRST) == []
    assert found(library, "ＫＸ－７７２", profile=OF_THE_FIRST) == ["wide.md"]
    assert found(library, "환불", profile=OF_THE_FIRST) == []


def test_what_a_text_is_found_by_beside_its_words_does_not_lengthen_it(library: Database) -> None:
    with library.connect("owner") as owner:
        rows = owner.execute(
            "SELECT rag.lexical_length(rag.text_terms('simple', %s)), rag.lexical_length(to_tsvector('simple', %s))",
            ("João uses C\njoao cª35ª", "João uses C"),
        ).fetchall()
    assert rows == [(3, 3)]
