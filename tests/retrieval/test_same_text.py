"""A text that lies at several places is returned once, with the others named; nothing that may not be seen is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.errors import InvalidArgument
from rag_assets.retrieval import DenseRetriever, HybridRetriever, LexicalRetriever, Retrieval, open_scope
from rag_assets.retrieval.places import telling_names
from rag_assets.store.database import Database
from rag_assets.store.search import Mode, SearchRequest
from tests.support.corpora import Corpus, unit
from tests.support.worlds import ingested

COPY = "The warranty lasts three years from the day of purchase."
OTHER = "A warranty claim needs the receipt and the serial number."
MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
RETRIEVERS = (DenseRetriever, LexicalRetriever, HybridRetriever)


@pytest.fixture(scope="module")
def copies(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Database:
    files = {f"shop{n}/warranty.md": COPY for n in range(6)} | {"claims.md": OTHER}
    ingested(module_database, tmp_path_factory.mktemp("copies"), "acme", files)
    return module_database


@pytest.fixture
def corpus(database: Database) -> Iterator[Corpus]:
    profile = make_profile(name="eight", provider="hash", model="hash", dimensions=8)
    made = Corpus(database, profile)
    yield made
    made.close()


def ask(database: Database, kind: type[Any], k: int = 5, tenant: str = "acme", **how: Any) -> Retrieval:
    found: Retrieval = kind(database, **how).search("warranty", open_scope(database, tenant, "support"), k)
    return found


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_copies_of_one_text_take_one_place_and_name_the_others(copies: Database, kind: type[Any]) -> None:
    found = ask(copies, kind)
    assert [result.content for result in found] == [COPY, OTHER] or [r.content for r in found] == [OTHER, COPY]
    (copy,) = [result for result in found if result.content == COPY]
    places = [copy.citation["document"], *(place["document"] for place in copy.citation["also_at"])]
    assert sorted(places) == [f"shop{n}/warranty.md" for n in range(6)]
    assert places[0] == "shop0/warranty.md"
    for place in copy.citation["also_at"]:
        assert {"source_id", "source_name", "start", "end"} <= place.keys()
    (other,) = [result for result in found if result.content == OTHER]
    assert "also_at" not in other.citation


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_both_faces_return_a_text_once_and_one_option_returns_all_of_them(copies: Database, kind: type[Any]) -> None:
    scope = open_scope(copies, "acme", "support")

    async def awaited() -> Retrieval:
        found: Retrieval = await kind(copies).asearch("warranty", scope, 5)
        await copies.aclose()
        return found

    assert [r.chunk_id for r in asyncio.run(awaited())] == [r.chunk_id for r in ask(copies, kind)]
    every = ask(copies, kind, 7, copies=True)
    assert sorted(result.content for result in every) == sorted([COPY] * 6 + [OTHER])
    assert all("also_at" not in result.citation for result in every)
    with pytest.raises(InvalidArgument, match="copies"):
        kind(copies, copies="no")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("copied", "k"), [(6, 5), (130, 5), (60, 20)])
def test_there_are_as_many_results_as_asked_for_while_there_are_texts(
    corpus: Corpus, mode: Mode, copied: int, k: int
) -> None:
    generator = np.random.default_rng(3)
    texts = [f"alpha word{n}" for n in range(k + 3)]
    vectors = unit(generator.normal(size=(len(texts), 8)) + 3)
    for n in range(copied):  # the nearest of all, and as near as each other
        corpus.publish(["alpha alpha alpha"], unit(np.ones((1, 8))), source=f"copy{n:03}")
    corpus.publish(texts, vectors, source="others")
    corpus.refresh()
    vector = None if mode == "lexical" else unit(np.ones((1, 8)))[0]
    request = SearchRequest(mode, vector, "" if mode == "dense" else "alpha", top_k=k)
    rows = corpus.search(request)
    contents = [row.content for row in rows]
    assert len(contents) == len(set(contents)) == k
    assert [row.score for row in rows] == sorted((row.score for row in rows), reverse=True)
    (copy,) = [row for row in rows if row.content == "alpha alpha alpha"]
    assert copy.source_name == "copy000"
    assert len(copy.also_at) == min(copied - 1, 100)


def test_without_copies_a_search_is_what_it_was(corpus: Corpus) -> None:
    generator = np.random.default_rng(5)
    corpus.publish([f"alpha word{n} beta{n % 3}" for n in range(40)], unit(generator.normal(size=(40, 8))))
    corpus.refresh()
    vector = unit(generator.normal(size=(1, 8)))[0]
    for mode in MODES:
        how = {"mode": mode, "vector": None if mode == "lexical" else vector, "top_k": 7}
        text = "" if mode == "dense" else "alpha beta1 word3"
        once, all_of_them = (corpus.search(SearchRequest(text=text, copies=c, **how)) for c in (False, True))
        assert [(r.chunk_id, r.score) for r in once] == [(r.chunk_id, r.score) for r in all_of_them]


def test_what_others_may_not_see_is_no_place_of_a_text(corpus: Corpus) -> None:
    for name in ("open", "private"):
        corpus.publish(["alpha"], source=name)
    corpus.refresh()
    corpus.as_superuser(
        "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann', created_at = created_at - "
        "interval '1 day' WHERE name = 'private' RETURNING id"
    )
    (row,) = corpus.words("alpha")
    assert (row.source_name, row.also_at) == ("open", [])
    from rag_assets.store.search import search_chunks

    (own,) = search_chunks(
        corpus.app, {**corpus.scope.settings, "user": "ann"}, SearchRequest("lexical", None, "alpha")
    )
    assert (own.source_name, [place["source_name"] for place in own.also_at]) == ("private", ["open"])


def test_a_filter_holds_for_the_other_places_too(corpus: Corpus) -> None:
    ids = [corpus.add_source(name) for name in ("a", "b", "c")]
    for name in ("a", "b", "c"):
        corpus.publish(["alpha"], source=name)
    corpus.refresh()
    filters = {"source_ids": [str(ids[1]), str(ids[2])]}
    (row,) = corpus.search(SearchRequest("lexical", None, "alpha", filters=filters))
    assert row.source_name == "b"
    assert [place["source_name"] for place in row.also_at] == ["c"]


def test_the_same_text_of_another_bot_or_tenant_is_no_place_of_it(
    copies: Database, tmp_path: Path, hash_profile: EmbeddingProfile
) -> None:
    for tenant, bot in (("acme", "sales"), ("umbra", "support")):
        ingested(copies, tmp_path / tenant / bot, tenant, {"theirs.md": COPY}, bot)
    for kind in RETRIEVERS:
        (found,) = ask(copies, kind, tenant="umbra")
        assert (found.citation["document"], found.citation.get("also_at")) == ("theirs.md", None)
        assert "theirs.md" not in str([result.to_dict() for result in ask(copies, kind)])


def test_places_of_the_same_name_are_told_apart_by_more_of_their_address() -> None:
    names = telling_names(
        [
            ("README.md", "file:///srv/manuals/README.md"),
            ("README.md", "file:///srv/two%20words/README.md"),
            ("1", "file:///srv/a/faq.csv#1"),
            ("1", "file:///srv/b/faq.csv#1"),
            ("only.md", "file:///srv/only.md"),
        ]
    )
    assert names == ["manuals/README.md", "two words/README.md", "a/faq.csv#1", "b/faq.csv#1", "only.md"]


def test_programs_of_the_version_before_search_on(corpus: Corpus, new_database: Callable[[], Database]) -> None:
    for name in ("a", "b"):
        corpus.publish(["alpha"], source=name)
    corpus.refresh()
    from tests.support.scopes import set_scope

    with corpus.app.transaction():
        set_scope(corpus.app, corpus.scope.settings)
        found = corpus.app.execute(
            "SELECT * FROM rag.search(%s, %s::vector, %s, %s, %s, %s, %s, %s::jsonb, %s)",
            ["lexical", None, "alpha", 5, 100, 0.5, "minmax", "{}", False],
        )
        assert [column.name for column in found.description or ()] == [
            "chunk_id", "source_id", "source_name", "source_metadata", "canonical_url", "content", "token_count",
            "citation", "metadata", "score", "dense_score", "lexical_score",
        ]  # fmt: skip
        assert len(found.fetchall()) == 2
