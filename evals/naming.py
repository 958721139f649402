"""Labelled documents looked up among a bot's sources.

A label names a document by its id (its path under its root, or a record's own id), by its address, or by an end of its
address that no other source has: `manuals/README.md` where two roots hold a `README.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from evals.datasets import EvalSet
from evals.labels import Labels
from rag_assets.documents.normalize import normalize
from rag_assets.retrieval.places import tails, telling_names
from rag_assets.store import evals as store
from rag_assets.store.database import Database
from rag_assets.store.evals import LabelSource
from rag_assets.store.tenants import spaces_of


def labels_of(database: Database, tenant: str, bot: str, evalset: EvalSet) -> Labels:
    """Look the labelled documents up among the bot's sources.

    Raises:
        UnknownTenant, UnknownBot: there is no such bot.
    """
    wanted = _relevant(evalset)
    with database.work(tenant) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        sources = store.label_sources(connection, space, wanted)
        known = {name for one in sources for name in (one.document, one.uri)}
        if any(name not in known for name in wanted):
            sources = store.label_sources(connection, space, None)
    return resolve(evalset, sources)


def resolve(evalset: EvalSet, sources: Iterable[LabelSource]) -> Labels:
    """What the relevant labels name among these sources."""
    wanted, sources = _relevant(evalset), list(sources)
    meant = _meant(wanted, sources)
    names: dict[UUID, list[str]] = defaultdict(list)
    ambiguous: dict[str, tuple[str, ...]] = {}
    for name, found in meant.items():
        for source in found:
            names[source.id].append(name)
        if len({source.checksum for source in found}) > 1:
            ambiguous[name] = tuple(telling_names([(name, source.uri) for source in found]))
    absent = tuple(name for name in wanted if not meant[name])
    empty = tuple(name for name in wanted if meant[name] and not any(source.holds_text for source in meant[name]))
    lost = {*absent, *empty}
    pairs = [d for grades in evalset.qrels.values() for d, grade in grades.items() if grade > 0]
    return Labels(
        names={source: tuple(found) for source, found in names.items()},
        absent=absent, empty=empty, ambiguous=ambiguous, labels=len(pairs), lost=sum(d in lost for d in pairs),
    )  # fmt: skip


def _relevant(evalset: EvalSet) -> list[str]:
    return sorted({d for grades in evalset.qrels.values() for d, grade in grades.items() if grade > 0})


def _meant(wanted: Sequence[str], sources: Sequence[LabelSource]) -> dict[str, list[LabelSource]]:
    """The sources that each name means: by id, or else by address, or else by the end of an address."""
    by_document: dict[str, list[LabelSource]] = defaultdict(list)
    by_uri: dict[str, list[LabelSource]] = defaultdict(list)
    for source in sources:
        if source.document is not None:
            by_document[source.document].append(source)
        by_uri[source.uri].append(source)
    meant = {name: by_document.get(name) or by_uri.get(name, []) for name in wanted}
    unknown = {name for name, found in meant.items() if not found}
    if unknown:
        for source in sources:
            for tail in set(map(normalize, tails(source.uri))) & unknown:
                meant[tail] = [*meant[tail], source]
    return meant
