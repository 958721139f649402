"""Files that cannot be embedded, or not now: their text is, nothing is stored wrong, and nothing is paid for twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.errors import CostCeilingReached, ProviderRefused, ProviderUnavailable
from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.embeddings import EmbedReport
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.publication import publish_chunks
from rag_assets.ingest.sources import sync_sources
from rag_assets.store.database import Database
from rag_assets.store.limits import set_profile_settings
from rag_assets.store.profiles import built_profiles
from rag_assets.store.refused import forget_refused_texts
from rag_assets.store.sources import profile_lag
from tests.support.google_batch_server import google_batches
from tests.support.google_server import Behaviour, Reply, embed, error, quota_failure, rows
from tests.support.media_world import BOT, PROFILE, TENANT, MediaWorld, media_world, picture, small_pdf
from tests.support.stages import cut, embedded

WORKER = Path(__file__).parents[1] / "support/workers/embed_worker.py"
PDF, PNG = "application/pdf", "image/png"


@pytest.fixture
def world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MediaWorld]:
    with media_world(database, root, monkeypatch) as made:
        yield made


def staged(world: MediaWorld) -> ChunkFile:
    """The chunks of what lies in the root now."""
    built = enable_pair(world.database, TENANT, BOT, PROFILE.name)
    sync_sources(world.database, TENANT, BOT)
    return cut(world.database, [built], world.root.parent)


def go_on(world: MediaWorld, chunks: ChunkFile) -> EmbedReport:
    """Embed and publish staged chunks."""
    built = enable_pair(world.database, TENANT, BOT, PROFILE.name)
    ready, report = embedded(world.database, [built], chunks, world.root.parent)
    publish_chunks(world.database, [built], ready)
    return report


def test_the_text_of_a_file_that_is_too_large_is_published(world: MediaWorld) -> None:
    world.write(plan_png=picture(1, "The pump") + bytes(3_000_000), kept_png=picture())
    report = world.ingest()
    assert world.chunks() == [("kept.png", "kept.png", PNG), ("plan.png", "The pump", None)]
    (refused,) = report.embeddings.media_refused
    assert "too many for one request" in refused.error
    assert report.embeddings.failures == []
    assert world.ingest().chunks.chunks == 0


def test_a_file_that_is_refused_and_has_no_text_fails_alone_and_is_not_sent_again_unasked(world: MediaWorld) -> None:
    world.write(plan_png=picture(1), kept_png=picture())
    world.google.script.append(error(400, "INVALID_ARGUMENT"))
    report = world.ingest()
    ((kept, _, _),) = world.chunks()
    assert len(report.embeddings.failures) == 1
    assert report.publication.activated == [BOT]
    failed = {"kept.png": "plan.png", "plan.png": "kept.png"}[kept]
    assert world.states()[failed] == ("no_text", "failed")
    world.ingest()
    assert (world.states()[failed], world.media_sent()) == (("no_text", "failed"), 2)
    assert forget_refused_texts(world.database, TENANT) == 1
    world.ingest()
    assert [name for name, _, _ in world.chunks()] == ["kept.png", "plan.png"]
    assert world.states()[failed] == ("no_text", "ready")


@pytest.mark.parametrize(
    "answer",
    [
        rows(lambda right: [None]),
        rows(lambda right: []),
        rows(lambda right: [right[0][:64]]),
        rows(lambda right: [[float("nan")] * 128]),
        rows(lambda right: [[0.0] * 128]),
    ],
    ids=["no values", "no vector", "short", "NaN", "zeros"],
)
def test_a_wrong_answer_for_a_file_is_not_stored_and_stops_nothing(world: MediaWorld, answer: Behaviour) -> None:
    world.write(oil_pdf=small_pdf(1))
    world.google.script += [embed, answer]
    report = world.ingest()
    assert [kind for _, _, kind in world.chunks()] == [None]
    assert len(report.embeddings.media_refused) == 1
    assert world.rows("SELECT count(*) FROM rag.embedding_cache") == [(1,)]


def test_a_key_that_is_refused_stops_the_run_and_is_held_against_no_file(world: MediaWorld) -> None:
    world.write(plan_png=picture())
    world.google.script.append(error(403, "PERMISSION_DENIED"))
    with pytest.raises(ProviderRefused):
        world.ingest()
    assert world.states()["plan.png"] == ("no_text", None)
    world.ingest()
    assert len(world.chunks()) == 1


def test_a_file_that_changed_meanwhile_comes_with_its_next_version(world: MediaWorld) -> None:
    world.write(plan_png=picture(1), shown_png=picture(2, "The pump"))
    chunks = staged(world)
    world.write(plan_png=picture(3), shown_png=picture(4, "The pump"))
    report = go_on(world, chunks)
    assert (report.media_changed, report.media, report.failures) == (2, 0, [])
    assert world.chunks() == [("shown.png", "The pump", None)]
    assert world.media_sent() == 0
    world.ingest()
    assert [kind for _, _, kind in world.chunks()] == [PNG, None, PNG]


def test_a_file_behind_a_link_that_came_later_is_not_sent(world: MediaWorld, tmp_path: Path) -> None:
    """Although it is the same to the byte: nobody has said that it may be read."""
    world.write(plan_png=picture(1))
    chunks = staged(world)
    (world.root / "plan.png").rename(tmp_path / "elsewhere.png")
    (world.root / "plan.png").symlink_to(tmp_path / "elsewhere.png")
    report = go_on(world, chunks)
    assert ["outside of its root" in failure.error for failure in report.failures] == [True]
    assert world.media_sent() == 0


def test_a_file_that_cannot_be_read_now_fails_with_its_text_and_is_tried_again(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(1), other_txt=b"Opening hours")
    chunks = staged(world)
    (world.root / "oil.pdf").rename(world.root / "aside")
    report = go_on(world, chunks)
    assert [failure.error.startswith("its file cannot be embedded") for failure in report.failures] == [True]
    assert [name for name, _, _ in world.chunks()] == ["other.txt"]
    (world.root / "aside").rename(world.root / "oil.pdf")
    world.ingest()
    assert [(name, kind) for name, _, kind in world.chunks()] == [
        ("oil.pdf", None), ("oil.pdf", PDF), ("other.txt", None)
    ]  # fmt: skip
    assert world.states()["oil.pdf"] == ("ready", "ready")


def test_a_version_that_is_no_longer_current_is_not_published(world: MediaWorld) -> None:
    world.write(plan_png=picture(1), shown_png=picture(2, "The pump"))
    built = enable_pair(world.database, TENANT, BOT, PROFILE.name)
    ready, _ = embedded(world.database, [built], staged(world), world.root.parent)
    world.write(plan_png=picture(3), shown_png=picture(4, "The pump"))
    sync_sources(world.database, TENANT, BOT)
    assert publish_chunks(world.database, [built], ready).superseded == 2
    assert world.chunks() == []


def test_a_ceiling_stops_before_a_file_that_would_go_beyond_it(world: MediaWorld) -> None:
    world.write(**{f"plan{number}_png": picture(number) for number in range(4)})
    set_profile_settings(world.database, PROFILE.name, max_cost_usd=0.0003)
    with pytest.raises(CostCeilingReached):
        world.ingest()
    assert world.media_sent() == 3
    set_profile_settings(world.database, PROFILE.name, max_cost_usd=1.0)
    world.ingest()
    assert world.media_sent() == len(world.chunks()) == 4


def test_what_came_before_an_outage_is_not_paid_for_again(world: MediaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(**{f"plan{number}_png": picture(number) for number in range(4)})
    world.google.script += [embed, embed, error(429, "RESOURCE_EXHAUSTED", quota_failure("RequestsPerDay"))]
    with pytest.raises(ProviderUnavailable):
        world.ingest()
    world.rows("DELETE FROM rag.rate_blocks")
    world.ingest()
    assert len(world.chunks()) == 4
    assert sorted(world.google.paid.values()) == [1, 1, 1, 1]


@pytest.mark.slow
def test_a_run_that_is_killed_pays_again_for_one_file_at_most(world: MediaWorld) -> None:
    files = 6
    world.write(**{f"plan{number}_png": picture(number) for number in range(files)})
    workers: list[subprocess.Popen[bytes]] = []

    def kill(reply: Reply) -> None:
        embed(reply)
        workers[0].kill()

    world.google.script += [embed, embed, kill]
    command = [sys.executable, str(WORKER), world.database.url, TENANT, BOT, PROFILE.name]
    workers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    assert workers[0].wait(timeout=120) == -signal.SIGKILL
    assert world.chunks() == []
    world.ingest()
    assert len(world.chunks()) == files
    assert set(world.google.paid) == set(world.google.sent)
    assert len(world.google.paid) == files
    assert sum(world.google.paid.values()) <= files + 1


def test_a_file_waits_with_its_text_for_a_batch_job(world: MediaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BATCH_MIN_ITEMS", "1")
    with google_batches(monkeypatch) as batches:
        set_profile_settings(world.database, PROFILE.name, mode="batch")
        world.write(oil_pdf=small_pdf(2), plan_png=picture())
        report = world.ingest()
        assert report.embeddings.pending_sources == 1
        assert world.chunks() == [("plan.png", "plan.png", PNG)]
        batches.finish()
        world.ingest()
        assert [(name, kind) for name, _, kind in world.chunks()] == [
            ("oil.pdf", None), ("oil.pdf", PDF), ("plan.png", PNG)
        ]  # fmt: skip


def test_a_file_that_the_provider_breaks_down_at_is_left_out_and_sent_again_later(
    world: MediaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PROVIDER_WAIT_S", "0.3")

    def breaks_down(reply: Reply) -> None:
        (error(500) if "image/" in str(reply.arrived.body) else embed)(reply)

    world.write(bare_png=picture(), told_png=picture(1, "The pump"), oil_txt=b"Valves are oiled.")
    world.google.script += [breaks_down] * 20
    report = world.ingest()
    assert world.chunks() == [("oil.txt", "Valves are oiled.", None), ("told.png", "The pump", None)]
    (refused,) = report.embeddings.media_refused
    assert refused.name.endswith("told.png")
    assert len(report.embeddings.failures) == 1
    assert world.rows("SELECT count(*) FROM rag.source_profiles WHERE next_try_at > now()") == [(2,)]
    world.google.script.clear()
    assert world.ingest().chunks.chunks == 1, "the served one waits for its time"
    for table in ("refused_texts", "source_profiles"):
        world.rows(f"UPDATE rag.{table} SET next_try_at = now() WHERE next_try_at IS NOT NULL")
    with world.database.work(TENANT) as connection:
        (built,) = built_profiles(connection, TENANT)
        assert profile_lag(connection, built.id).sources == 2
    world.ingest()
    assert [(name, kind) for name, _, kind in world.chunks()] == [
        ("bare.png", PNG), ("oil.txt", None), ("told.png", None), ("told.png", PNG)
    ]  # fmt: skip
    with world.database.work(TENANT) as connection:
        assert profile_lag(connection, built.id).sources == 0
