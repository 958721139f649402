"""What an ingest would do and what it would cost, found out without writing or sending anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rag_assets.chunking import chunk_document
from rag_assets.documents.checksum import bytes_checksum
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Document, embedding_text
from rag_assets.documents.registry import PARSER_VERSION
from rag_assets.embedding.cached import content_hash, media_hash
from rag_assets.embedding.estimate import document_tokens
from rag_assets.embedding.models import MEDIA_TOKENS
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import RootUnreadable, SourceError
from rag_assets.ingest.sources import RootChanges, decide, stored_media
from rag_assets.progress import stage
from rag_assets.sources.scan import SourceFile, read_content, scan_root
from rag_assets.store.cache import known_hashes
from rag_assets.store.database import Connection, Database
from rag_assets.store.limits import Mode, profile_settings, rate_limits, spent_usd
from rag_assets.store.profiles import built_profiles
from rag_assets.store.sources import (
    FileState,
    PendingSource,
    StoredMedia,
    file_states,
    hash_uri,
    pending_sources,
    publishable_sources,
    sources_of_files,
)
from rag_assets.store.tenants import Root, list_bots, list_roots, list_tenants

SAMPLE_FILES = 200  # of the files to read, so many are read and cut to estimate the rest
_DOCUMENTS = 100  # whose chunks are looked up together


@dataclass
class Work:
    """What is to be embedded: `chunks` of `sources`, of which `cache_hits` are paid for and `to_embed` are not; the
    rest are duplicates. `tokens` are of all chunks, `tokens_to_embed` those that a provider would count. All but
    `sources` include files that are embedded as such; `media_tokens_to_embed` are of these alone."""

    sources: int = 0
    chunks: int = 0
    tokens: int = 0
    cache_hits: int = 0
    to_embed: int = 0
    tokens_to_embed: int = 0
    media_tokens_to_embed: int = 0

    def add(self, other: Work, scale: float = 1.0) -> None:
        """Add `scale` times what the other counts."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + round(count * scale))


