"""The vectors of two servers, or of two sets of files, never meet: neither through the cache nor in one profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.errors import ProviderRefused
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import DenseRetriever, HybridRetriever, LexicalRetriever, open_scope
from rag_assets.store.database import Database
from tests.support.embed_world import fresh_embedders, rows
from tests.support.openai_server import OpenAIServer, openai_server

TENANT, BOT = "acme", "support"


def profile(name: str = "o", **options: str) -> EmbeddingProfile:
    return make_profile(name=name, provider="openai-compatible", model="plain", dimensions=16, options=options)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OpenAIServer, OpenAIServer]]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in")
    with openai_server() as one, openai_server() as other, fresh_embedders(monkeypatch):
        yield one, other


def test_another_server_of_the_environment_is_not_served_the_vectors_of_the_first(
    database: Database, root: Path, servers: tuple[OpenAIServer, OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("The pump is dry.")
    one, other = servers
    monkeypatch.setenv("OPENAI_BASE_URL", one.url)
    ingest(database, TENANT, "first", profile(), [root])
    monkeypatch.setenv("OPENAI_BASE_URL", other.url + "/")
    report = ingest(database, TENANT, "second", profile(), [root])
    assert (report.embeddings.cache_hits, report.embeddings.embedded, len(other.arrived)) == (0, 1, 1)
    monkeypatch.setenv("OPENAI_BASE_URL", one.url)
    assert ingest(database, TENANT, "third", profile(), [root]).embeddings.cache_hits == 1


def test_a_profile_that_was_built_by_one_server_is_neither_added_to_nor_searched_by_another(
    database: Database, root: Path, servers: tuple[OpenAIServer, OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("The pump is dry.")
    one, other = servers
    monkeypatch.setenv("OPENAI_BASE_URL", one.url)
    ingest(database, TENANT, BOT, profile(), [root])
    scope = open_scope(database, TENANT, BOT)
    assert len(DenseRetriever(database).search("the pump", scope)) == 1

    monkeypatch.setenv("OPENAI_BASE_URL", other.url)
    (root / "b.txt").write_text("The valve is shut.")
    with pytest.raises(ProviderRefused, match="OPENAI_BASE_URL now means") as caught:
        ingest(database, TENANT, BOT, profile())
    assert one.url in str(caught.value)
    assert other.url in str(caught.value)
    with pytest.raises(ProviderRefused, match="two models would meet"):
        DenseRetriever(database).search("the pump", open_scope(database, TENANT, BOT))
    hybrid = HybridRetriever(database).search("the pump", open_scope(database, TENANT, BOT))
    assert other.url in (hybrid.degraded or "")
    assert len(hybrid) == len(LexicalRetriever(database).search("the pump", open_scope(database, TENANT, BOT))) == 1
    assert other.arrived == []

    monkeypatch.setenv("OPENAI_BASE_URL", one.url)
    assert ingest(database, TENANT, BOT, profile()).embeddings.embedded == 1


def test_what_was_embedded_before_anybody_wrote_it_down_is_taken_for_that_of_now(
    database: Database, root: Path, servers: tuple[OpenAIServer, OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("The pump is dry.")
    monkeypatch.setenv("OPENAI_BASE_URL", servers[0].url)
    ingest(database, TENANT, BOT, profile(), [root])
    with psycopg.connect(database.url) as connection:  # as a database of the version before is
        connection.execute("SET session_replication_role = replica")  # no trigger
        connection.execute("UPDATE rag.embedding_profiles SET origin = NULL")
    assert ingest(database, TENANT, BOT, profile()).embeddings.chunks == 0
    (root / "b.txt").write_text("The valve is shut.")
    ingest(database, TENANT, BOT, profile())
    assert rows(database.url, "SELECT origin FROM rag.embedding_profiles") == [(servers[0].url,)]
    monkeypatch.setenv("OPENAI_BASE_URL", servers[1].url)
    (root / "c.txt").write_text("The hose is new.")
    with pytest.raises(ProviderRefused):
        ingest(database, TENANT, BOT, profile())


def test_the_providers_own_address_is_no_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)
    gemini = make_profile(name="g", provider="google", model="gemini-embedding-2", dimensions=768)
    usual = [profile().model_key, gemini.model_key]
    assert usual == ["openai-compatible:plain:16:bee5647bea87", "google:gemini-embedding-2:768:a3874f8c1997"]
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1/")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com/")
    assert [profile().model_key, gemini.model_key] == usual
    monkeypatch.setenv("OPENAI_BASE_URL", "http://tei:8080/v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://proxy")
    assert profile().model_key == profile("named", base_url="http://tei:8080/v1").model_key
    assert not {profile().model_key, gemini.model_key} & set(usual)


def test_other_files_in_a_folder_are_another_model(tmp_path: Path) -> None:
    def local() -> EmbeddingProfile:
        return make_profile(name="l", provider="sentence-transformers", model=str(tmp_path), dimensions=8)

    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "weights").write_bytes(bytes(1000))
    first, origin = local().model_key, local().origin
    assert local().model_key == first
    (tmp_path / "weights").write_bytes(bytes(999) + b"1")
    assert local().model_key != first
    assert local().origin != origin
    (tmp_path / "weights").write_bytes(bytes(1000))
    assert local().model_key == first, "the same bytes are the same model, whenever they were written"


def test_a_password_in_an_address_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://user:sesame@proxy/gemini")
    gemini = make_profile(name="g", provider="google", model="gemini-embedding-2", dimensions=768)
    assert gemini.origin is not None
    assert gemini.origin.place == "https://user:***@proxy/gemini"
    assert "sesame" not in gemini.model_key
