"""What an ingest raises, and what its objects carry, can be logged and pickled: no key and no text is in it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_assets.embedding import registry
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.google import GoogleEmbedder
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.run import ingest
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.limits import PgGate
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support import google_server as google
from tests.support import openai_server as openai
from tests.support.embed_world import everything_said, fresh_embedders

TENANT, BOT = "acme", "support"
KEY, TEXT = "AIza-the-tenants-own-key", "the-tenants-own-words"


@dataclass
class Provider:
    """A profile, and how to let its server misbehave from now on."""

    profile: EmbeddingProfile
    misbehave: Callable[[str], None]


GOOGLE: dict[str, google.Behaviour] = {
    "401": google.error(401, "UNAUTHENTICATED"),
    "400 for the key": google.error(400, "INVALID_ARGUMENT", google.error_info("API_KEY_INVALID")),
    "503": google.error(503, TEXT),
    "cut": google.close_in_the_body,
    "words for vectors": google.rows(lambda right: [[KEY, TEXT]]),
    "no JSON": google.body(f"{KEY} {TEXT}".encode()),
}
OPENAI: dict[str, openai.Behaviour] = {
    "401": openai.error(401),
    "400 for the key": openai.error(400, code="invalid_api_key"),
    "503": openai.error(503),
    "cut": openai.close_in_the_body,
    "words for vectors": openai.data(lambda right: [{**right[0], "embedding": [KEY, TEXT]}]),
    "no JSON": openai.body(f"{KEY} {TEXT}".encode()),
}


@pytest.fixture(params=["google", "openai-compatible"])
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with fresh_embedders(monkeypatch):
        if request.param == "google":
            with google.google_server(monkeypatch) as server:
                monkeypatch.setenv("GEMINI_API_KEY", KEY)
                profile = google.google_profile(dimensions=128)
                yield Provider(hurried(profile), lambda name: server.script.extend([GOOGLE[name]] * 9))
        else:
            with openai.openai_server() as other:
                monkeypatch.setenv("STAND_IN_KEY", KEY)
                options = {"base_url": other.url, "key_env": "STAND_IN_KEY"}
                profile = make_profile(
                    name="other", provider="openai-compatible", model="plain", dimensions=16, options=options
                )
                yield Provider(hurried(profile), lambda name: other.script.extend([OPENAI[name]] * 9))


def hurried(profile: EmbeddingProfile) -> EmbeddingProfile:
    """Have the profile's embedder give up soon."""
    embedder_for(profile)
    (ask,) = registry._loaded
    kind = GoogleEmbedder if profile.provider == "google" else OpenAICompatibleEmbedder
    registry._loaded[ask] = kind(profile, google.QUICK, google.QUICK)
    return profile


@pytest.fixture
def tenant(database: Database, root: Path, provider: Provider) -> Database:
    (root / "corpus.jsonl").write_text(json.dumps({"_id": "1", "title": "", "text": f"It says {TEXT}."}))
    add_spec(database, provider.profile)
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(root))
    return database


@pytest.mark.parametrize("name", GOOGLE)
def test_no_error_of_an_ingest_carries_the_key_or_a_text(tenant: Database, provider: Provider, name: str) -> None:
    provider.misbehave(name)
    with pytest.raises(EmbeddingError, match=f"{provider.profile.provider}/{provider.profile.model}") as caught:
        ingest(tenant, TENANT, BOT, provider.profile.name)
    said = everything_said(caught.value)
    assert "embed_documents" in said, "the traceback has to be a part of it"
    assert KEY not in said
    assert TEXT not in said


def carried(thing: Any) -> bytes:
    """What a pickle of it would carry to another process; nothing if it cannot be pickled."""
    try:
        return pickle.dumps(thing)
    except (TypeError, AttributeError):
        return b""


def test_neither_an_embedder_nor_what_it_works_with_carries_the_key(tenant: Database, provider: Provider) -> None:
    profile = provider.profile
    ingest(tenant, TENANT, BOT, profile.name)
    embedder = embedder_for(profile)
    gate = PgGate(tenant, TENANT, BOT, profile)
    cache = PgVectorCache(tenant, TENANT, BOT, profile.name)
    gate.acquire(1, 1)
    caller = Caller(TENANT, BOT, gate)
    answer = embedder.embed_documents(["another text"], caller)
    for thing in (embedder, gate, cache, caller, answer, profile):
        shown = f"{thing!r} {vars(thing)!r} {carried(thing)!r}"
        assert KEY not in shown, type(thing).__name__
    assert carried(embedder) == b"", "it would have to leave out the key, and then could not embed"