@dataclass
class Plan:
    """Counts of files, and an estimate of the work: exact where at most `SAMPLE_FILES` are to be read."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    skipped: int = 0  # no parser takes them
    work: Work = field(default_factory=Work)
    exact: bool = True
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # root or path, and why

    def add(self, other: Plan) -> None:
        """Add another bot's plan."""
        for name in ("new", "changed", "unchanged", "gone", "skipped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.work.add(other.work)
        self.exact &= other.exact
        self.unreadable += other.unreadable


@dataclass(frozen=True)
class Price:
    """What work would cost, in dollars and in seconds at the rate limits that are set (None: nothing is known).

    `batch_usd` is None where the provider has no batch API. `mode` is what the profile is set to; `fits` says whether
    the price in that mode is within what is left of the ceiling.
    """

    sync_usd: float
    batch_usd: float | None
    sync_seconds: float | None
    mode: Mode
    ceiling_usd: float | None
    spent_usd: float

    @property
    def usd(self) -> float:
        """The price in the profile's mode."""
        return self.batch_usd if self.mode == "batch" and self.batch_usd is not None else self.sync_usd

    @property
    def left_usd(self) -> float | None:
        """What is left of the ceiling, if there is one."""
        return None if self.ceiling_usd is None else max(0.0, self.ceiling_usd - self.spent_usd)

    @property
    def fits(self) -> bool:
        return self.left_usd is None or self.usd <= self.left_usd


class Demand:
    """Counts what documents would take, beside the tenant's cache and what has been counted before: one for all of a
    tenant's bots, because they share the cache."""

    def __init__(self, database: Database, tenant: str, profile: EmbeddingProfile) -> None:
        self._database, self._tenant, self.profile = database, tenant, profile
        self._seen: set[bytes] = set()

    def of(self, documents: Sequence[Document]) -> Work:
        """The work that these documents are."""
        work = Work(sources=len(documents))
        with stage("count chunks", len(documents)) as bar:
            for start in range(0, len(documents), _DOCUMENTS):
                batch = documents[start : start + _DOCUMENTS]
                chunks = [chunk for document in batch for chunk in chunk_document(document, self.profile.chunking)]
                self._count(work, [embedding_text(chunk.context, chunk.content) for chunk in chunks])
                bar.advance(len(batch))
        return work

    def of_files(self, files: Sequence[StoredMedia]) -> Work:
        """The work that these files are, where the profile embeds files as such."""
        work = Work()
        if self.profile.options.multimodal:
            hashes = [media_hash(file.type, file.checksum) for file in files]
            self._add(work, hashes, [file.pages * MEDIA_TOKENS for file in files])
            work.media_tokens_to_embed = work.tokens_to_embed
        return work

    def _count(self, work: Work, texts: Sequence[str]) -> None:
        self._add(work, [content_hash(text) for text in texts], document_tokens(self.profile, texts))

    def _add(self, work: Work, hashes: Sequence[bytes], tokens_of_each: Sequence[int]) -> None:
        known = known_hashes(self._database, self._tenant, self.profile.model_key, hashes)
        work.chunks += len(hashes)
        for digest, tokens in zip(hashes, tokens_of_each, strict=True):
            work.tokens += tokens
            if digest in known:
                work.cache_hits += 1
            elif digest not in self._seen:
                self._seen.add(digest)
                work.to_embed += 1
                work.tokens_to_embed += tokens


def price_of(database: Database, tenant: str, profile: EmbeddingProfile, work: Work) -> Price:
    """What the work would cost this tenant. The time is that of the slowest rate limit, its first window included."""
    info = profile.model_info
    with database.work(tenant) as connection:
        limits = rate_limits(connection, profile.provider, profile.model)
        settings = profile_settings(connection, profile.name)
        spent = spent_usd(connection, tenant, profile.name)
    seconds = [limit.seconds(work.to_embed, work.tokens_to_embed) for limit in limits]
    text_tokens = work.tokens_to_embed - work.media_tokens_to_embed
    media_usd = work.media_tokens_to_embed * info.media_price_usd / 1e6  # files are embedded at once in either mode
    return Price(
        sync_usd=info.cost_usd(text_tokens) + media_usd,
        batch_usd=info.cost_usd(text_tokens, batch=True) + media_usd if info.has_batch_api else None,
        sync_seconds=max(seconds, default=None),
        mode=settings.mode,
        ceiling_usd=settings.max_cost_usd,
        spent_usd=spent,
    )


@dataclass(frozen=True)
class _Scanned:
    root: Root | None  # None: not remembered yet
    known: dict[str, FileState]
    changes: RootChanges


def make_plan(database: Database, tenant: str, bot: str, given: Sequence[str], demand: Demand) -> Plan:
    """Look at the remembered roots and the `given` ones, and at what the profile has not published yet."""
    plan = Plan()
    with database.work(tenant) as connection:
        roots = list_roots(connection, tenant, bot)
        fresh = [uri for uri in given if uri not in {root.uri for root in roots}]
        wanted: list[tuple[str, Root | None]] = [(root.uri, root) for root in roots]
        wanted += [(uri, None) for uri in fresh]
        covered: set[str] = set()
        scans = [scan for uri, root in wanted if (scan := _scan(connection, uri, root, plan, covered)) is not None]
        waiting = _waiting(connection, tenant, bot, demand.profile, scans)
    _count(plan, scans)
    plan.work.add(demand.of([source.document for source in waiting if source.document.text]))
    plan.work.add(demand.of_files([source.media for source in waiting if source.media]))
    _estimate(plan, scans, demand)
    return plan


def exists(database: Database, tenant: str, bot: str) -> bool:
    """Whether the tenant has this bot."""
    return tenant in list_tenants(database) and bot in list_bots(database, tenant)


def _scan(connection: Connection, uri: str, root: Root | None, plan: Plan, covered: set[str]) -> _Scanned | None:
    """Look at one root; files in `covered`, which it extends, are another root's."""
    known = file_states(connection, root) if root else {}
    try:
        listing = scan_root(uri, known)
    except RootUnreadable as error:
        plan.unreadable.append((uri, str(error)))
        return None
    plan.skipped += len(listing.skipped)
    plan.unreadable += [(error.path, error.message) for error in listing.errors]
    changes = decide(listing, known, covered)
    covered |= {file.uri for file in listing.files}
    return _Scanned(root, known, changes)


def _waiting(
    connection: Connection, tenant: str, bot: str, profile: EmbeddingProfile, scans: Sequence[_Scanned]
) -> list[PendingSource]:
    """Sources that are stored, stay as they are, and that the profile has yet to publish."""
    found = [scan.root for scan in scans if scan.root is not None]
    if not found:
        return []
    replaced = set()
    for scan in scans:
        if scan.root is not None:
            uris = [file.uri for file in scan.changes.to_read] + list(scan.changes.gone)
            states = sources_of_files(connection, scan.root, [hash_uri(uri) for uri in uris])
            replaced |= {state.id for state in states}
    built = built_profiles(connection, tenant, bot, profile.name)
    pending = (
        pending_sources(connection, built[0].id)
        if built
        else publishable_sources(connection, found[0].space_id, profile.options)
    )
    return [source for source in pending if source.id not in replaced]


def _count(plan: Plan, scans: Iterable[_Scanned]) -> None:
    for scan in scans:
        new = sum(file.uri not in scan.known for file in scan.changes.to_read)
        plan.new += new
        plan.changed += len(scan.changes.to_read) - new
        plan.unchanged += len(scan.changes.kept)
        plan.gone += len(scan.changes.gone)


def _estimate(plan: Plan, scans: Sequence[_Scanned], demand: Demand) -> None:
    to_read = [(file, scan.known.get(file.uri)) for scan in scans for file in scan.changes.to_read]
    step = max(1, -(-len(to_read) // SAMPLE_FILES))
    sample = to_read[::step]
    plan.exact = len(sample) == len(to_read)
    documents: list[Document] = []
    files: list[StoredMedia] = []
    with stage("look into files", len(sample)) as bar:
        for file, known in sample:
            _look_into(plan, file, known, documents, files)
            bar.advance(1)
    scale = len(to_read) / max(1, len(sample))
    plan.work.add(demand.of(documents), scale)
    plan.work.add(demand.of_files(files), scale)


def _look_into(
    plan: Plan, file: SourceFile, known: FileState | None, documents: list[Document], files: list[StoredMedia]
) -> None:
    """Add a file's documents, and the file itself where it can be embedded as such."""
    try:
        content = read_content(file)
    except (OSError, SourceError) as error:
        plan.unreadable.append((file.path_in_root, str(error)))
        return
    if known is not None and _same(known, content.data):  # touched, and nothing else
        plan.changed -= 1
        plan.unchanged += 1
        return
    records = parse_file(content.data, file.path_in_root, content.content_type)
    plan.unreadable += [
        (file.path_in_root, record.error or "it cannot be read")
        for record in records
        if record.status == "failed" and not record.key
    ]
    documents += [record.document for record in records if record.document is not None]
    checksum = bytes_checksum(content.data)
    files += [media for record in records if (media := stored_media(record, checksum)) is not None]


def _same(known: FileState, data: bytes) -> bool:
    return known.parser_version == PARSER_VERSION and known.checksum == bytes_checksum(data)
