"""Lexical search on a real server: BM25, what is found by which spelling, and that no query raises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import LexicalSpec, make_profile
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import DenseRetriever, HybridRetriever, LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.terms import prepare
from tests.support.corpora import Corpus
from tests.support.skewed import skewed_texts
from tests.support.worlds import ingested

EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def new_corpus(database: Database, language: str = "simple") -> Corpus:
    profile = make_profile(
        name=f"tiny-{language}", provider="hash", model="hash", dimensions=8, lexical=LexicalSpec(language=language)
    )
    return Corpus(database, profile, tenant=f"acme-{language}")


@pytest.fixture(scope="module")
def corpus(module_database: Database) -> Iterator[Corpus]:
    """Its texts are those that a test published last."""
    made = new_corpus(module_database)
    yield made
    made.close()


@pytest.fixture(scope="module")
def english(module_database: Database) -> Iterator[Corpus]:
    made = new_corpus(module_database, "english")
    yield made
    made.close()


class Bm25:
    """BM25 as it is written in the books, over the lexemes that Postgres made."""

    def __init__(self, corpus: Corpus) -> None:
        self.language = corpus.profile.lexical.language
        rows = corpus.as_superuser(
            "SELECT c.id, u.lexeme, cardinality(u.positions) FROM rag.knowledge_chunks c, unnest(c.fts) u "
            "WHERE c.embedding_profile_id = {p}"
        )
        self.chunks: dict[UUID, dict[str, int]] = {}
        for chunk, lexeme, count in rows:
            self.chunks.setdefault(chunk, {})[lexeme] = count
        ((self.mean, self.counted),) = corpus.as_superuser(
            "SELECT average_length, chunks_at_statistics FROM rag.index_state WHERE embedding_profile_id = {p}"
        )
        self.frequency = dict(
            corpus.as_superuser("SELECT lexeme, chunk_count FROM rag.lexeme_stats WHERE embedding_profile_id = {p}")
        )

    def idf(self, lexeme: str) -> float:
        seen = self.frequency.get(lexeme, 0)
        return math.log(1 + (self.counted - seen + 0.5) / (seen + 0.5))

    def scores(self, query: dict[str, int]) -> dict[UUID, float]:
        """Share of the best possible score, for every chunk that holds a word of the query."""
        best = 2.2 * sum(count * self.idf(lexeme) for lexeme, count in query.items())
        return {
            chunk: sum(self.part(words, lexeme) * count for lexeme, count in query.items()) / best
            for chunk, words in self.chunks.items()
            if words.keys() & query.keys()
        }

    def part(self, words: dict[str, int], lexeme: str) -> float:
        tf = words.get(lexeme, 0)
        norm = 1.2 * (0.25 + 0.75 * sum(words.values()) / self.mean)
        return self.idf(lexeme) * tf * 2.2 / (tf + norm)


def lexemes(corpus: Corpus, text: str) -> dict[str, int]:
    rows = corpus.as_superuser(
        "SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector(%s::regconfig, %s))",
        corpus.profile.lexical.language,
        text,
    )
    return dict(rows)


WORDS = ("pump", "valve", "hose", "seal", "motor", "brass", "steel", "drain", "inlet", "gauge")
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join), min_size=1, max_size=12)
QUERIES = st.lists(st.sampled_from((*WORDS, "nowhere")), min_size=1, max_size=5).map(" ".join)


@given(TEXTS, QUERIES)
@EXAMPLES
def test_scores_are_bm25_as_shares_of_the_best_possible(corpus: Corpus, texts: list[str], query: str) -> None:
    corpus.publish(texts)
    corpus.refresh()
    expected = Bm25(corpus).scores(lexemes(corpus, query))
    found = corpus.words(query, top_k=50)
    assert {row.chunk_id: row.score for row in found} == pytest.approx(expected, abs=1e-4)
    assert [row.score for row in found] == sorted((row.score for row in found), reverse=True)
    assert all(0 < row.score <= 1 for row in found)
    assert all(row.lexical_score == row.score and row.dense_score is None for row in found)


def test_english_words_are_stemmed_and_stop_words_do_not_count(english: Corpus) -> None:
    english.publish(["The pumps were being primed", "A pump and the hoses", "the of and it"])
    english.refresh()
    expected = Bm25(english).scores({"prime": 1, "pump": 1})
    found = english.words("priming the pump")
    assert {row.chunk_id: row.score for row in found} == pytest.approx(expected, abs=1e-4)
    assert [row.content for row in found] == ["The pumps were being primed", "A pump and the hoses"]


def brute_force(corpus: Corpus, query: str, top_k: int) -> list[tuple[UUID, float]]:
    """Every chunk of the parent table by its inner product; nothing is looked up and nothing skipped."""
    return corpus.as_superuser(
        "SELECT c.id, -(c.lexical <#> q.weights) / q.best_possible FROM rag.knowledge_chunks c, "
        f"rag.analyse_query({corpus.built.id}, 'simple', %s) q "
        f"WHERE c.embedding_profile_id = {corpus.built.id} AND c.fts @@ q.every_term "
        f"ORDER BY c.lexical <#> q.weights, c.id LIMIT {top_k}",
        query,
    )  # type: ignore[return-value]


def test_the_best_chunks_are_those_of_all_that_have_a_word(corpus: Corpus) -> None:
    @given(
        st.lists(
            st.sampled_from([*(f"w{n}" for n in range(12)), *(f"w{n}" for n in range(0, 120, 7)), "never"]),
            min_size=1,
            max_size=8,
        ).map(" ".join),
        st.integers(1, 20),
    )
    @settings(max_examples=60, deadline=None)
    def check(query: str, top_k: int) -> None:
        found = [(row.chunk_id, row.score) for row in corpus.words(query, top_k)]
        expected = brute_force(corpus, query, top_k)
        assert [chunk for chunk, _ in found] == [chunk for chunk, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-6)

    for seed, chunks in ((1, 60), (2, 300), (3, 1000)):
        corpus.publish(skewed_texts(seed, chunks))
        corpus.refresh()
        check()


def test_statistics_follow_the_texts_even_where_their_number_stays_the_same(corpus: Corpus) -> None:
    corpus.publish(["alpha beta"] * 9 + ["alpha gamma"])
    assert corpus.refresh().statistics_refreshed
    assert not corpus.refresh().statistics_refreshed, "nothing has changed"
    corpus.publish(["delta beta"] * 9 + ["delta gamma"])
    assert corpus.refresh().statistics_refreshed
    frequency = Bm25(corpus).frequency
    assert frequency == {"delta": 10, "beta": 9, "gamma": 1}


def test_a_word_that_was_never_counted_weighs_most(corpus: Corpus) -> None:
    corpus.publish([f"common word{n % 3}" for n in range(40)])
    corpus.refresh()
    corpus.publish(["common brandnew"], source="later")
    found = corpus.words("common word1 brandnew", top_k=3)
    assert found[0].content == "common brandnew"
    corpus.publish([], source="later")


def test_weights_are_rebuilt_when_the_mean_length_has_drifted(corpus: Corpus) -> None:
    corpus.publish(["one two three four"] * 20)
    corpus.refresh()
    corpus.publish(["one two three four five six seven eight nine ten"] * 20)
    report = corpus.refresh()
    assert (report.weights_rebuilt, report.average_length) == (True, 10)
    expected = Bm25(corpus).scores({"seven": 1})
    assert {row.chunk_id: row.score for row in corpus.words("seven", 50)} == pytest.approx(expected, abs=1e-4)
    corpus.publish(["one two three four five six seven eight nine ten"] * 19 + ["one two"])
    assert not corpus.refresh().weights_rebuilt, "four hundredths are no drift"


ODD_QUERIES = (
    "What's your policy?", "a & b | c !", "dog,cat", "the and of", "it's", "OR", "!!!", "\\", "'", "''", '"',
    "a\\'b", ":*", "pump:*", "<->", "pump <-> valve", "(", ")", "pump\0valve", "\ud800", "%s", "{}", "$1", "NULL",
    "e" * 9000, "'; DROP TABLE rag.tenants; --", "\u202epump", "1e309", "-1", "a-b-c-d", "http://x.y/?a=b&c=d",
)  # fmt: skip


@pytest.fixture(scope="module")
def library(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One bot with what the tests on spellings look for."""
    database = new_database()
    files = {
        "pump.md": "Replace the SKU-1234 cartridge when the pump hums. The policy of returns is on page nine.",
        "cve.md": "CVE-2026-2332 lets an attacker read files through getUserName in net/http_client.py.",
        "dog.md": "A dog sleeps by the stove; the cat does not.",
        "ja.md": "日本語の検索テストです。\n\n東京都の水道局に電話してください。",
        "zh.md": "请先关闭水泵的电源，然后更换滤芯。",
        "th.md": "การค้นหาข้อความภาษาไทย",
        "hi.md": "पंप को चालू करने से पहले पानी भरें।",
        "ar.md": "أغلق الصمام الرئيسي قبل تنظيف المضخة",
        "de.md": "Die Straße führt zur Wasserpumpe; die Größe ist 12 Zoll.",
    }
    ingested(database, tmp_path_factory.mktemp("library"), "acme", files)
    yield database
    database.close()


