"""What a scan would leave to a profile to publish, found out without writing anything: `sync_sources`, looked ahead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rag_assets.chunking.repeated_pages import Page
from rag_assets.documents.model import Document
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import UnknownBot, UnknownTenant
from rag_assets.ingest.losses import RecordLosses, emptied_of, sources_before
from rag_assets.ingest.repeated_pages import Pages, compared, concerns_pages
from rag_assets.ingest.root_changes import RootChanges
from rag_assets.ingest.staging import FileRead, is_batch, is_same, staged_sources, stays_forgotten
from rag_assets.ingest.withdrawal import vanished
from rag_assets.store.database import Connection
from rag_assets.store.pages import page_texts, served_versions, stored_pages
from rag_assets.store.profiles import built_profiles
from rag_assets.store.roots import Root
from rag_assets.store.source_ids import with_kept_ids
from rag_assets.store.sources import (
    PendingSource,
    SourceState,
    StagedSource,
    embeds_media,
    hash_uri,
    pending_sources,
    publishable_sources,
    repeats_of,
    sources_of_files,
)
from rag_assets.store.tenants import spaces_of

NOWHERE = UUID(int=0)  # the space of a bot, and the root of an address, that nobody has added yet


@dataclass(frozen=True)
class ScannedRoot:
    """A root, what is to be done about its files, and those of the files to read that were read."""

    root: Root
    changes: RootChanges
    read: Sequence[FileRead]


@dataclass
class Outlook:
    """What a profile will have to publish: `stored` sources that stay as they are, and those of the files that were
    `read`; and how the pages of the space will repeat each other."""

    stored: list[PendingSource] = field(default_factory=list)
    read: list[PendingSource] = field(default_factory=list)
    pages: Pages = field(default_factory=Pages)


def space_of(connection: Connection, tenant: str, bot: str) -> UUID:
    """The bot's space, or `NOWHERE`."""
    try:
        return spaces_of(connection, tenant, bot)[0].id
    except (UnknownTenant, UnknownBot):
        return NOWHERE


def look_ahead(
    connection: Connection, tenant: str, bot: str, profile: EmbeddingProfile, scans: Sequence[ScannedRoot]
) -> Outlook:
    """What the profile will have to publish of the bot's sources after these scans. Nothing is known of files that are
    to be read and were not."""
    return _Ahead(connection, tenant, bot, profile, scans).outlook()


@dataclass(frozen=True)
class _New:
    """A source as it will be, and when: those that are written together come one after the other by their names."""

    source: StagedSource
    batch: tuple[int, int]


