"""Sources that are gone: taken away, or held back where so many are gone at once that a fault is more likely.

A share that is not mounted, a bucket that another policy hides and an export that broke off all look like a root of
which most was deleted. What is held back is kept and served until somebody confirms it, or until it comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Literal
from uuid import UUID

from rag_assets.errors import RootUnreadable
from rag_assets.ingest.root_changes import RootChanges
from rag_assets.ingest.staging import FileRead
from rag_assets.printing import counted
from rag_assets.sources.options import RootOptions
from rag_assets.sources.pushed import is_pushed
from rag_assets.sources.scan import RootListing, scan_root
from rag_assets.sources.secrets import shown
from rag_assets.store import roots as store
from rag_assets.store.database import Connection, Database
from rag_assets.store.roots import Held, Loss, Root
from rag_assets.store.sources import (
    FileState,
    SourceState,
    StagedSource,
    delete_sources,
    file_states,
    hash_uri,
    remember_file,
    sources_of_files,
    write_sources,
)

MIN_SOURCES = 10  # fewer are easily gone on purpose
TOGETHER = timedelta(days=1)  # what is gone within it counts as gone at once


@dataclass(frozen=True)
class HeldLoss:
    """What is held back of a root: `held.sources` of `held.of` sources that it had."""

    tenant: str
    bot: str
    root: str
    held: Held

    def __str__(self) -> str:
        name, held = f"{self.tenant}/{self.bot}", self.held
        are = "is" if held.sources == 1 else "are"
        return (
            f"{held.sources:,} of {counted(held.of, 'source')} of root {self.root} of {name} {are} gone or empty since "
            f"{held.since:%Y-%m-%d %H:%M} and kept, because so many at once look like a fault. Once they are back, the "
            f"next scan ends this; if they are gone on purpose: rag root confirm {quote(self.root)} "
            f"--tenant {self.tenant} --bot {self.bot}, or rag ingest with --confirm-loss"
        )


@dataclass(frozen=True)
class Losses:
    """What a scan has taken away of a root, or found without the text that it had, what was taken away on that day, and
    what is held back."""

    deleted: int = 0
    emptied: int = 0
    recent: tuple[Loss, ...] = ()
    held: Held | None = None


def held_losses(roots: Iterable[Root]) -> list[HeldLoss]:
    """What is held back of these roots since their last scans."""
    return [
        HeldLoss(root.tenant, root.bot, shown(root.uri), root.scan.held)
        for root in roots
        if root.scan and root.scan.held
    ]


def is_implausible(lost: int, of: int, options: RootOptions) -> bool:
    """Whether so many of so many sources are hardly gone on purpose."""
    return of >= MIN_SOURCES and lost * 100 > of * options.max_loss_percent


def sources_before(connection: Connection, root: Root) -> int:
    """How many sources a root has before a scan, as far as a loss is measured by them: for as long as something is held
    back, those that it had when that was gone."""
    if root.scan is None:
        return store.count_sources(connection, root)
    return root.scan.held.of if root.scan.held else root.scan.sources


def recent_losses(root: Root) -> tuple[Loss, ...]:
    """What scans have taken away of the root within the last day."""
    since = datetime.now(UTC) - TOGETHER
    return tuple(loss for loss in root.scan.losses if loss.at > since) if root.scan else ()


Verdict = Literal["taken", "held", "undecided"]


@dataclass
class RecordLosses:
    """What the files of a root that are there have lost of their sources in a scan.

    `before` is the number of sources that the root had; `confirmed`: whatever is gone has gone on purpose. Losses of
    single files are decided on together, when all files are read. Until then all of it stays, and these files are not
    remembered, so that a scan that is killed leaves them to the next one.

    Attributes:
        lost: how many sources fewer there would be without what is undecided.
        gone: undecided sources that are in their files no more.
        emptied: undecided sources that have no text now, and had one before.
        files: the files of both, as they were read.
    """

    root: Root
    before: int
    confirmed: bool = False
    lost: int = 0
    gone: list[UUID] = field(default_factory=list)
    emptied: list[StagedSource] = field(default_factory=list)
    files: list[tuple[str, FileState]] = field(default_factory=list)

    def judge(
        self, read: FileRead, gone: Sequence[UUID], before: Mapping[UUID, SourceState], found: Sequence[StagedSource]
    ) -> Verdict:
        """What becomes of the sources of a file that are `gone` from it or emptied. They are taken where it has got as
        many others, held where they are most of those that it had `before`, and else noted as undecided."""
        lost = [key for key in gone if before[key].has_version]  # a bare failure was nothing
        empty = emptied_of(found, before)
        new = sum(source.id not in before and source.status != "failed" for source in found)
        fewer = len(lost) + len(empty) - new
        if fewer <= 0 or self.confirmed or read.state is None:
            return "taken"
        if is_implausible(fewer, sum(state.has_version for state in before.values()), self.root.options):
            return "held"
        self.lost += fewer
        self.gone += lost
        self.emptied += empty
        self.files.append((read.file.uri, read.state))
        return "undecided"

    def is_fault(self, lost: int = 0) -> bool:
        """Whether what is undecided, with `lost` sources of files that are gone, is hardly gone on purpose."""
        earlier, together = sum(loss.sources for loss in recent_losses(self.root)), self.lost + lost
        return together > 0 and is_implausible(together + earlier, self.before + earlier, self.root.options)


def emptied_of(found: Iterable[StagedSource], before: Mapping[UUID, SourceState]) -> list[StagedSource]:
    """Those of the sources `found` in a file that have no text, and had one `before`."""
    return [
        source
        for source in found
        if source.status == "no_text"
        and (state := before.get(source.id)) is not None
        and state.has_version
        and state.status not in ("no_text", "forgotten")
    ]


@dataclass(frozen=True)
class Gone:
    """Files that are gone from a root, by the hashes of their uris, with all their sources, and those of the sources
    that are `lost`: the bytes of the others are elsewhere under the root, in files that were only renamed."""

    files: Mapping[bytes, str]
    sources: Sequence[SourceState]
    lost: Sequence[SourceState]


def find_gone(
    connection: Connection, root: Root, changes: RootChanges, states: Mapping[str, FileState], left: Collection[bytes]
) -> Gone:
    """What is gone from a root of which all that is there has been read, so that `states` are its files as they are;
    `left` are files that other roots of the space have."""
    files = {hash_uri(uri): uri for uri in (*changes.gone, *changes.held)}
    files = {file: uri for file, uri in files.items() if file not in left}
    sources = [one for one in sources_of_files(connection, root, files) if one.status != "forgotten"]
    gone = set(files.values())
    there = {state.checksum for uri, state in states.items() if uri not in gone}
    lost = [one for one in sources if (uri := files[one.file_hash]) not in states or states[uri].checksum not in there]
    return Gone(files, sources, lost)


def lost_files(
    root: Root, listing: RootListing, changes: RootChanges, gone: Gone, records: RecordLosses
) -> tuple[list[bytes], bool]:
    """The file of each source that is lost, and whether all of these are to be held back. `records` is what files that
    are there have lost. What the root's own options leave out is not lost."""
    lost = [source.file_hash for source in gone.lost]
    if not lost or (len(changes.gone) == 1 and not changes.held and listing.files):
        return lost, False  # one file of several, whatever is in it: that is how people delete
    if records.is_fault(len(lost)):
        left_out = _left_out(root, {gone.files[file] for file in lost})
        lost = [file for file in lost if gone.files[file] not in left_out]
    return lost, bool(lost) and records.is_fault(len(lost))


