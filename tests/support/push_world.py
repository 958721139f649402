"""What tests of pushed documents share."""

from __future__ import annotations

import json
from typing import Any

from rag_assets.doors.push import pushed_status
from rag_assets.doors.tools import make_tools
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database

ACME = ("acme", "support")


def ingest_all(database: Database, tenant: str = "acme", bot: str = "support") -> IngestReport:
    return ingest(database, tenant, bot, "hash-64")


def found(database: Database, words: str, user: str | None = None, **filters: Any) -> str:
    """All that a search for these words finds."""
    return json.dumps(make_tools(database, tenant="acme", bot="support", user=user).search(words, 20, filters))


def state(database: Database, key: str, **more: Any) -> tuple[str, str | None]:
    status = pushed_status(database, *ACME, key, **more)
    return status["state"], status["error"]