class _Ahead:
    def __init__(
        self, connection: Connection, tenant: str, bot: str, profile: EmbeddingProfile, scans: Sequence[ScannedRoot]
    ) -> None:
        self._connection, self._profile, self._scans = connection, profile, scans
        self._space = space_of(connection, tenant, bot)
        built = built_profiles(connection, tenant, bot, profile.name)
        self._built = built[0].id if built else 0
        self._old: dict[bytes, dict[UUID, SourceState]] = defaultdict(dict)  # by file, as far as it will change
        self._new: dict[UUID, _New] = {}
        self._gone: set[UUID] = set()
        self._failed: set[UUID] = set()

    def outlook(self) -> Outlook:
        """See `look_ahead`."""
        for scan in self._scans:
            uris = [file.uri for file in scan.changes.to_read] + list(scan.changes.gone)
            for state in sources_of_files(self._connection, scan.root, [hash_uri(uri) for uri in uris]):
                self._old[state.file_hash][state.id] = state
        self._decide()
        pending = self._pending_now()
        known = {key for states in self._old.values() for key in states}
        stored = [source for source in pending.values() if source.id not in known]
        # A source that fails now keeps the version before, as do those of a file that only looks changed.
        read = [pending[key] for key in self._reread() - self._new.keys() - self._gone if key in pending]
        read += self._new_pending()
        pages = (
            self._pages(known)
            if concerns_pages(self._profile.chunking, (one.document.content_type for one in [*stored, *read]))
            else Pages()
        )
        return Outlook(stored, read, pages)

    def _decide(self) -> None:
        """Tell which sources will be others than they are, gone, or failed."""
        with_media = self._profile.options.multimodal or embeds_media(self._connection, self._space)
        for number, scan in enumerate(self._scans):
            for uri in scan.changes.gone:
                self._gone |= self._old[hash_uri(uri)].keys()
            losses = RecordLosses(scan.root, sources_before(self._connection, scan.root))
            batch, together = 0, list[FileRead]()
            for read in scan.read:
                if not read.is_touched:
                    staged = staged_sources(self._space, read, with_media)
                    staged = with_kept_ids(self._connection, self._space, staged)
                    self._decide_file(read, staged, losses, (number, batch))
                together.append(read)
                if is_batch(together):
                    batch, together = batch + 1, []
            if not losses.is_fault():
                self._gone |= set(losses.gone)
                self._new |= {source.id: _New(source, (number, batch)) for source in losses.emptied}

    def _decide_file(
        self, read: FileRead, staged: Sequence[StagedSource], losses: RecordLosses, batch: tuple[int, int]
    ) -> None:
        old = self._old[hash_uri(read.file.uri)]
        gone = vanished(staged, old.values()).gone
        verdict = losses.judge(read, gone, old, staged)
        self._gone |= {key for key in gone if verdict == "taken" or not old[key].has_version}
        kept = [] if verdict == "taken" else [source.id for source in emptied_of(staged, old)]
        for source in staged:
            if source.id in kept:
                continue
            before = old.get(source.id)
            if before is not None and stays_forgotten(source, before):
                continue
            if source.status == "failed":
                self._failed.add(source.id)
            elif before is None or not is_same(source, before):
                self._new[source.id] = _New(source, batch)

    def _pending_now(self) -> dict[UUID, PendingSource]:
        """What is stored and pending, or is so as soon as the scans are written."""
        if not self._built:
            found = publishable_sources(self._connection, self._space, self._profile.options)
        else:
            found = pending_sources(self._connection, self._built)
            # Pages that were published as repeats of what will be another page, or none.
            found += repeats_of(self._connection, self._built, [*self._new, *self._gone])
        return {source.id: source for source in found}

    def _reread(self) -> set[UUID]:
        """The stored sources of the files that were read."""
        files = (hash_uri(read.file.uri) for scan in self._scans for read in scan.read)
        return {key for file in files for key in self._old[file]}

    def _new_pending(self) -> Iterator[PendingSource]:
        served = served_versions(self._connection, self._built, list(self._new))
        for new in self._new.values():
            source = _pending(new.source, self._profile.options.multimodal)
            if source is not None and served.get(source.id) != source.checksum:
                yield source

    def _pages(self, known: set[UUID]) -> Pages:
        found = {page.id: page for page in stored_pages(self._connection, self._built, self._space)}
        # Nothing is known of files that are to be read and were not.
        for key in self._gone | self._failed | (known - self._reread()):
            found.pop(key, None)
        for new in sorted(self._new.values(), key=_place):
            source = new.source
            if source.signature is None:
                found.pop(source.id, None)
            else:  # one that is there already keeps its place
                found[source.id] = Page(source.id, source.checksum, source.signature)
        return compared(list(found.values()), self._texts)

    def _texts(self, ids: Sequence[UUID]) -> Mapping[UUID, str]:
        documents = {key: self._new[key].source.document for key in ids if key in self._new}
        ahead = {key: document.text for key, document in documents.items() if document is not None}
        return page_texts(self._connection, ids) | ahead


def _place(one: _New) -> tuple[tuple[int, int], int, str]:
    return one.batch, len(one.source.external_id), one.source.external_id


def _pending(source: StagedSource, multimodal: bool) -> PendingSource | None:
    """What a profile has to publish of a source; None of one without anything to embed."""
    media = source.media if multimodal else None
    if source.document is None and media is None:
        return None
    document = source.document or Document("", content_type=media.type if media else "text/plain")
    return PendingSource(source.id, source.checksum, document, source.name, source.external_id, media)