def settle(
    database: Database,
    root: Root,
    listing: RootListing,
    changes: RootChanges,
    records: RecordLosses,
) -> Losses:
    """Take away the sources of files that are gone, or hold them back. Called when all that is there has been read.

    `records` is what has become of the sources of files that are there.
    """
    with database.work(root.tenant) as connection:
        hashes = [hash_uri(uri) for uri in (*changes.gone, *changes.held)]
        left = store.leave_files(connection, root, hashes)
        gone = find_gone(connection, root, changes, file_states(connection, root) if hashes else {}, left)
    lost, is_held = lost_files(root, listing, changes, gone, records)
    kept = set(lost) if is_held and not records.confirmed else set()
    recent = recent_losses(root)
    with database.work(root.tenant) as connection:
        emptied, withdrawn, taken = _decide(connection, root, records, is_held)
        away = [source for source in gone.sources if source.file_hash not in kept]
        held = store.held_records(connection, root) if records.confirmed else []
        delete_sources(connection, root, [*(source.id for source in away), *held])
        deleted = sum(source.has_version for source in away) + len(held) + withdrawn
        store.drop_files(connection, root, [file for file in gone.files if file not in kept])
        store.hold_files(connection, root, [*kept])
        taken += 0 if kept else len(lost)
        if taken:
            recent = (*recent, Loss(at=datetime.now(UTC), sources=taken))
        recent = () if records.confirmed else recent
        return Losses(deleted, emptied, recent, _held(connection, root, records.before))


def _decide(connection: Connection, root: Root, records: RecordLosses, is_fault: bool) -> tuple[int, int, int]:
    """Hold back what is undecided, or take it away; returns how many sources were emptied, how many withdrawn, and how
    many fewer there are. `is_fault`: the files that are gone with it are held back."""
    for uri, state in records.files:
        remember_file(connection, root, uri, state)
    if is_fault or records.is_fault():
        store.hold_sources(connection, [*records.gone, *(source.id for source in records.emptied)])
        return 0, 0, 0
    write_sources(connection, root, records.emptied)
    delete_sources(connection, root, records.gone)
    return len(records.emptied), len(records.gone), records.lost


def confirm(connection: Connection, root: Root) -> int:
    """Take away all that is held back of a root; returns how many sources that were. The next scan reads those of their
    files again that are there, to tell what is left in them."""
    store.read_held_anew(connection, root)
    files = store.held_files(connection, root)
    ids = [source.id for source in sources_of_files(connection, root, files)] + store.held_records(connection, root)
    delete_sources(connection, root, list(dict.fromkeys(ids)))
    store.drop_files(connection, root, files)
    if root.scan is not None:
        store.update_scan(connection, root, root.scan.model_copy(update={"held": None, "losses": ()}))
    return len(set(ids))


def _left_out(root: Root, uris: set[str]) -> set[str]:
    """Those of these files that are there, and that the root's options leave out."""
    options = root.options.model_copy(update={"include": (), "exclude": (), "gitignore": False, "all_folders": True})
    if options == root.options or is_pushed(root.uri):
        return set()
    try:
        return uris & {file.uri for file in scan_root(root.uri, {}, options).files}
    except RootUnreadable:
        return set()


def _held(connection: Connection, root: Root, before: int) -> Held | None:
    sources, since = store.count_held(connection, root)
    return Held(sources=sources, of=before, since=since) if sources and since else None