def found_by(database: Database, query: str) -> list[str]:
    scope = open_scope(database, "acme", "support")
    return [result.source_name for result in LexicalRetriever(database).search(query, scope, top_k=50)]


@given(st.text(st.characters(), max_size=60) | st.text(st.sampled_from("ab &|!<->:*()'\"\\,.%_-\0\n"), max_size=40))
@example("\ud800\udc00")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bug_59_no_query_raises(library: Database, query: str) -> None:
    assert len(found_by(library, query)) <= 50


@pytest.mark.parametrize("query", ODD_QUERIES, ids=range(len(ODD_QUERIES)))
def test_bug_59_odd_queries_answer_in_lexical_and_hybrid_mode(library: Database, query: str) -> None:
    scope = open_scope(library, "acme", "support")
    assert len(LexicalRetriever(library).search(query, scope)) <= 8
    assert len(HybridRetriever(library).search(query, scope)) == 8


def test_bug_59_a_query_that_was_not_prepared_cannot_become_an_operator(corpus: Corpus) -> None:
    corpus.publish(["pump valve", "hose"])
    for text in (*ODD_QUERIES, "pump & !valve"):
        if "\0" not in text and text.isprintable():
            corpus.words(text)
    assert {row.content for row in corpus.words("pump & !valve")} == {"pump valve"}


