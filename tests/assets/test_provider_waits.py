"""Runs that nobody waits for do not hold their slot for a provider that fails."""

from __future__ import annotations

import pytest

from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.refused import PROBE
from rag_assets.ingest.pairs import enable_pair
from rag_assets.partitions import ensure_partitions, pair_key
from rag_assets.store.profiles import add_spec
from tests.support.dagster_world import World
from tests.support.embed_world import fresh_embedders
from tests.support.openai_server import error, openai_server

pytestmark = pytest.mark.slow  # runs of Dagster


def test_a_run_of_a_sensor_gives_a_failing_provider_up_sooner(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    root = world.tenant("acme", profile=None)
    (root / "a.txt").write_text("The pump is dry.")
    monkeypatch.setenv("RAG_SENSOR_PROVIDER_WAIT_S", "0.5")
    with openai_server() as server, fresh_embedders(monkeypatch):
        options = {"base_url": server.url}
        profile = make_profile(name="o", provider="openai-compatible", model="m", dimensions=16, options=options)
        add_spec(world.database, profile)
        enable_pair(world.database, "acme", "help", profile.name)
        ensure_partitions(world.instance, ["acme"], [profile.name])
        server.script.extend([error(503)] * 8)
        assert world.run(SOURCES_JOB, "acme").success
        run = world.run(PAIR_JOB, pair_key("acme", profile.name), tags={"dagster/sensor_name": "new_sources"})
        assert not run.success
        assert [arrived.texts for arrived in server.arrived] == [["The pump is dry."], [PROBE]]
