from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.command_line import Rag


def test_a_limit_is_set_shown_changed_and_cleared(rag: Rag) -> None:
    rag("tenant", "add", "slow")
    limit = ("tenant", "limit", "slow", "--provider", "google")
    rag(*limit, "--items-per-minute", "100")
    (both,) = rag.json(*limit, "--tokens-per-minute", "30000")["limits"]
    assert both == {
        "tenant": "slow", "provider": "google", "model": None, "items": 100, "tokens": 30000, "per_seconds": 60,
    }  # fmt: skip
    assert rag.json("tenant", "limit", "slow")["limits"] == [both]
    shown = rag("tenant", "limit", "slow").stdout
    assert "100" in shown
    assert "30,000" in shown
    assert rag.json(*limit, "--clear")["limits"] == []
    assert "no rate limits" in rag("tenant", "limit", "slow").stdout


def test_the_limit_of_the_account_is_shown_with_every_tenants_own(rag: Rag) -> None:
    rag("tenant", "add", "one")
    rag("tenant", "add", "two")
    account = ("tenant", "limit", "--all-tenants", "--provider", "openai-compatible")
    rag(*account, "--model", "text-embedding-3-small", "--items-per-minute", "500")
    try:
        rag("tenant", "limit", "one", "--provider", "openai-compatible", "--items-per-minute", "50")
        assert [limit["tenant"] for limit in rag.json("tenant", "limit", "one")["limits"]] == ["one", None]
        assert [limit["tenant"] for limit in rag.json("tenant", "limit", "two")["limits"]] == [None]
        assert "all tenants together" in rag("tenant", "limit", "two").stdout
    finally:
        rag(*account, "--model", "text-embedding-3-small", "--clear")


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("tenant limit", "UsageError", "--all-tenants"),
        ("tenant limit known --all-tenants", "UsageError", "--all-tenants"),
        ("tenant limit known --items-per-minute 5", "UsageError", "--provider"),
        ("tenant limit known --provider google --items-per-minute 0", "UsageError", "items"),
        ("tenant limit known --provider google --clear --items-per-minute 5", "UsageError", "--clear"),
        ("tenant limit known --provider nope --items-per-minute 5", "UsageError", "google"),
        ("tenant limit known --provider google --model gemini-3-pro --items-per-minute 5", "UsageError", "embed"),
        ("tenant limit unknown --provider google --items-per-minute 5", "UnknownTenant", "unknown"),
        ("tenant limit unknown", "UnknownTenant", "unknown"),
        ("tenant limit A", "InvalidKey", "A"),
        ("profile limit nope --max-cost-usd 5", "UnknownProfile", "nope"),
        ("profile limit static-64 --max-cost-usd -1", "UsageError", "ceiling"),
        ("profile limit static-64 --max-cost-usd nan", "UsageError", "ceiling"),
        ("profile limit static-64 --max-cost-usd 5 --no-max-cost", "UsageError", "ceiling"),
        ("profile limit static-64 --mode batch", "UsageError", "no batch API; providers with one: google"),
    ],
)
def test_wrong_use_ends_with_2_and_changes_nothing(rag: Rag, words: str, kind: str, part: str) -> None:
    rag("tenant", "add", "known")
    found, message = rag.error(*words.split())
    assert found == kind
    assert part in message
    assert rag.json("tenant", "limit", "known")["limits"] == []
    assert rag.json("profile", "limit", "static-64")["max_cost_usd"] is None


def test_what_a_profile_may_cost_is_changed_in_part_and_changes_no_profile(rag: Rag) -> None:
    words = "--provider google --model gemini-embedding-2 --dimensions 256"
    before = rag.json("profile", "add", "dear", *words.split())
    assert rag.json("profile", "limit", "dear", "--max-cost-usd", "2.50")["max_cost_usd"] == 2.5
    assert rag.json("profile", "limit", "dear", "--mode", "batch") == {
        "profile": "dear", "max_cost_usd": 2.5, "mode": "batch",
    }  # fmt: skip
    assert "at most $2.50 for each tenant, mode batch" in rag("profile", "limit", "dear").stdout
    assert rag.json("profile", "limit", "dear", "--no-max-cost")["max_cost_usd"] is None
    assert rag.json("profile", "show", "dear")["spec_hash"] == before["spec_hash"]


def test_batch_mode_is_refused_where_the_provider_is_not_asked_by_batch(rag: Rag) -> None:
    rag("profile", "add", "openai", *["--provider", "openai-compatible", "--model", "text-embedding-3-small"],
        "--dimensions", "64")  # fmt: skip
    kind, message = rag.error("profile", "limit", "openai", "--mode", "batch")
    assert kind == "UsageError"
    assert "openai-compatible/text-embedding-3-small has no batch API; providers with one: google" in message
    assert rag.json("profile", "limit", "openai")["mode"] == "sync"
