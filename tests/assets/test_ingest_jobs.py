from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets.assets import embeddings
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.partitions import TENANT_TAG, pair_key
from rag_assets.store.roots import add_root
from tests.support.dagster_world import PROFILE, World
from tests.support.web_site import Page, running_site

pytestmark = pytest.mark.slow  # runs of Dagster, or whole ingests and evaluations, in each

PAIR = pair_key("acme", PROFILE.name)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = [e for e in result.get_asset_materialization_events() if e.step_key == asset]
    return {name: value.value for name, value in event.materialization.metadata.items()}


def checks(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}


def test_both_jobs_bring_files_into_search_and_say_what_they_did(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.md").write_text("# Returns\n\nParcels | come back within 30 days.\n")
    (root / "b.txt").write_text("Error E-1042 means that the pump is dry.")

    sources = world.run(SOURCES_JOB, "acme")
    pair = world.run(PAIR_JOB, PAIR)

    assert sources.success
    assert pair.success
    found = metadata(sources, "sources")
    assert {name: found[name] for name in ("ready", "unchanged", "failed", "no_text", "deleted")} == {
        "ready": 2, "unchanged": 0, "failed": 0, "no_text": 0, "deleted": 0,
    }  # fmt: skip
    assert found["files"] == 2
    assert found["bytes_read"] == sum(path.stat().st_size for path in root.iterdir())
    assert found["unreadable_roots"] == 0
    assert metadata(pair, "profile_embeddings")["embedded"] == 2
    assert metadata(pair, "profile_embeddings")["cost_usd"] == 0.0
    published = metadata(pair, "knowledge_chunks")
    assert (published["sources_ready"], published["chunks_written"], published["activated"]) == (2, 2, "help")
    assert (published["serving_sources"], published["serving_chunks"]) == (2, 2)
    assert metadata(pair, "gin_index")["lexemes"] > 0
    assert metadata(pair, "hnsw_index")["searched"] == "exact"
    assert len(world.served("acme")) == 2


def test_a_second_run_of_unchanged_files_embeds_and_writes_nothing(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.md").write_text("Parcels come back within 30 days.")
    world.ingest("acme")
    sources, pair = world.run(SOURCES_JOB, "acme"), world.run(PAIR_JOB, PAIR)
    assert metadata(sources, "sources")["unchanged"] == 1
    assert metadata(sources, "sources")["bytes_read"] == 0
    assert metadata(pair, "profile_embeddings")["embedded"] == 0
    assert metadata(pair, "knowledge_chunks")["chunks_written"] == 0
    assert metadata(pair, "knowledge_chunks")["serving_chunks"] == 1


def test_the_preview_is_one_table_row_for_each_chunk_whatever_the_chunk_holds(world: World) -> None:
    root = world.tenant("acme")
    for number in range(7):
        (root / f"{number}.txt").write_text(f"cell | one\n\nline two <b>bold</b> {'x' * 400} {number}")
    world.run(SOURCES_JOB, "acme")
    text = metadata(world.run(PAIR_JOB, PAIR), "chunks")["preview"]
    lines = text.splitlines()
    assert len(lines) == 2 + 5
    for line in lines[2:]:
        assert line.replace("\\|", "").count("|") == 4
        assert len(line) < 260


def test_a_file_that_cannot_be_read_fails_alone_and_its_check_warns(world: World) -> None:
    root = world.tenant("acme")
    (root / "good.txt").write_text("The pump is dry.")
    (root / "bad.pdf").write_bytes(b"%PDF-1.7 this is not one")
    sources, pair = world.run(SOURCES_JOB, "acme"), world.run(PAIR_JOB, PAIR)
    assert sources.success
    assert pair.success
    check = checks(sources)["sources_readable"]
    assert not check.passed
    assert check.severity == dg.AssetCheckSeverity.WARN
    assert check.partition == "acme"
    (record,) = metadata(sources, "sources")["failures"].records
    assert record.data["source"] == "bad.pdf"
    assert world.served("acme") == ["The pump is dry."]


def test_a_root_that_is_gone_keeps_what_it_served_and_its_check_warns(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    world.ingest("acme")
    root.rename(root.with_name("elsewhere"))
    sources = world.run(SOURCES_JOB, "acme")
    world.run(PAIR_JOB, PAIR)
    assert sources.success
    assert metadata(sources, "sources")["unreadable_roots"] == 1
    assert metadata(sources, "sources")["deleted"] == 0
    assert not checks(sources)["sources_readable"].passed
    assert world.served("acme") == ["The pump is dry."], "an unreadable root was taken for an empty one"


def test_the_recall_check_belongs_to_the_pair_and_passes_without_an_index(world: World) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    world.run(SOURCES_JOB, "acme")
    check = checks(world.run(PAIR_JOB, PAIR))["hnsw_recall"]
    assert check.passed
    assert check.partition == PAIR
    assert check.metadata["recall"].value == 1.0
    assert check.metadata["searched"].value == "exact"


def test_a_pair_that_is_not_enabled_is_refused_with_the_way_to_enable_it(world: World) -> None:
    root = world.tenant("acme", profile=None)
    (root / "a.txt").write_text("The pump is dry.")
    world.run(SOURCES_JOB, "acme")
    result = world.run(PAIR_JOB, PAIR)
    assert not result.success
    failure = result.failure_data_for_node("chunks")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert "rag ingest --tenant acme" in (failure.user_failure_data.description or "")
    assert failure.error is not None
    assert world.served("acme") == []


def test_a_run_for_one_bot_leaves_the_other_bot_alone(world: World) -> None:
    first, second = world.tenant("acme", "help"), world.tenant("acme", "docs")
    (first / "a.txt").write_text("The pump is dry.")
    (second / "b.txt").write_text("The valve is shut.")
    world.ingest("acme", bot="docs")
    assert world.served("acme") == ["The valve is shut."]
    world.ingest("acme")
    assert world.served("acme") == ["The pump is dry.", "The valve is shut."]


def test_staged_tables_lie_under_their_tenant_and_no_half_written_file_stays(world: World, tmp_path: Path) -> None:
    root = world.tenant("acme")
    (root / "a.txt").write_text("The pump is dry.")
    world.ingest("acme")
    storage = tmp_path / "storage"
    files = sorted(str(path.relative_to(storage)) for path in storage.rglob("*") if path.is_file())
    assert files == ["acme/hash-64/chunks.parquet", "acme/hash-64/profile_embeddings.parquet"]


def test_runs_for_two_bots_at_once_publish_both(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = world.tenant("acme", "help"), world.tenant("acme", "docs")
    (first / "a.txt").write_text("The pump is dry.")
    (second / "b.txt").write_text("The valve is shut.")
    embed = embeddings.embed_chunks

    def after_another_run(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(embeddings, "embed_chunks", embed)
        world.ingest("acme", bot="docs")
        return embed(*arguments, **options)

    monkeypatch.setattr(embeddings, "embed_chunks", after_another_run)
    world.ingest("acme", bot="help")
    assert world.served("acme") == ["The pump is dry.", "The valve is shut."]


def test_progress_goes_to_the_log_of_the_step(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    root = world.tenant("acme")
    for number in range(30):
        (root / f"{number}.txt").write_text(f"Fact number {number}.")
    result = world.run(SOURCES_JOB, "acme")
    lines = [entry.user_message for entry in world.instance.all_logs(result.run_id) if not entry.is_dagster_event]
    assert "read help: 30 to do" in lines
    assert any(line.startswith("read help: 30 of 30 in ") for line in lines)
    assert capsys.readouterr().out == ""


def test_a_run_of_the_sensor_asks_no_site_that_is_not_due(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    root = world.tenant("acme")
    with running_site() as site:
        site.pages["/page"] = Page(b"<p>One pump")
        add_root(world.database, "acme", "help", f"{site.url}/page")
        world.ingest("acme")
        assert world.served("acme") == ["One pump"]
        site.asked.clear()
        (root / "a.txt").write_text("One valve.")
        tags = {TENANT_TAG: "acme", "dagster/sensor_name": "new_sources"}
        assert world.run(SOURCES_JOB, "acme", tags=tags).success
        assert site.asked == []
        assert world.run(SOURCES_JOB, "acme", tags={TENANT_TAG: "acme"}).success
        assert site.asked != []
