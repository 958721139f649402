from __future__ import annotations

from typing import TYPE_CHECKING

from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database

if TYPE_CHECKING:
    from tests.support.command_line import Rag


def test_a_profile_is_retired_and_dropped_after_a_yes(rag: Rag, filled: str) -> None:
    scope = ("--tenant", filled, "--bot", "b")
    database = Database.from_settings()
    ingest(database, filled, "b", "static-64")
    database.close()
    assert rag.json("profile", "retire", "tiny", *scope, code=1)["error"]["type"] == "PromotionRefused"
    assert rag.json("profile", "retire", "static-64", *scope)["status"] == "retired"
    assert rag.json("profile", "drop-retired", *scope, "--yes")["dropped"] == [], "not before its soak time"
    soaked = (*scope, "--soak-days", "0")
    assert rag.json("profile", "drop-retired", *soaked, code=2)["error"]["type"] == "UsageError"
    assert "nothing was dropped" in rag("profile", "drop-retired", *soaked, answer="n\n").stdout
    assert "nobody is there to ask" in rag("profile", "drop-retired", *soaked, code=2, answer="").stderr
    (dropped,) = rag.json("profile", "drop-retired", *soaked, "--yes")["dropped"]
    assert (dropped["profile"], dropped["chunks_expected"]) == ("static-64", dropped["chunks_dropped"])
    assert dropped["chunks_dropped"] > 0
    assert "nothing was dropped" in rag("profile", "drop-retired", *soaked).stdout
