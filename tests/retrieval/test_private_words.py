"""What is private to one user cannot be told from what is not there, by rows, scores or order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rag_assets.ingest.run import ingest
from rag_assets.retrieval import open_scope
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.search import Mode
from tests.support.worlds import HASH_PROFILE, ingested, write_files

BOTS = ("alone", "beside")  # the second one holds what is private to ann, too
SHARED = {f"pump{n}.md": f"# Pump {n}\n\nThe valve of pump {n} is checked every week by {n} people." for n in range(30)}
_LETTERS = random.Random(7)
WORDS = ["".join(_LETTERS.choices("bcdfgklmnprtvz", k=9)) for _ in range(200)]
HIDDEN, UNKNOWN = WORDS[::2], WORDS[1::2]


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two bots that share the same, and one of them with two hundred private sources of ann's."""
    database = new_database()
    for bot in BOTS:
        folder = tmp_path_factory.mktemp(bot)
        ingested(database, folder, "acme", SHARED, bot)
        if bot == "beside":
            write_files(folder, {f"secret{n}.md": f"# Secret\n\nthe {word} valve" for n, word in enumerate(HIDDEN)})
            ingest(database, "acme", bot, HASH_PROFILE.name)
            with psycopg.connect(database.url) as connection:
                connection.execute(
                    "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann' "
                    "WHERE name LIKE 'secret%'"
                )
            ingest(database, "acme", bot, HASH_PROFILE.name)
    yield database
    database.close()


def answer(database: Database, bot: str, user: str | None, mode: Mode, query: str) -> list[tuple[str, float]]:
    """Names and scores; among equals the order is that of ids, which two bots do not share."""
    scope = open_scope(database, "acme", bot, user_id=user)
    found = RETRIEVERS[mode](database).search(query, scope, 8)
    return sorted(((one.source_name, round(one.score, 9)) for one in found), key=lambda one: (-one[1], one[0]))


@pytest.mark.parametrize("mode", RETRIEVERS)
@pytest.mark.parametrize("user", [None, "bob"])
def test_answers_are_those_of_a_bot_without_the_private_sources(world: Database, mode: Mode, user: str | None) -> None:
    for word in WORDS[:: 1 if mode == "lexical" else 5]:
        for query in (f"weekly checked pump {word}", f"pump 7 {word} {word}"):
            alone, beside = (answer(world, bot, user, mode, query) for bot in BOTS)
            assert alone[0][1] == beside[0][1], (query, alone[0], beside[0])
            assert [score for _, score in alone] == [score for _, score in beside], query


def test_no_word_has_another_score_than_an_unknown_one(world: Database) -> None:
    best = {word: answer(world, "beside", "bob", "lexical", f"weekly checked pump {word}")[0][1] for word in WORDS}
    assert {best[word] for word in HIDDEN} == {best[word] for word in UNKNOWN}
    assert len(set(best.values())) == 1


def test_its_owner_finds_it(world: Database) -> None:
    for word in HIDDEN[:20]:
        assert answer(world, "beside", "ann", "lexical", word)[0][0].startswith("secret")
        assert answer(world, "beside", "bob", "lexical", word) == []


def test_words_that_an_earlier_version_counted_are_not_counted_after_the_next_ingest(world: Database) -> None:
    profile = open_scope(world, "acme", "beside").profile_id
    with psycopg.connect(world.url) as connection:
        connection.execute(
            "INSERT INTO rag.lexeme_stats (embedding_profile_id, tenant_id, lexeme, chunk_count) "
            "VALUES (%s, 'acme', %s, 1)",
            [profile, HIDDEN[0]],
        )
        connection.execute("UPDATE rag.index_state SET counts_shared_only = DEFAULT")
    told, other = (answer(world, "beside", "bob", "lexical", f"weekly pump {word}")[0][1] for word in HIDDEN[:2])
    assert told != other  # what it is all about
    ingest(world, "acme", "beside", HASH_PROFILE.name)
    told, other = (answer(world, "beside", "bob", "lexical", f"weekly pump {word}")[0][1] for word in HIDDEN[:2])
    assert told == other
