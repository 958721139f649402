"""What is remembered of texts that a provider does not embed: their hashes, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from psycopg.rows import dict_row

from rag_assets.embedding.refused import Refusal
from rag_assets.store.database import Database
from rag_assets.store.sql import query, rows, scalar

_LOOKUP = 2000  # hashes in one query


class PgRefusedTexts:
    """Refusals of one model for one tenant; implements `embedding.refused.RefusedTexts`. Entries carry the bot whose
    text was refused first. Unless it `keeps` them, as of a model that refuses nothing, nothing is looked up or put."""

    def __init__(self, database: Database, tenant: str, bot: str, model_key: str, *, keeps: bool = True) -> None:
        self._database, self._tenant, self._bot, self._keeps = database, tenant, bot, keeps
        self._entry = {"tenant": tenant, "bot": bot, "model_key": model_key}

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """See `RefusedTexts.get`."""
        found: dict[bytes, str] = {}
        for start in range(0, len(hashes) if self._keeps else 0, _LOOKUP):
            values = {**self._entry, "hashes": list(hashes[start : start + _LOOKUP])}
            with self._database.work(self._tenant, self._bot) as connection:
                for row in rows(connection, dict_row, query("refused_texts"), values):
                    found[bytes(row["content_hash"])] = row["reason"]
        return found

    def next_try(self, hashes: Collection[bytes]) -> datetime | None:
        """When all of these texts of a source may be sent again; None: never, as they are."""
        values = {**self._entry, "hashes": list(set(hashes))}
        with self._database.work(self._tenant, self._bot) as connection:
            moment: datetime | None = scalar(connection, query("refused_until"), values)
            return moment

    def put(self, refusals: Mapping[bytes, Refusal]) -> None:
        """See `RefusedTexts.put`."""
        if not self._keeps:
            return
        values = {
            **self._entry,
            "hashes": list(refusals),
            "reasons": [refusal.reason for refusal in refusals.values()],
            "lasting": [refusal.lasting for refusal in refusals.values()],
        }
        with self._database.work(self._tenant, self._bot) as connection:
            connection.execute(query("put_refused_texts"), values)


def try_again_now(database: Database, tenant: str, bot: str) -> int:
    """Have the next run publish again what a bot serves in part, since a model gave no answer for the rest; returns how
    many sources."""
    with database.work(tenant, bot) as connection:
        return connection.execute(query("try_again_now"), {"tenant": tenant, "bot": bot}).rowcount


def forget_refused_texts(database: Database, tenant: str) -> int:
    """Let all texts of a tenant be sent once more, to whatever model refused them; returns how many."""
    with database.work(tenant) as connection:
        return connection.execute(query("forget_refused_texts"), {"tenant": tenant}).rowcount