def test_bug_59_punctuation_does_not_become_adjacency(library: Database) -> None:
    assert found_by(library, "dog,cat") == found_by(library, "dog, cat") == found_by(library, "dog cat") == ["dog.md"]


@pytest.mark.parametrize("query", ["the and of", "it's", "OR", "!!!"])
def test_bug_60_a_query_of_stop_words_is_left_to_the_vectors(library: Database, query: str) -> None:
    scope = open_scope(library, "acme", "support")
    assert found_by(library, query) == []
    dense = DenseRetriever(library).search(query, scope, top_k=50)
    hybrid = HybridRetriever(library).search(query, scope, top_k=50)
    # By score, because two that differ in the sixteenth digit only may change places.
    assert [round(result.dense_score or 0, 9) for result in hybrid] == [round(result.score, 9) for result in dense]
    assert {result.chunk_id for result in hybrid} == {result.chunk_id for result in dense}
    assert all(result.lexical_score is None for result in hybrid)


@pytest.mark.parametrize("query", ["1234", "SKU 1234", "SKU-1234", "sku1234", "sku_1234", "error with SKU-1234?"])
def test_bug_62_a_part_number_is_found_by_its_parts(library: Database, query: str) -> None:
    assert found_by(library, query) == ["pump.md"]


@pytest.mark.parametrize("query", ["2332", "CVE-2026-2332", "cve 2332", "user name", "http client", "getUserName"])
def test_bug_62_identifiers_are_found_by_their_parts(library: Database, query: str) -> None:
    assert found_by(library, query) == ["cve.md"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("日本語の検索", "ja.md"), ("水道局", "ja.md"), ("滤芯", "zh.md"), ("水泵的电源", "zh.md"), ("ค้นหา", "th.md"),
        ("चालू", "hi.md"), ("المضخة", "ar.md"), ("STRASSE straße", "de.md"), ("GRÖSSE größe", "de.md"),
    ],
)  # fmt: skip
def test_bug_63_texts_in_scripts_that_postgres_has_no_parser_for_are_found(
    library: Database, query: str, name: str
) -> None:
    assert found_by(library, query)[0] == name


def test_bug_64_any_word_is_enough(library: Database) -> None:
    assert found_by(library, "dog stove cat xylophone") == ["dog.md"]
    assert found_by(library, "zeppelin xylophone") == []


def distinct_words(characters: int) -> str:
    """Distinct words of six letters, blank between them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join(
        "".join(letters[n // 26**place % 26] for place in range(6)) for n in range(1000, 1000 + characters // 7)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("size", "characters"), [(1600, 350_000), (20_000, 1_400_000)])
def test_bug_58_a_megabyte_of_distinct_words_is_stored_and_found(
    database: Database, root: Path, size: int, characters: int
) -> None:
    chunking = ChunkingSpec(size=size, overlap=0)
    add_spec(database, make_profile(name="big", provider="hash", model="hash", dimensions=8, chunking=chunking))
    text = distinct_words(characters)
    report = ingested(database, root, "acme", {"words.txt": text}, profile="big")
    assert report.publication.failures == []
    scope = open_scope(database, "acme", "support")
    for word in (text[:6], text[140_000:140_020].split()[1], text[-6:]):
        (found,) = LexicalRetriever(database).search(word, scope)
        assert word in found.content


def test_bug_58_words_past_the_bound_do_not_make_a_text_unstorable(corpus: Corpus) -> None:
    words = [f"{n:064x}" for n in range(20_000)]
    (size,) = corpus.as_superuser(
        "SELECT length(to_tsvector('simple', %s))", prepare(" ".join(words), corpus.profile.terms)
    )[0]
    assert 0 < size <= 12_000


def test_a_profile_is_searched_in_the_language_it_was_made_for(database: Database, root: Path) -> None:
    for language in ("german", "english"):
        add_spec(
            database,
            make_profile(
                name=f"hash-{language}", provider="hash", model="hash", dimensions=8,
                lexical=LexicalSpec(language=language),
            ),
        )  # fmt: skip
    ingested(database, root, "acme", {"a.md": "Die Häuser der Stadt"}, profile="hash-german")
    ingest(database, "acme", "support", "hash-english")
    counts = {}
    for name in ("hash-german", "hash-english"):
        scope = open_scope(database, "acme", "support", name)
        counts[name] = len(LexicalRetriever(database).search("Haus", scope))
    assert counts == {"hash-german": 1, "hash-english": 0}
