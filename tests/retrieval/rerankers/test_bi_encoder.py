"""Another model over the candidates: its cosines, and the order before where it does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.profiles import BUILTIN_PROFILES, make_profile
from rag_assets.embedding.protocol import NOBODY
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import InvalidArgument, InvalidProfile, TimeLimitReached, UsageError
from rag_assets.retrieval import HybridRetriever, RerankedRetriever, open_scope
from rag_assets.retrieval.files import load_retriever
from rag_assets.retrieval.rerankers.bi_encoder import BiEncoderReranker
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from tests.support import openai_server as stand_in
from tests.support.openai_server import DIMENSIONS, OpenAIServer, openai_server, unit_vectors
from tests.support.passages import Search, awaited, blocking
from tests.support.worlds import ingested

faces = pytest.mark.parametrize("search", [blocking, awaited])
FILES = {
    "warranty.md": "# Warranty\n\nEvery pump has a warranty of five years, from delivery on.",
    "returns.md": "# Returns\n\nGoods may be returned within thirty days, and the buyer pays for the way back.",
    "holiday.md": "# Holidays\n\nThe office is closed between Christmas and the new year.",
    "valve.md": "# Valve\n\nThe valve behind the door is checked every week by the caretaker.",
}
QUESTION = "how long is the pump guaranteed"


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    ingested(database, tmp_path_factory.mktemp("acme"), "acme", FILES)
    yield database
    database.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    loaded: dict[str, Any] = {}  # of this test alone, whose connections end with it
    monkeypatch.setattr(registry, "_loaded", loaded)
    with openai_server() as one:
        yield one
        for embedder in loaded.values():
            getattr(embedder, "close", lambda: None)()


def of(server: OpenAIServer) -> BiEncoderReranker:
    fields = {"provider": "openai-compatible", "model": "x", "dimensions": DIMENSIONS}
    return BiEncoderReranker({**fields, "options": {"base_url": server.url}})


@faces
def test_candidates_of_one_model_are_ordered_by_the_cosines_of_another(world: Database, search: Search) -> None:
    reranker = BiEncoderReranker("static-256")
    retriever = RerankedRetriever(HybridRetriever(world), reranker, tau=0, limit_s=60)
    found = search(retriever, QUESTION, open_scope(world, "acme", "support"))
    assert found[0].source_name == "warranty.md"
    assert {one.source_name for one in found} == set(FILES)
    model = embedder_for(BUILTIN_PROFILES["static-256"])
    query = model.embed_query(QUESTION).vectors[0]
    for one in found:
        text = f"{one.citation['heading']}\n{one.content}" if not one.content.startswith("#") else one.content
        texts = [text, one.content, f"{one.citation.get('title')}\n{text}"]
        cosines = np.clip(model.embed_documents(texts).vectors @ query, 0, 1)
        assert np.abs(cosines - one.rerank_score).min() < 1e-5
    assert found.trace[-1]["model"] == "bi_encoder/wordllama/l2_supercat_256"
    assert found.trace[-1]["tokens"] > 0


def test_opposite_vectors_count_as_unrelated_and_blank_texts_get_no_score(server: OpenAIServer) -> None:
    texts = [f"text {number}" for number in range(12)]
    scores = dict(of(server).score("query", [*texts, " \n"], NOBODY).pairs)
    cosines = unit_vectors(texts) @ unit_vectors(["query"])[0]
    assert cosines.min() < 0
    assert [scores[index] for index in range(12)] == pytest.approx(np.maximum(cosines, 0).tolist(), abs=1e-6)
    assert len(scores) == 12


@faces
@pytest.mark.parametrize("behaviour", [stand_in.reset, stand_in.silence, stand_in.drip, stand_in.error(503)])
def test_a_server_that_is_down_slow_or_broken_leaves_the_order_before(
    world: Database, server: OpenAIServer, search: Search, behaviour: stand_in.Behaviour
) -> None:
    scope = open_scope(world, "acme", "support")
    expected = HybridRetriever(world).search(QUESTION, scope)
    server.script.extend([behaviour] * 20)
    started = time.monotonic()
    found = search(RerankedRetriever(HybridRetriever(world), of(server), limit_s=0.5), QUESTION, scope)
    assert time.monotonic() - started < 20
    assert list(found) == list(expected)
    assert found.degraded is not None
    assert found.degraded.startswith("not reranked (")
    assert "error" in found.trace[-1]


def test_after_its_time_it_asks_nothing_more(server: OpenAIServer) -> None:
    with pytest.raises(TimeLimitReached):
        of(server).score("query", ["text"], replace(NOBODY, wait_s=0))
    assert server.arrived == []


@pytest.mark.parametrize(
    ("profile", "error"),
    [
        ("mini-lm", InvalidArgument),
        (7, InvalidArgument),
        ({"provider": "wordllama"}, InvalidProfile),
        ({"provider": "wordllama", "model": "l2_supercat_256", "dimensions": 7}, InvalidProfile),
    ],
)
def test_what_is_no_profile_is_refused(profile: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        BiEncoderReranker(profile)


def test_a_profile_of_the_catalogue_is_named_in_a_file_and_checked_when_it_is_made(
    world: Database, server: OpenAIServer, tmp_path: Path
) -> None:
    options = {"base_url": server.url}
    add_spec(
        world,
        make_profile(name="large", provider="openai-compatible", model="x", dimensions=DIMENSIONS, options=options),
    )
    path = tmp_path / "reranked.toml"
    text = 'kind = "reranked"\ntau = 0\n[retriever]\nkind = "hybrid"\n[reranker]\nkind = "bi_encoder"\nprofile = "{}"\n'
    path.write_text(text.format("large"))
    found = load_retriever(world, path).search(QUESTION, open_scope(world, "acme", "support"))
    assert found.degraded is None
    assert found.trace[-1]["model"] == "bi_encoder/openai-compatible/x"
    assert server.arrived
    path.write_text(text.format("lrage"))
    with pytest.raises(UsageError, match=r"reranked\.toml, reranker: no profile 'lrage'; did you mean 'large'"):
        load_retriever(world, path)
    with pytest.raises(InvalidArgument, match="others by name need the database"):
        BiEncoderReranker("large")
    assert BiEncoderReranker("large", database=world).name == "bi_encoder/openai-compatible/x"
