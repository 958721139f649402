"""What a profile still has to do about a source is said in one place, `rag.profile_work`, which all statements ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.store.database import Database
from tests.support.corpora import Corpus

PICTURE = '{"type": "image/png", "pages": 1, "checksum": "c"}'


@pytest.fixture
def corpus(database: Database) -> Iterator[Corpus]:
    made = Corpus(database, make_profile(name="work", provider="hash", model="hash", dimensions=8))
    yield made
    made.close()


def _work(corpus: Corpus, tenant: str = "acme") -> list[tuple[str, str | None]]:
    with corpus.database.work(tenant) as connection:
        return connection.execute("SELECT name, work FROM rag.profile_work ORDER BY name").fetchall()


def _publication(corpus: Corpus, source: str, status: str, checksum: str) -> None:
    corpus.as_superuser(
        "INSERT INTO rag.source_profiles (embedding_profile_id, source_id, tenant_id, bot_id, status, checksum) "
        "SELECT {p}, id, tenant_id, bot_id, %s, %s FROM rag.knowledge_sources WHERE name = %s RETURNING 1",
        status, checksum, source,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "published", "work"),
    [
        ("processing", None, "missing"),
        ("processing", ("ready", "before"), "missing"),
        ("processing", ("failed", "before"), "due"),
        ("processing", ("failed", "v"), "failed"),
        ("ready", ("ready", "v"), None),
        ("failed", None, None),  # nothing of it was ever read
        ("failed", ("ready", "v"), None),
        ("failed", ("ready", "before"), "failed"),
        ("no_text", None, None),
        ("no_text", ("ready", "v"), "gone"),
        ("deleted", None, None),
        ("deleted", ("ready", "v"), "gone"),
    ],
)
def test_what_is_left_to_do(corpus: Corpus, status: str, published: tuple[str, str] | None, work: str | None) -> None:
    corpus.add_source("one")
    corpus.as_superuser("UPDATE rag.knowledge_sources SET status = %s RETURNING 1", status)
    if published:
        _publication(corpus, "one", *published)
    assert _work(corpus) == [("one", work)]


def test_a_source_that_cannot_be_read_now_is_due_in_the_version_before(corpus: Corpus) -> None:
    source = corpus.add_source("one")
    corpus.as_superuser("UPDATE rag.knowledge_sources SET status = 'failed' RETURNING 1")
    corpus.as_superuser(
        "INSERT INTO rag.source_documents (source_id, checksum, tenant_id, bot_id, title, text) "
        "VALUES (%s, 'v', 'acme', 'support', '', 'text') RETURNING 1", source,
    )  # fmt: skip
    assert _work(corpus) == [("one", "due")]


@pytest.mark.parametrize(("multimodal", "work"), [(True, "missing"), (False, None)])
def test_the_profile_itself_says_whether_it_embeds_pictures(
    database: Database, multimodal: bool, work: str | None
) -> None:
    options = {"multimodal": multimodal}
    profile = make_profile(
        name="pictures", provider="google", model="gemini-embedding-2", dimensions=128, options=options
    )
    with closing(Corpus(database, profile)) as corpus:
        corpus.add_source("one")
        corpus.as_superuser("UPDATE rag.knowledge_sources SET status = 'no_text', media = %s RETURNING 1", PICTURE)
        assert _work(corpus) == [("one", work)]


def test_nobody_sees_the_work_of_another_tenant(corpus: Corpus) -> None:
    corpus.add_source("one")
    assert _work(corpus, "other") == []
    assert _work(corpus) == [("one", "missing")]


def _rows_read(plan: dict[str, Any], table: str) -> float:
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    mine = own * plan["Actual Loops"] if plan.get("Relation Name") == table or "Join Filter" in plan else 0
    return float(mine) + sum(_rows_read(part, table) for part in plan.get("Plans", ()))


def test_each_source_is_looked_up_once_whatever_the_planner_holds_true(corpus: Corpus) -> None:
    for number in range(60):
        corpus.add_source(f"s{number}")
        _publication(corpus, f"s{number}", "ready", "v")
    explain = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT source_id FROM rag.profile_work WHERE embedding_profile_id = %s"
    with corpus.database.work("acme") as connection:
        # What it chooses where it takes the rows of a profile for one.
        connection.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
        profile = connection.execute("SELECT id FROM rag.embedding_profiles").fetchone()
        assert profile is not None
        row = connection.execute(explain, profile).fetchone()
    assert row is not None
    assert 60 <= _rows_read(row[0][0]["Plan"], "source_profiles") <= 120
