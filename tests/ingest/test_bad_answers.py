"""What a provider answers wrongly is stored nowhere, and asked for again; what is wrong for one text is its alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support import google_server as google
from tests.support import openai_server as openai
from tests.support.embed_world import GOOGLE_PREFIX, cached, embedded_items, fresh_embedders, rows, served, statuses
from tests.support.google_server import GoogleServer
from tests.support.openai_server import OpenAIServer

TENANT, BOT = "acme", "support"
GOOGLE = make_profile(name="gemini", provider="google", model="gemini-embedding-2", dimensions=768)
TEXTS = ["The pump is dry.", "The valve is shut.", "The hose is new."]


@dataclass
class World:
    """One bot with one file of texts, and the profile that embeds them."""

    url: str
    ingest: Callable[[], IngestReport]

    def assert_nothing_is_stored(self) -> None:
        assert (cached(self.url), embedded_items(self.url), served(self.url)[0]) == (0, 0, [])

    def assert_all_is_served(self, vectors: Callable[[list[str]], Any], probes: int = 0) -> None:
        texts, stored = served(self.url)
        assert texts == sorted(TEXTS)
        np.testing.assert_allclose(stored, vectors(texts), atol=1e-6)
        assert statuses(self.url) == {"ready": len(TEXTS)}
        assert embedded_items(self.url) == len(TEXTS) + probes


def make_world(database: Database, root: Path, profile: EmbeddingProfile, texts: list[str]) -> World:
    lines = (json.dumps({"_id": str(number), "text": text}) for number, text in enumerate(texts))
    (root / "corpus.jsonl").write_text("\n".join(lines))
    add_spec(database, profile)
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(root))
    return World(database.url, lambda: ingest(database, TENANT, BOT, profile.name))


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleServer]:
    with google.google_server(monkeypatch) as server, fresh_embedders(monkeypatch):
        yield server


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with openai.openai_server() as server, fresh_embedders(monkeypatch):
        yield server


def by_gemini(texts: list[str]) -> Any:
    return google.unit_vectors([GOOGLE_PREFIX + text for text in texts], GOOGLE.dimensions)


def mean(right: list[list[float]]) -> list[float]:
    merged: list[float] = np.mean(right, axis=0).tolist()
    return merged


BAD_VECTORS: dict[str, google.Behaviour] = {
    "three merged into one": google.rows(lambda right: [mean(right)]),
    "two for three": google.rows(lambda right: right[:2]),
    "3072 dimensions for 768": google.rows(lambda right: [row * 4 for row in right]),
    "NaN": google.rows(lambda right: [right[0], [math.nan, *right[1][1:]], right[2]]),
    "zeros": google.rows(lambda right: [right[0], right[1], [0.0] * 768]),
    "one without values": google.rows(lambda right: [None, *right[1:]]),
    "none at all": google.body(b"{}"),
}


@pytest.mark.parametrize("behaviour", BAD_VECTORS.values(), ids=BAD_VECTORS)
def test_wrong_vectors_are_not_stored_and_asked_for_again_in_smaller_requests(
    database: Database, root: Path, gemini: GoogleServer, behaviour: google.Behaviour
) -> None:
    world = make_world(database, root, GOOGLE, TEXTS)
    gemini.script.append(behaviour)
    world.ingest()
    world.assert_all_is_served(by_gemini, probes=1)
    sizes = [len(arrived.texts) for arrived in gemini.embeds]
    assert sizes == [3, 1, 1, 2], "the whole, a word to see whether anything is embedded, and both halves"


ALWAYS_BAD: dict[str, google.Behaviour] = {
    "two for one": google.rows(lambda right: [*right, right[0]]),
    "3072 dimensions for 768": google.rows(lambda right: [row * 4 for row in right]),
    "NaN": google.rows(lambda right: [[math.nan] * 768 for _ in right]),
    "zeros": google.rows(lambda right: [[0.0] * 768 for _ in right]),
    "without values": google.rows(lambda right: [None for _ in right]),
    "none at all": google.body(b"{}"),
}


@pytest.mark.parametrize("behaviour", ALWAYS_BAD.values(), ids=ALWAYS_BAD)
def test_vectors_that_are_always_wrong_fail_the_run_and_leave_nothing_behind(
    database: Database, root: Path, gemini: GoogleServer, behaviour: google.Behaviour
) -> None:
    world = make_world(database, root, GOOGLE, TEXTS)
    gemini.script.extend([behaviour] * 2)
    with pytest.raises(EmbeddingError, match="google/gemini-embedding-2") as caught:
        world.ingest()
    assert type(caught.value) is EmbeddingError, "a text was blamed for what the provider did"
    world.assert_nothing_is_stored()
    assert statuses(world.url) == {"processing": len(TEXTS)}
    assert rows(world.url, "SELECT * FROM rag.source_profiles") == []
    assert rows(world.url, "SELECT * FROM rag.refused_texts") == []
    assert len(gemini.embeds) == 2, "another try costs as much, and makes nothing better"

    assert world.ingest().embeddings.embedded == len(TEXTS)
    world.assert_all_is_served(by_gemini)


def test_what_was_served_before_wrong_vectors_came_is_served_after(
    database: Database, root: Path, gemini: GoogleServer
) -> None:
    world = make_world(database, root, GOOGLE, TEXTS)
    world.ingest()
    changed = (root / "corpus.jsonl").read_text().replace(TEXTS[0], "The pump is wet.")
    (root / "corpus.jsonl").write_text(changed)
    gemini.script.extend([google.rows(lambda right: [[0.0] * 768])] * 2)
    with pytest.raises(EmbeddingError, match="all zeros"):
        world.ingest()
    assert served(world.url)[0] == sorted(TEXTS)
    world.ingest()
    assert served(world.url)[0] == sorted(["The pump is wet.", *TEXTS[1:]])


def refuse(*bad: str) -> google.Behaviour:
    """400 for a request that holds one of these texts, as Google does."""

    def behave(reply: google.Reply) -> None:
        refused = any(GOOGLE_PREFIX + text in reply.arrived.texts for text in bad)
        (google.error(400, "INVALID_ARGUMENT") if refused else google.embed)(reply)

    return behave


@pytest.mark.parametrize("bad", [[17], [0, 63], [5, 6, 40]], ids=str)
def test_a_text_that_is_refused_fails_its_source_and_all_others_are_published(
    database: Database, root: Path, gemini: GoogleServer, bad: list[int]
) -> None:
    texts = [f"Shelf {number:02} holds part {number * 31}." for number in range(64)]
    refused = [texts[number] for number in bad]
    world = make_world(database, root, GOOGLE, texts)
    gemini.script.extend([refuse(*refused)] * 200)

    report = world.ingest()

    good = [text for text in texts if text not in refused]
    stored, vectors = served(world.url)
    assert stored == good
    np.testing.assert_allclose(vectors, by_gemini(stored), atol=1e-6)
    assert statuses(world.url) == {"ready": len(good), "failed": len(bad)}
    reason = "cannot be embedded: google/gemini-embedding-2 refuses the text: HTTP 400 (INVALID_ARGUMENT)"
    failed = rows(world.url, "SELECT name, error_message FROM rag.knowledge_sources WHERE status = 'failed'")
    assert dict(failed) == {str(n): f"{reason} (chunk 1, which begins “{texts[n]}”)" for n in bad}
    assert {failure.name: failure.error for failure in report.embeddings.failures} == dict(failed)
    halvings = math.ceil(math.log2(len(texts)))
    assert len(gemini.embeds) <= 1 + 2 * halvings * len(bad)
    assert gemini.paid == {GOOGLE_PREFIX + text: 1 for text in good}, "each good text is paid for once"
    assert embedded_items(world.url) == len(good)

    asked = len(gemini.embeds)
    world.ingest()
    assert len(gemini.embeds) == asked, "what was refused is not sent again"


def openai_profile(server: OpenAIServer) -> EmbeddingProfile:
    options = {"base_url": server.url}
    return make_profile(name="other", provider="openai-compatible", model="plain", dimensions=16, options=options)


def test_results_in_another_order_are_put_where_their_index_says(
    database: Database, root: Path, other: OpenAIServer
) -> None:
    world = make_world(database, root, openai_profile(other), TEXTS)
    other.script.append(openai.data(lambda right: [right[2], right[0], right[1]]))
    world.ingest()
    assert len(other.arrived) == 1
    world.assert_all_is_served(openai.unit_vectors)


def index_is(position: int, index: int | None) -> openai.Behaviour:
    def change(right: list[dict[str, Any]]) -> list[Any]:
        right[position]["index"] = index
        return right

    return openai.data(change)


BAD_INDICES: dict[str, openai.Behaviour] = {
    "one missing": index_is(1, None),
    "one twice": index_is(1, 2),
    "one out of range": index_is(1, 3),
    "two entries for three": openai.data(lambda right: [right[0], right[2]]),
}


@pytest.mark.parametrize("behaviour", BAD_INDICES.values(), ids=BAD_INDICES)
def test_results_whose_texts_are_not_certain_are_not_believed(
    database: Database, root: Path, other: OpenAIServer, behaviour: openai.Behaviour
) -> None:
    world = make_world(database, root, openai_profile(other), TEXTS)
    other.script.append(behaviour)
    world.ingest()
    assert [len(arrived.texts) for arrived in other.arrived] == [3, 1, 1, 2]
    world.assert_all_is_served(openai.unit_vectors, probes=1)
