from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import ProviderRefused, RagError, UnknownBot, UnknownProfile
from rag_assets.launch.ingest import IngestOutcome, materialize_ingest
from rag_assets.launch.instance import dagster_environment, dagster_instance, purge_dagster, remove_staged
from rag_assets.settings import load_settings
from rag_assets.store.profiles import add_spec
from rag_assets.store.tenants import add_tenant
from tests.support.dagster_world import PROFILE, World


def ingest(world: World, bot: str = "help", profile: str = PROFILE.name) -> IngestOutcome:
    return materialize_ingest(world.database, load_settings(), "acme", bot, profile)


@pytest.mark.slow
def test_an_ingest_reports_what_it_did_for_the_bot_and_prints_nothing(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    root, other = world.tenant("acme", profile=None), world.tenant("acme", "docs")
    (root / "a.txt").write_text("The pump is dry.")
    (root / "b.txt").write_text("The valve is shut.")
    (root / "bad.pdf").write_bytes(b"%PDF-1.7 this is not one")
    (root / "empty.txt").write_text("")
    (other / "c.txt").write_text("Not of this bot.")
    before = dict(os.environ)

    first = ingest(world)
    assert first.sources == {"ready": 2, "unchanged": 0, "failed": 1, "no_text": 1, "deleted": 0}
    assert (first.chunks_written, first.embedded, first.cache_hits, first.activated) == (2, 2, 0, True)
    assert [failure.name for failure in first.failures] == ["bad.pdf"]
    assert first.seconds > 0
    assert first.startup_seconds > 0

    (root / "b.txt").unlink()
    (root / "a.txt").write_text("The pump is wet.")
    second = ingest(world)
    assert second.sources == {"ready": 1, "unchanged": 0, "failed": 1, "no_text": 1, "deleted": 1}
    assert second.chunks_written == 1

    third = ingest(world)
    assert third.sources == {"ready": 0, "unchanged": 1, "failed": 1, "no_text": 1, "deleted": 0}
    assert (third.chunks_written, third.embedded, third.activated) == (0, 0, False)
    assert world.served("acme") == ["The pump is wet."]

    assert dict(os.environ) == before
    assert capfd.readouterr() == ("", "")
    with dagster_instance(load_settings()) as instance:
        recorded = {run.run_id: run for run in instance.get_runs()}
        assert set(first.run_ids + second.run_ids + third.run_ids) == set(recorded)
        assert all(run.is_success for run in recorded.values())
        assert instance.get_dynamic_partitions("tenant") == ["acme"]
    assert remove_staged(load_settings(), "acme") == 2
    assert remove_staged(load_settings(), "acme") == 0
    assert purge_dagster(load_settings(), "acme") == 6
    with dagster_instance(load_settings()) as instance:
        assert instance.get_runs() == []
        assert instance.get_dynamic_partitions("tenant") == []


@pytest.mark.slow
def test_a_run_that_fails_says_which_step_and_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    blocked = world.folder / "a file"
    blocked.write_text("")
    monkeypatch.setenv("RAG_STORAGE", str(blocked / "storage"))
    with pytest.raises(RagError, match=r"Not a directory.*step chunks, run") as caught:
        ingest(world)
    assert "Traceback" not in str(caught.value)
    monkeypatch.delenv("RAG_STORAGE")
    assert ingest(world).sources["ready"] == 1


def test_the_error_of_a_step_comes_out_as_the_error_that_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    keyless = make_profile(name="keyless", provider="google", model="gemini-embedding-001", dimensions=768)
    add_spec(world.database, keyless)
    with pytest.raises(
        ProviderRefused, match=r"needs a key.* \(step profile_embeddings, run [0-9a-f-]{36}\)$"
    ) as caught:
        ingest(world, profile="keyless")
    own = caught.value.__cause__
    assert isinstance(own, ProviderRefused)
    assert traceback.extract_tb(own.__traceback__)[-1].filename.endswith("providers/requests.py")
    with dagster_instance(load_settings()) as instance:
        run = instance.get_run_by_id(str(caught.value)[-37:-1])
        assert run is not None
        assert run.is_failure


def test_unknown_names_start_no_run(world: World) -> None:
    add_tenant(world.database, "acme", "help")
    with pytest.raises(UnknownBot):
        ingest(world, bot="other")
    with pytest.raises(UnknownProfile):
        ingest(world, profile="no-such-profile")
    assert not load_settings().dagster_home.exists()


def test_the_environment_names_the_storage_beside_the_database(world: World) -> None:
    environment = dagster_environment(load_settings())
    assert environment["DATABASE_URL"] == world.database.url
    assert environment["DAGSTER_PG_URL"].startswith("postgresql+psycopg2://")
    assert "_dagster?" in environment["DAGSTER_PG_URL"]
    home = Path(environment["DAGSTER_HOME"])
    (home / "dagster.yaml").write_text("stale: true")
    dagster_environment(load_settings())
    assert "stale" not in (home / "dagster.yaml").read_text()


def test_an_open_instance_leaves_the_environment_of_other_threads_as_it_is(world: World) -> None:
    before = dict(os.environ)
    with dagster_instance(load_settings()) as instance:
        assert dict(os.environ) == before
        assert instance.get_runs() == []


def test_a_storage_of_ones_own_is_taken_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_PG_URL", "postgresql+psycopg2://else/where")
    assert dagster_environment(load_settings())["DAGSTER_PG_URL"] == "postgresql+psycopg2://else/where"


_PARENT = """
import os, sys
from rag_assets.launch.dev import run_child
child = "import signal, sys, time\\n" \\
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\\n" \\
        "print('up', flush=True)\\n" \\
        "time.sleep(60)"
sys.exit(run_child("-c", child, environment=dict(os.environ)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 7), (signal.SIGINT, 1)])
def test_the_child_is_told_to_end_and_its_exit_code_comes_back(number: signal.Signals, code: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # As `&` in a script does it: the child must end at Ctrl-C all the same.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    began = time.monotonic()
    parent.send_signal(number)
    ended = parent.wait(timeout=100)
    parent.stdout.close()
    assert ended in (code, -number, 256 - number)
    assert time.monotonic() - began < 50, "it waited for the end of its minute"
