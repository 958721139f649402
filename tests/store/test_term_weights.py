"""The weights that chunks are published with are those that the database makes of the same words."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from rag_assets.store import term_weights
from rag_assets.store.database import Database
from rag_assets.store.term_weights import as_sparsevecs, read_sparsevecs, term_id, weigh
from rag_assets.terms import prepare
from rag_assets.terms.memo import Memo
from tests.support.worlds import ingested

TEXTS = [
    "The pump and the valve of the pump: C++, R&D and KX-772 at -40 °C, 1234567.",
    "João says: São Paulo and Großhandel, and João again.",
    "환불 정책을 설명한다",
    "",
    "the and of",
    "lamp " * 700,
    " ".join(f"word{number}" for number in range(3000)),
]


@pytest.mark.parametrize("average", [0.0, 1.0, 7.3, 214.0])
def test_they_are_those_of_the_function_in_the_database(database: Database, average: float) -> None:
    with database.session("owner") as connection:
        made = connection.cursor(binary=True).execute(
            "SELECT fts, rag.bm25_weights(fts, %s)::text FROM (SELECT rag.text_terms('english', words) AS fts "
            "FROM unnest(%s::text[]) WITH ORDINALITY AS t (words, n) ORDER BY n OFFSET 0) texts",
            [average, [prepare(text, 2) for text in TEXTS]],
        )
        texts, wanted = zip(*made, strict=True)
        with connection.transaction(force_rollback=True):
            connection.execute("CREATE TEMP TABLE weighed (lexical sparsevec)")
            with connection.cursor().copy("COPY weighed FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["bytea"])
                for one in as_sparsevecs(terms := weigh(texts, average)):
                    copy.write_row([one])
            assert [row[0] for row in connection.execute("SELECT lexical::text FROM weighed")] == list(wanted)
            kept = (
                connection.cursor(binary=True).execute("SELECT lexical FROM weighed UNION ALL SELECT NULL").fetchall()
            )
    read = read_sparsevecs([row[0] for row in kept])
    assert read.texts == terms.texts + 1
    assert all((one == other).all() for one, other in zip(read[1:], terms[1:], strict=True))


def test_terms_have_the_numbers_that_the_database_gives_them(database: Database) -> None:
    lexemes = ["pump", "pumpen", "환불", "1234", "f0", "f1", "f2", "f3"]
    with database.session("owner") as connection:
        found = connection.execute("SELECT rag.term_id(word) FROM unnest(%s::text[]) word", [lexemes]).fetchall()
    assert [term_id(lexeme.encode()) for lexeme in lexemes] == [row[0] for row in found]


def test_terms_of_one_number_are_added_up() -> None:
    fts = b"\0\0\0\2" + b"lamp\0\0\2\0\1\0\3" + b"pump\0\0\1\0\2"
    with patch.object(term_weights, "_term_ids", Memo(lambda _: 7, 10)):
        (together,) = as_sparsevecs(weigh([fts], 3.0))
    (alone,) = as_sparsevecs(weigh([b"\0\0\0\1" + b"lamp\0\0\3\0\1\0\2\0\3"], 3.0))
    assert together[:12] == alone[:12]
    assert together[-4:] == alone[-4:], "three times among three words"


def test_a_publication_of_nothing_but_words_that_count_for_nothing_is_published(database: Database, root: Path) -> None:
    report = ingested(database, root, "acme", {"a.md": "the and of"})
    assert report.publication.ready == 1


def test_of_no_text_there_are_no_weights() -> None:
    assert as_sparsevecs(weigh([], 3.0)) == []
    assert as_sparsevecs(weigh([bytes(4)], 3.0)) == [bytes.fromhex("3b9aca00") + bytes(8)]
