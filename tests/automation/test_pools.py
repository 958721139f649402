"""At most so many runs embed at once, and none that was killed counts among them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import dagster as dg
import pytest

from rag_assets.assets.embeddings import profile_embeddings
from rag_assets.embedding.profiles import ProviderOptions, make_profile
from rag_assets.errors import UsageError
from rag_assets.launch.ingest import materialize_ingest
from rag_assets.launch.instance import dagster_instance
from rag_assets.runs.pools import DEFAULT_SLOTS, EMBEDDING_POOL, free_slots_of_ended_runs, prepare_pool
from rag_assets.settings import bundled, load_settings
from rag_assets.store.profiles import add_spec
from tests.support.dagster_world import PROFILE, World


def _slots(instance: dg.DagsterInstance) -> int | None:
    return {limit.name: limit.limit for limit in instance.event_log_storage.get_pool_limits()}.get(EMBEDDING_POOL)


def test_the_step_that_embeds_takes_a_slot_and_no_default_is_set_for_pools() -> None:
    assert profile_embeddings.op.pool == EMBEDDING_POOL
    text = bundled("dagster.yaml").read_text()
    assert "default_limit" not in text
    assert "free_slots_after_run_end_seconds" in text


def test_the_pool_has_the_slots_that_were_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with dagster_instance(load_settings()) as instance:
        assert _slots(instance) == DEFAULT_SLOTS
        instance.event_log_storage.set_concurrency_slots(EMBEDDING_POOL, 2)  # as an earlier version did by itself
        prepare_pool(instance)
        assert _slots(instance) == DEFAULT_SLOTS
        instance.event_log_storage.set_concurrency_slots(EMBEDDING_POOL, 5)  # as somebody does in the UI
        prepare_pool(instance)
        assert _slots(instance) == 5
        monkeypatch.setenv("RAG_EMBEDDING_POOL", "3")
        prepare_pool(instance)
        assert _slots(instance) == 3
        for wrong in ("0", "-1", "many", "2.5", "1001"):
            monkeypatch.setenv("RAG_EMBEDDING_POOL", wrong)
            with pytest.raises(UsageError, match="RAG_EMBEDDING_POOL"):
                prepare_pool(instance)


@pytest.mark.slow
def test_a_killed_run_gives_its_slot_back_to_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EMBEDDING_POOL", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the request, and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        hanging = make_profile(
            name="hanging", provider="openai-compatible", model="anything", dimensions=64,
            options=ProviderOptions(base_url=address),
        )  # fmt: skip
        add_spec(world.database, hanging)
        (world.tenant("acme", profile=None) / "a.txt").write_text("The pump is dry.")
        (world.tenant("bolt") / "b.txt").write_text("The valve is shut.")
        words = ["ingest", "--tenant", "acme", "--bot", "help", "--profile", "hanging"]
        killed = subprocess.Popen(
            [sys.executable, "-m", "rag_assets.cli", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        silent.settimeout(60)
        silent.accept()[0].close()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    with dagster_instance(load_settings()) as instance:
        (held,) = instance.event_log_storage.get_concurrency_run_ids()
        assert free_slots_of_ended_runs(instance) == []  # nobody knows yet that it is over
    outcome = materialize_ingest(world.database, load_settings(), "bolt", "help", PROFILE.name)
    assert outcome.chunks_written == 1
    with dagster_instance(load_settings()) as instance:
        run = instance.get_run_by_id(held)
        assert run is not None
        assert run.status is dg.DagsterRunStatus.FAILURE
        assert not instance.event_log_storage.get_concurrency_run_ids()
    assert os.environ["RAG_EMBEDDING_POOL"] == "1"
