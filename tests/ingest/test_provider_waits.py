"""How long an ingest goes on asking a provider that fails is a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.openai import OpenAICompatibleEmbedder
from rag_assets.embedding.providers.requests import RetryPolicy
from rag_assets.embedding.refused import PROBE
from rag_assets.errors import ProviderUnavailable
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from tests.support.embed_world import fresh_embedders, statuses
from tests.support.openai_server import error, openai_server


def test_a_provider_that_fails_is_given_up_when_the_time_that_was_set_is_over(
    database: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("The pump is dry.")
    monkeypatch.setenv("RAG_PROVIDER_WAIT_S", "0.5")
    with openai_server() as server, fresh_embedders(monkeypatch):
        options = {"base_url": server.url}
        profile = make_profile(name="o", provider="openai-compatible", model="m", dimensions=16, options=options)
        server.script.extend([error(503)] * 8)
        with pytest.raises(ProviderUnavailable, match="in 1 try"):
            ingest(database, "acme", "support", profile, [root])
        assert [arrived.texts for arrived in server.arrived] == [["The pump is dry."], [PROBE]]
    assert statuses(database.url) == {"processing": 1}


@pytest.mark.parametrize(("wait_s", "tries"), [(None, 3), (0.5, 1)])
def test_who_waits_less_is_told_sooner(wait_s: float | None, tries: int) -> None:
    policy = RetryPolicy(attempts=3, first_wait=0.01)
    with openai_server() as server:
        options = {"base_url": server.url}
        profile = make_profile(name="o", provider="openai-compatible", model="m", dimensions=16, options=options)
        embedder = OpenAICompatibleEmbedder(profile, policy if wait_s is None else RetryPolicy(), policy)
        server.script.extend([error(503)] * 8)
        with pytest.raises(ProviderUnavailable):
            embedder.embed_documents(["a"], Caller(wait_s=wait_s))
        embedder.close()
        assert len(server.arrived) == tries


def test_time_is_taken_away_from_a_policy_and_never_added() -> None:
    policy = RetryPolicy(deadline_seconds=60)
    assert [policy.within(seconds).deadline_seconds for seconds in (None, 20, 600)] == [60, 20, 60]
