"""Labelled sets of bots, as they are kept in the database and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evals.datasets import EvalSet, Query
from rag_assets.documents.normalize import clean_json, normalize
from rag_assets.errors import UsageError
from rag_assets.store import evals as store
from rag_assets.store.database import Connection
from rag_assets.store.tenants import Space


@dataclass(frozen=True)
class StoredSet:
    """A labelled set with the id of its row."""

    id: int
    evalset: EvalSet


def save_eval_set(connection: Connection, space: Space, evalset: EvalSet, *, imported: bool = True) -> StoredSet:
    """Keep a labelled set, once for each content; `imported` makes it the one that the bot is measured by.

    Returns it as it will be read again: ids and texts are normalised like those of documents.
    """
    clean = _cleaned(evalset)
    number = store.add_eval_set(
        connection,
        space,
        content_hash=clean.content_hash,
        queries=[vars(one) for one in clean.queries],
        qrels={name: dict(grades) for name, grades in clean.qrels.items()},
        imported=imported,
    )
    return StoredSet(number, clean)


def latest_eval_set(connection: Connection, space: Space) -> StoredSet:
    """The labelled set that was imported last.

    Raises:
        UsageError: the bot has none; says how to import one.
    """
    row = store.latest_eval_set(connection, space)
    if row is None:
        raise UsageError(
            f"bot {space.bot!r} of tenant {space.tenant!r} has no labelled queries yet. Import some with: "
            f"rag eval import DIR --tenant {space.tenant} --bot {space.bot}"
        )
    return StoredSet(row.id, _set_of(tuple(Query(**one) for one in row.queries), row.qrels))


def _cleaned(evalset: EvalSet) -> EvalSet:
    # Postgres takes neither NUL nor half a surrogate pair, and documents are known by normalised ids.
    queries = tuple(
        Query(normalize(one.id), normalize(one.text), one.critical, one.kind and normalize(one.kind))
        for one in evalset.queries
    )
    return _set_of(queries, clean_json(evalset.qrels), evalset)


def _set_of(
    queries: tuple[Query, ...], qrels: Mapping[str, Mapping[str, int]], source: EvalSet | None = None
) -> EvalSet:
    # jsonb has an order of its own; that of the questions is what people know.
    ordered = {one.id: qrels[one.id] for one in queries if one.id in qrels}
    critical = frozenset(one.id for one in queries if one.critical)
    return EvalSet(queries, ordered, critical, source.problems if source else ())
