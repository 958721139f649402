"""`rag log`: what was asked is shown, exported and purged; and `rag search` is in it where the log is on."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from rag_assets.observing.switches import switch
from tests.support.command_line import Rag


@pytest.fixture
def asked(rag: Rag, filled: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tenant whose bot `b` was asked twice, with the log on."""
    monkeypatch.setenv("RAG_QUERY_LOG", "1")
    switch(None)
    rag("search", "PX-4412 of jane@example.org", "--tenant", filled, "--bot", "b", "--user", "jane")
    rag("search", "thirty days", "--tenant", filled, "--bot", "b")
    monkeypatch.delenv("RAG_QUERY_LOG")
    switch(None)
    rag("search", "not logged", "--tenant", filled, "--bot", "b")
    return filled


def test_what_was_asked_is_shown_masked_and_newest_first(rag: Rag, asked: str) -> None:
    queries = rag.json("log", "show", "--tenant", asked)["queries"]
    assert [one["query"] for one in queries] == ["thirty days", "PX-4412 of [email]"]
    assert queries[1]["user_mark"]
    assert queries[0]["user_mark"] is None
    assert all(one["results"][0]["chunk_id"] for one in queries)
    assert len(rag.json("log", "show", "--tenant", asked, "--limit", "1")["queries"]) == 1
    assert rag.json("log", "show", "--tenant", asked, "--since", "2999-01-01")["queries"] == []
    shown = rag("log", "show", "--tenant", asked, "--bot", "b").stdout
    assert "thirty days" in shown
    assert "jane" not in shown


def test_the_log_is_exported_as_queries_with_what_they_found(rag: Rag, asked: str, tmp_path: Path) -> None:
    file = tmp_path / "traffic.jsonl"
    payload = rag.json("log", "export", "--tenant", asked, "--out", str(file))
    assert payload == {"tenant": asked, "bot": None, "file": str(file), "queries": 2}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["text"] for one in lines] == ["PX-4412 of [email]", "thirty days"]
    assert [UUID(one["_id"]).version for one in lines] == [7, 7]
    assert {"results", "citations", "feedback", "rung", "profile", "asked_at"} <= set(lines[0])
    kind, message = rag.error("log", "export", "--tenant", asked, "--out", str(file))
    assert (kind, "cannot be written" in message) == ("UsageError", True)


def test_what_one_user_asked_and_what_is_old_is_purged(rag: Rag, asked: str) -> None:
    assert rag.json("log", "purge", "--tenant", asked, "--yes")["deleted"] == 0, "nothing is older than 30 days"
    assert "nothing was deleted" in rag("log", "purge", "--tenant", asked, "--user", "jane", answer="n\n").stdout
    payload = rag.json("log", "purge", "--tenant", asked, "--user", "jane", "--yes")
    assert (payload["deleted"], payload["older_than_days"]) == (1, 0)
    assert rag.json("log", "purge", "--tenant", asked, "--older-than", "0", "--yes")["deleted"] == 1
    assert "nothing is in the query log" in rag("log", "show", "--tenant", asked).stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("show", "--since", "yesterday"), "it has to be a date or a time"),
        (("purge", "--user", "", "--yes"), "--user is empty"),
        (("purge", "--json"), "--json cannot ask"),
    ],
)
def test_what_says_nothing_certain_is_refused(rag: Rag, filled: str, words: tuple[str, ...], part: str) -> None:
    assert part in rag("log", *words, "--tenant", filled, code=2).output
