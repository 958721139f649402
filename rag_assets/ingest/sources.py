"""Stage 1: what lies under a tenant's roots becomes sources and documents in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

from rag_assets.errors import RootUnreadable
from rag_assets.ingest.listing import list_root
from rag_assets.ingest.losses import HeldLoss, Losses, RecordLosses, emptied_of, held_losses, settle, sources_before
from rag_assets.ingest.root_changes import (
    RootChanges,
    decide,
    interval_s,
    is_due,
    is_remote,
    left_out_before,
    skipped_by_reason,
)
from rag_assets.ingest.staging import FileRead, is_batch, is_same, read_file, staged_sources, stays_forgotten
from rag_assets.ingest.withdrawal import vanished
from rag_assets.progress import stage
from rag_assets.settings import load_settings
from rag_assets.sources.pushed import is_pushed
from rag_assets.sources.scan import RootListing, SourceFile
from rag_assets.sources.secrets import shown, shown_text
from rag_assets.store import sources as store
from rag_assets.store.database import Connection, Database
from rag_assets.store.forgetting import confirm_forgotten
from rag_assets.store.pushed import drop_old, note_read
from rag_assets.store.query_log import purge_queries
from rag_assets.store.roots import (
    Root,
    RootScan,
    Skipped,
    count_sources,
    hold_sources,
    list_roots,
    read_held_anew,
    record_scan,
    share_files,
)
from rag_assets.store.source_ids import with_kept_ids
from rag_assets.store.sources import FileState, SourceState, StagedSource, hash_uri
from rag_assets.store.tenants import spaces_of


@dataclass(frozen=True)
class Failure:
    """Something that could not be read, and why, as it may be shown."""

    bot: str
    name: str
    error: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", shown_text(self.name))
        object.__setattr__(self, "error", shown_text(self.error))


@dataclass
class SyncReport:
    """What a scan found and changed, for one tenant."""

    changed: int = 0  # new or changed sources that can be read
    unchanged: int = 0
    no_text: int = 0
    failed: int = 0
    deleted: int = 0
    bytes_read: int = 0
    files: int = 0
    roots: int = 0
    failures: list[Failure] = field(default_factory=list)  # of all sources that cannot be read now
    unreadable_roots: list[Failure] = field(default_factory=list)
    held: list[HeldLoss] = field(default_factory=list)  # gone, and kept until somebody confirms it
    skipped: dict[str, int] = field(default_factory=dict)  # files that are not read, by reason
    forgotten_roots: list[str] = field(default_factory=list)  # given for the first time, and unreadable

    @property
    def changes(self) -> int:
        return self.changed + self.no_text + self.failed + self.deleted


def sync_sources(
    database: Database, tenant: str, bot: str | None = None, *, confirm_loss: bool = False, due_only: bool = False
) -> SyncReport:
    """Scan all roots of the tenant (or one bot), read what is new or changed, and write it down.

    Roots of this machine come first: what waits for servers of others keeps none of them waiting. With `due_only`
    those on a network are scanned only when they are due, and left as they are before. One file that cannot be read
    fails alone; one root that cannot be listed keeps its sources and does not stop the others. A killed scan resumes:
    each batch of files is one transaction with what is known of them. `confirm_loss`: what is gone has gone on
    purpose, however much it is.

    Raises:
        UnknownTenant, UnknownBot: nothing was scanned.
    """
    report = SyncReport()
    with database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        roots = list_roots(connection, tenant, bot)
    purge_queries(database, tenant, load_settings().query_log_days)
    covered: dict[UUID, set[str]] = {root.space_id: set() for root in roots}
    now = datetime.now(UTC)
    for root in sorted(roots, key=lambda one: is_remote(one.uri)):
        if due_only and is_remote(root.uri) and not is_due(root, now):
            continue
        report.roots += 1
        _sync_root(database, root, report, covered[root.space_id], confirm_loss)
    return report


def _sync_root(database: Database, root: Root, report: SyncReport, covered: set[str], confirm_loss: bool) -> None:
    with database.work(root.tenant) as connection:
        if confirm_loss:
            read_held_anew(connection, root)
        known = store.file_states(connection, root)
        media = store.embeds_media(connection, root.space_id)
        records = RecordLosses(root, sources_before(connection, root), confirm_loss)
    try:
        listing = list_root(database, root, known)
    except RootUnreadable as error:
        report.unreadable_roots.append(Failure(root.bot, shown(root.uri), str(error)))
        report.held += held_losses([root])
        with database.work(root.tenant) as connection:
            record_scan(connection, root, str(error), next_in_s=interval_s(root))
        return
    changes = decide(listing, known, covered)
    covered.update(file.uri for file in listing.files)
    report.files += len(changes.to_read) + len(changes.kept)
    report.failures += [Failure(root.bot, error.path, error.message) for error in listing.errors]
    with stage(f"read {root.bot}", len(changes.to_read)) as bar:
        reader = _Reader(database, root, report, media, records)
        for file in changes.to_read:
            reader.read(file, known.get(file.uri))
            bar.advance(1)
        reader.flush()
    _count_kept(database, root, changes.kept, report)
    losses = settle(database, root, listing, changes, records)
    report.deleted += losses.deleted
    report.no_text += losses.emptied
    if losses.held is not None:
        report.held.append(HeldLoss(root.tenant, root.bot, shown(root.uri), losses.held))
    skipped = skipped_by_reason(listing, [*left_out_before(listing, changes, known), *reader.left_out])
    _record(database, root, listing, changes, losses, skipped, report)


def _record(
    database: Database,
    root: Root,
    listing: RootListing,
    changes: RootChanges,
    losses: Losses,
    skipped: dict[str, Skipped],
    report: SyncReport,
) -> None:
    """Note what the scan has found."""
    for reason, one in skipped.items():
        report.skipped[reason] = report.skipped.get(reason, 0) + one.count
    with database.work(root.tenant) as connection:
        share_files(connection, root, [hash_uri(uri) for uri in changes.shared])
        if is_pushed(root.uri):
            drop_old(connection, root)
        scan = RootScan(
            files=len(listing.files),
            bytes=sum(max(0, file.size) for file in listing.files),
            sources=count_sources(connection, root),
            skipped=skipped,
            losses=losses.recent,
            held=losses.held,
        )
        error = "; ".join(error.message for error in listing.errors) or None
        record_scan(connection, root, error, scan, interval_s(root))


def _count_kept(database: Database, root: Root, uris: Iterable[str], report: SyncReport) -> None:
    with database.work(root.tenant) as connection:
        states = store.sources_of_files(connection, root, [hash_uri(uri) for uri in uris])
    statuses = Counter(state.status for state in states)
    report.failed += statuses["failed"]
    report.failures += [
        Failure(root.bot, state.name, state.error or "unknown error") for state in states if state.status == "failed"
    ]
    report.no_text += statuses["no_text"]
    report.unchanged += statuses.total() - sum(statuses[other] for other in ("failed", "no_text", "forgotten"))


class _Reader:
    """Reads files, and writes their sources in batches of whole files. `media`: files are embedded as such;
    `losses` tells what of a file may be taken away."""

    def __init__(self, database: Database, root: Root, report: SyncReport, media: bool, losses: RecordLosses) -> None:
        self._database, self._root, self._report, self._media = database, root, report, media
        self._losses = losses
        self.left_out: list[str] = []  # pages that ask for it
        self._batch: list[FileRead] = []

    def read(self, file: SourceFile, known: FileState | None) -> None:
        """Read one file, and write what has been read if that is enough for a batch."""
        read = read_file(file, known)
        self._report.bytes_read += read.size
        self._batch.append(read)
        if read.left_out:
            self.left_out.append(file.path_in_root)
        if is_batch(self._batch):
            self.flush()

    def flush(self) -> None:
        """Write what has been read so far, in one transaction."""
        if not self._batch:
            return
        changed = [read for read in self._batch if not read.is_touched]
        touched = [read.file.uri for read in self._batch if read.is_touched]
        with self._database.work(self._root.tenant) as connection:
            changes = self._changes(connection, changed)
            store.write_sources(connection, self._root, changes.staged)
            store.relabel_sources(connection, changes.same)
            store.hide_sources(connection, changes.hidden)
            confirm_forgotten(connection, changes.forgotten)
            hold_sources(connection, changes.held)
            store.delete_sources(connection, self._root, changes.gone)
            for read in self._batch:
                if read.state is not None and hash_uri(read.file.uri) not in changes.undecided:
                    store.remember_file(connection, self._root, read.file.uri, read.state)
            given = [read.file.given for read in self._batch if read.file.given is not None and read.state is not None]
            note_read(connection, ((one.id, one.at) for one in given))
        self._batch = []
        _count_kept(self._database, self._root, touched, self._report)

    def _changes(self, connection: Connection, reads: Sequence[FileRead]) -> _Changes:
        """What these files change, counted in the report."""
        hashes = [hash_uri(read.file.uri) for read in reads]
        known: dict[bytes, dict[UUID, SourceState]] = {file_hash: {} for file_hash in hashes}
        for state in store.sources_of_files(connection, self._root, hashes):
            known[state.file_hash][state.id] = state
        changes = _Changes()
        found: dict[bytes, list[StagedSource]] = {file_hash: [] for file_hash in hashes}
        staged = [source for read in reads for source in staged_sources(self._root.space_id, read, self._media)]
        for source in with_kept_ids(connection, self._root.space_id, staged):
            found[source.file_hash].append(source)
        for read, file_hash in zip(reads, hashes, strict=True):
            self._compare(read, known[file_hash], found[file_hash], changes)
        return changes

    def _compare(
        self, read: FileRead, before: Mapping[UUID, SourceState], found: Sequence[StagedSource], changes: _Changes
    ) -> None:
        """What a file holds now is taken; sources that are in it no more, or without a text, are taken away, held back,
        or left until all files are read."""
        away = vanished(found, before.values())
        verdict = self._losses.judge(read, away.gone, before, found)
        empty = [] if verdict == "taken" else [source.id for source in emptied_of(found, before)]
        for source in found:
            if source.id not in empty:
                self._take(source, before.get(source.id), changes)
        changes.hidden += away.hidden
        lost = [key for key in away.gone if before[key].has_version]
        changes.gone += [key for key in away.gone if verdict == "taken" or not before[key].has_version]
        if verdict == "taken":
            self._report.deleted += len(lost)
        elif verdict == "held":
            changes.held += [*lost, *empty]
        else:
            changes.undecided.add(hash_uri(read.file.uri))

    def _take(self, source: StagedSource, before: SourceState | None, changes: _Changes) -> None:
        if before is not None and stays_forgotten(source, before):
            changes.forgotten.append(source)
            return
        if before is not None and is_same(source, before):
            self._report.unchanged += 1
            # Of the same text in another file the file is another one to embed.
            (changes.same if before.media == source.media else changes.staged).append(source)
            return
        self._count(source)
        revives = before is not None and before.status == "forgotten"
        changes.staged.append(replace(source, revives=True) if revives else source)

    def _count(self, source: StagedSource) -> None:
        if source.status == "failed":
            self._report.failed += 1
            self._report.failures.append(Failure(self._root.bot, source.name, source.error or "unknown error"))
        elif source.status == "no_text":
            self._report.no_text += 1
        else:
            self._report.changed += 1


@dataclass
class _Changes:
    """What is to be written of some files."""

    staged: list[StagedSource] = field(default_factory=list)
    same: list[StagedSource] = field(default_factory=list)
    gone: list[UUID] = field(default_factory=list)
    hidden: list[UUID] = field(default_factory=list)
    forgotten: list[StagedSource] = field(default_factory=list)
    held: list[UUID] = field(default_factory=list)
    undecided: set[bytes] = field(default_factory=set)  # hashes of files that have lost sources
