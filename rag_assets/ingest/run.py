"""The whole job without Dagster: `ingest(database, tenant, bot, profile)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rag_assets.embedding.profiles import DEFAULT_PROFILE, EmbeddingProfile
from rag_assets.errors import InvalidArgument
from rag_assets.ingest.chunk_files import spool
from rag_assets.ingest.chunks import CHUNK_SCHEMA, ChunkReport, chunk_pending
from rag_assets.ingest.embeddings import EmbedReport, embed_chunks, embedded_schema
from rag_assets.ingest.found_weights import find_weight
from rag_assets.ingest.publication import PublishReport, publish_chunks
from rag_assets.ingest.roots import forget_unread
from rag_assets.ingest.scratch import scratch_folder
from rag_assets.ingest.sources import SyncReport, sync_sources
from rag_assets.ingest.start import start
from rag_assets.ingest.visibility import Visibility, check_visibility, space_of, visible_to
from rag_assets.keys import check_key
from rag_assets.sources.roots import resolve_roots
from rag_assets.store.database import Database, require_database
from rag_assets.store.indexes import HnswReport, LexicalReport, ensure_hnsw, refresh_lexical
from rag_assets.store.profiles import add_spec
from rag_assets.store.recall import RecallReport, tune_recall
from rag_assets.store.set_up import prepare


@dataclass(frozen=True)
class IngestReport:
    """What each stage did; `recall` is that of the HNSW index, None where vectors are searched exactly."""

    sources: SyncReport
    chunks: ChunkReport
    embeddings: EmbedReport
    publication: PublishReport
    lexical: LexicalReport
    hnsw: HnswReport
    recall: RecallReport | None = None


def ingest(
    database: Database,
    tenant: str,
    bot: str,
    profile: str | EmbeddingProfile = DEFAULT_PROFILE,
    roots: Sequence[str | Path] = (),
    *,
    batch: bool = False,
    as_new: bool = False,
    confirm_loss: bool = False,
    visibility: Visibility | None = None,
    user: str | None = None,
) -> IngestReport:
    """Scan the bot's roots and bring one profile of it up to date.

    `roots`: folders, files and addresses that are remembered from now on, beside those that are already; where some
    are given, tenant and bot are created. A profile that is not in the catalogue is put there if it is given itself;
    `make_profile` makes one. The database is brought to the current schema.

    `batch`: through the provider's batch API, whatever the profile's settings say; what waits for a job is published by
    a later call. `as_new`: take roots for new ones though they look like others of the bot that were moved.
    `confirm_loss`: what is gone from a root has gone on purpose, also where so much of it is gone that it would be held
    back (`report.sources.held`).

    `visibility`: who sees what lies under these roots: the users of the `bot`, which is the default; all bots of the
    `tenant`, in a space of its own (`all-bots`) that is then what is ingested; or the one `user` alone.

    Raises:
        InvalidArgument: names the argument that is of the wrong kind; for tenant, bot and profile an `InvalidKey`.
        UsageError: a root does not exist or cannot be read by anything here; nothing was done.
        UnknownTenant, UnknownBot, UnknownProfile: nothing was done.
        RootMoved: a root holds the files of another one that is gone; nothing was done.
        InvalidProfile: the catalogue has another profile of that name.
        EmbeddingError: the model needs what is not installed here, or does not answer.
        DatabaseUnavailable, DatabaseRefused: the server cannot be reached or must not be used.
    """
    name = profile.name if isinstance(profile, EmbeddingProfile) else profile
    _check(database, tenant, bot, name, roots)
    resolved = resolve_roots([str(root) for root in roots])
    check_visibility(visibility, user)
    if visibility is not None and not resolved:
        raise InvalidArgument("visibility is that of roots: name them", "visibility")
    prepare(database)
    if isinstance(profile, EmbeddingProfile):
        add_spec(database, profile)
    bot = space_of(database, tenant, bot, visibility)
    built = start(database, tenant, bot, name, resolved, visible_to(visibility, user), as_new)
    synced = sync_sources(database, tenant, bot, confirm_loss=confirm_loss)
    synced.forgotten_roots = forget_unread(database, tenant, bot, resolved)
    with scratch_folder() as folder:
        parts, chunked = chunk_pending(database, [built])
        cut = spool(parts, CHUNK_SCHEMA, folder)
        parts, embedded = embed_chunks(database, [built], cut, batch)
        ready = spool(parts, embedded_schema(built.profile.dimensions), folder)
        published = publish_chunks(database, [built], ready)
    lexical = refresh_lexical(database, built, partial(find_weight, database, built))
    hnsw = ensure_hnsw(database, built)
    recall = tune_recall(database, built)
    return IngestReport(synced, chunked, embedded, published, lexical, hnsw, recall)


def _check(database: object, tenant: str, bot: str, profile: str, roots: object) -> None:
    require_database(database)
    check_key(tenant, "tenant")
    check_key(bot, "bot")
    check_key(profile, "profile")
    if isinstance(roots, str | Path) or not isinstance(roots, Sequence):
        raise InvalidArgument(f"roots must be a list of paths and addresses, got {roots!r}", "roots")
    if not all(isinstance(root, str | Path) for root in roots):
        raise InvalidArgument(f"roots must be paths and addresses, got {roots!r}", "roots")
