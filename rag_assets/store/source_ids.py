"""Ids of sources that were moved: a source keeps the id that it was given at its first place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from psycopg.rows import dict_row

from rag_assets.store.database import Connection
from rag_assets.store.sources import StagedSource, source_id
from rag_assets.store.sql import query, rows


def with_kept_ids(connection: Connection, space_id: UUID, staged: Sequence[StagedSource]) -> list[StagedSource]:
    """The sources with the ids that they have in the database, wherever they were when they got them. One that is new
    where a moved one was before gets an id of its own."""
    values = {
        "space": space_id,
        "files": list({source.file_hash for source in staged}),
        "derived": [source.id for source in staged],
    }
    stored = rows(connection, dict_row, query("kept_source_ids"), values)
    kept = {row["external_id"]: row["id"] for row in stored if row["is_at_place"]}
    owners = {row["id"]: row["external_id"] for row in stored}
    found = []
    for source in staged:
        key = kept.get(source.external_id, source.id)
        if owners.get(key, source.external_id) != source.external_id:
            key = source_id(space_id, f"{source.external_id}\0{owners[key]}")
        found.append(source if key == source.id else replace(source, id=key))
    return found
