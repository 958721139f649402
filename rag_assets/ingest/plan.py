"""What an ingest would do and what it would cost, found out without writing or sending anything."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rag_assets.documents.model import Record, embedding_text
from rag_assets.embedding.cached import content_hash, media_hash
from rag_assets.embedding.estimate import document_tokens
from rag_assets.embedding.models import MEDIA_TOKENS
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import RootUnreadable
from rag_assets.ingest.chunks import CutSource, cut_source
from rag_assets.ingest.dry_sync import NOWHERE, ScannedRoot, look_ahead, space_of
from rag_assets.ingest.extraction import graph_cost, request_tokens, text_hash, unasked
from rag_assets.ingest.listing import list_root
from rag_assets.ingest.losses import RecordLosses, find_gone, lost_files, sources_before
from rag_assets.ingest.repeated_pages import Pages
from rag_assets.ingest.root_changes import RootChanges, decide, left_out_before
from rag_assets.ingest.staging import FileRead, read_file
from rag_assets.printing import counted, duration
from rag_assets.progress import stage
from rag_assets.sources.options import RootOptions
from rag_assets.sources.scan import RootListing
from rag_assets.sources.secrets import shown
from rag_assets.store.cache import Timed, known_hashes, timed_usage
from rag_assets.store.database import Connection, Database
from rag_assets.store.limits import Mode, RateLimit, profile_settings, rate_limits, spent_usd
from rag_assets.store.roots import Root, files_elsewhere, list_roots
from rag_assets.store.sources import FileState, PendingSource, file_states, hash_uri
from rag_assets.store.tenants import list_bots, list_tenants

SAMPLE_FILES = 200  # of the files to read, so many are read and cut to estimate the rest
_MEASURED_TEXTS = 64
_SOURCES = 100  # whose chunks are looked up together


@dataclass
class PlannedWork:
    """What is to be embedded: `chunks` of `sources`, of which `cache_hits` are paid for and `to_embed` are not; the
    rest are duplicates. `tokens` are of all chunks, `tokens_to_embed` those that a provider would count. All include
    files that are embedded as such; `media_tokens_to_embed` are of these alone. Where a chat model finds triples,
    `to_ask` are the texts that it is asked about, and `tokens_to_read` and `tokens_to_write` about what that takes.
    """

    sources: int = 0
    chunks: int = 0
    tokens: int = 0
    cache_hits: int = 0
    to_embed: int = 0
    tokens_to_embed: int = 0
    media_tokens_to_embed: int = 0
    to_ask: int = 0
    tokens_to_read: int = 0
    tokens_to_write: int = 0

    def add(self, other: PlannedWork, scale: float = 1.0) -> None:
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
    skipped: int = 0  # files that are not read, and folders that are not looked into
    held: int = 0  # sources of files that are gone and would be kept, as so many at once look like a fault
    work: PlannedWork = field(default_factory=PlannedWork)
    exact: bool = True
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # root or path, and why

    def add(self, other: Plan) -> None:
        """Add another bot's plan."""
        for name in ("new", "changed", "unchanged", "gone", "skipped", "held"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.work.add(other.work)
        self.exact &= other.exact
        self.unreadable += other.unreadable


@dataclass(frozen=True)
class Price:
    """What work would cost, in dollars and in seconds (None: nothing is known), and what these `seconds_rest_on`.

    `batch_usd` is None where the provider has no batch API. `mode` is what the profile is set to; `fits` says whether
    the price in that mode is within what is left of the ceiling. `graph_usd` is what finding triples costs, at once in
    either mode and not in the others; None where the price of that chat model is not known.
    """

    sync_usd: float
    batch_usd: float | None
    sync_seconds: float | None
    seconds_rest_on: str | None
    mode: Mode
    ceiling_usd: float | None
    spent_usd: float
    graph_usd: float | None = 0.0

    @property
    def usd(self) -> float:
        """The price of all in the profile's mode."""
        embedding = self.batch_usd if self.mode == "batch" and self.batch_usd is not None else self.sync_usd
        return embedding + (self.graph_usd or 0.0)

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
        self._asked: set[bytes] = set()

    def of(self, sources: Sequence[PendingSource], pages: Pages) -> PlannedWork:
        """The work that it is to publish these sources."""
        work = PlannedWork()
        with stage("count chunks", len(sources)) as bar:
            for start in range(0, len(sources), _SOURCES):
                batch = sources[start : start + _SOURCES]
                self._count(work, [cut_source(source, pages, self.profile.chunking) for source in batch])
                bar.advance(len(batch))
        return work

    def _count(self, work: PlannedWork, cuts: Sequence[CutSource]) -> None:
        cuts = [cut for cut in cuts if not cut.is_duplicate and cut.error is None]
        work.sources += len(cuts)
        texts = [embedding_text(chunk.context, chunk.content) for cut in cuts for chunk in cut.chunks]
        self._add(work, [content_hash(text) for text in texts], document_tokens(self.profile, texts))
        self._count_questions(work, [(chunk.context, chunk.content) for cut in cuts for chunk in cut.chunks])
        files = [cut.source.media for cut in cuts if cut.source.media]
        before = work.tokens_to_embed
        hashes = [media_hash(file.type, file.checksum) for file in files]
        self._add(work, hashes, [file.pages * MEDIA_TOKENS for file in files])
        work.media_tokens_to_embed += work.tokens_to_embed - before

    def _count_questions(self, work: PlannedWork, texts: Sequence[tuple[str | None, str]]) -> None:
        """Texts that the profile's chat model would be asked about, where it has one."""
        hashed = {text_hash(*text): text for text in texts}
        new = unasked(self._database, self._tenant, self.profile, list(hashed)) - self._asked
        self._asked |= new
        for read, written in (request_tokens(*hashed[digest]) for digest in new):
            work.to_ask += 1
            work.tokens_to_read += read
            work.tokens_to_write += written

    def _add(self, work: PlannedWork, hashes: Sequence[bytes], tokens_of_each: Sequence[int]) -> None:
        cached = hashes if self.profile.model_info.cached else ()
        known = known_hashes(self._database, self._tenant, self.profile.model_key, cached)
        work.chunks += len(hashes)
        for digest, tokens in zip(hashes, tokens_of_each, strict=True):
            work.tokens += tokens
            if digest in known:
                work.cache_hits += 1
            elif digest not in self._seen:
                self._seen.add(digest)
                work.to_embed += 1
                work.tokens_to_embed += tokens


def _time_of(
    limits: Sequence[RateLimit], timed: Timed | None, profile: EmbeddingProfile, work: PlannedWork
) -> tuple[float | None, str | None]:
    """Seconds of the work, and what says so: the slowest of the rate limits, each with its first window, and of the
    speed that was measured."""
    ways = [(limit.seconds(work.to_embed, work.tokens_to_embed), f"the rate limit of {limit}") for limit in limits]
    if timed is not None:
        told = f"{counted(timed.items, 'text')} in {duration(timed.seconds)} of earlier ingests"
        ways.append((work.to_embed * timed.seconds / timed.items, told))
    elif profile.model_info.ships and work.to_embed:
        measured = _measured(profile, round(work.tokens_to_embed / work.to_embed))
        told = f"{counted(measured.items, 'text')} of the same length in {duration(measured.seconds)}, just now"
        ways.append((work.to_embed * measured.seconds / measured.items, told))
    return max(ways, default=(None, None))


def _measured(profile: EmbeddingProfile, tokens: int) -> Timed:
    """How long the model takes on this machine for some texts of so many words; one that ships with this package."""
    embedder = embedder_for(profile)
    texts = [" ".join(f"word{number + n}" for n in range(max(1, tokens))) for number in range(_MEASURED_TEXTS)]
    began = time.monotonic()
    embedder.embed_documents(texts)
    return Timed(len(texts), time.monotonic() - began)


def price_of(database: Database, tenant: str, profile: EmbeddingProfile, work: PlannedWork) -> Price:
    """What the work would cost this tenant."""
    info = profile.model_info
    with database.work(tenant) as connection:
        limits = rate_limits(connection, profile.provider, profile.model)
        settings = profile_settings(connection, profile.name)
        spent = spent_usd(connection, tenant, profile.name)
        timed = timed_usage(connection, tenant, profile)
    seconds, rest_on = _time_of(limits, timed, profile, work)
    text_tokens = work.tokens_to_embed - work.media_tokens_to_embed
    media_usd = work.media_tokens_to_embed * info.media_price_usd / 1e6  # files are embedded at once in either mode
    return Price(
        sync_usd=info.cost_usd(text_tokens) + media_usd,
        batch_usd=info.cost_usd(text_tokens, batch=True) + media_usd if info.has_batch_api else None,
        sync_seconds=seconds,
        seconds_rest_on=rest_on,
        mode=settings.mode,
        ceiling_usd=settings.max_cost_usd,
        spent_usd=spent,
        graph_usd=graph_cost(profile, work.tokens_to_read, work.tokens_to_write),
    )


@dataclass(frozen=True)
class _Scan:
    root: Root
    known: dict[str, FileState]
    listing: RootListing
    changes: RootChanges


def make_plan(
    database: Database,
    tenant: str,
    bot: str,
    given: Sequence[str],
    demand: Demand,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Plan:
    """Look at the remembered roots and the `given` ones, which would be told `options`, and at what the profile has not
    published yet."""
    plan = Plan()
    with database.work(tenant) as connection:
        roots = list_roots(connection, tenant, bot)
        space = space_of(connection, tenant, bot)
        known = {root.uri for root in roots}
        roots += [Root(NOWHERE, space, tenant, bot, uri) for uri in dict.fromkeys(given) if uri not in known]
        told = [_told(root, options) if root.uri in given else root for root in roots]
        covered: set[str] = set()
        found = (
            _scan(database, connection, root, plan, covered, reread=not root.options.reads_like(before.options))
            for before, root in zip(roots, told, strict=True)
        )
        scans = [scan for scan in found if scan is not None]
    _count_files(plan, scans)
    to_read = sum(len(scan.changes.to_read) for scan in scans)
    step = max(1, -(-to_read // SAMPLE_FILES))
    plan.exact = step == 1
    looked = _look_into(plan, scans, step)
    with database.work(tenant) as connection:
        looked = [_hold_back(connection, scan, one, plan) for scan, one in zip(scans, looked, strict=True)]
        ahead = look_ahead(connection, tenant, bot, demand.profile, looked)
    plan.work.add(demand.of(ahead.stored, ahead.pages))
    read = sum(len(scan.read) for scan in looked)
    plan.work.add(demand.of(ahead.read, ahead.pages), to_read / max(1, read))
    return plan


def exists(database: Database, tenant: str, bot: str) -> bool:
    """Whether the tenant has this bot."""
    return tenant in list_tenants(database) and bot in list_bots(database, tenant)


def _scan(
    database: Database, connection: Connection, root: Root, plan: Plan, covered: set[str], *, reread: bool
) -> _Scan | None:
    """Look at one root; files in `covered`, which it extends, are another root's. `reread`: it is told to be read
    otherwise, and all of its files count as changed."""
    known = file_states(connection, root)
    if reread:
        known = {uri: replace(state, parser_version="") for uri, state in known.items()}
    try:
        listing = list_root(database, root, known)
    except RootUnreadable as error:
        plan.unreadable.append((shown(root.uri), str(error)))
        return None
    plan.skipped += sum(listing.skipped_counts.values())
    plan.unreadable += [(error.path, error.message) for error in listing.errors]
    changes = decide(listing, known, covered)
    plan.skipped += len(left_out_before(listing, changes, known))
    covered |= {file.uri for file in listing.files}
    return _Scan(root, known, listing, changes)


def _told(root: Root, options: Mapping[str, Any]) -> Root:
    return replace(root, options=RootOptions.model_validate({**root.options.model_dump(), **options}))


def _hold_back(connection: Connection, scan: _Scan, looked: ScannedRoot, plan: Plan) -> ScannedRoot:
    """Leave what a scan would hold back out of what is gone."""
    root, changes = scan.root, scan.changes
    hashes = [hash_uri(uri) for uri in (*changes.gone, *changes.held)]
    if not hashes:
        return looked
    states = scan.known | {read.file.uri: read.state for read in looked.read if read.state is not None}
    gone = find_gone(connection, root, changes, states, files_elsewhere(connection, root, hashes))
    lost, is_held = lost_files(root, scan.listing, changes, gone, RecordLosses(root, sources_before(connection, root)))
    kept = set(lost) if is_held else set()
    plan.held += sum(source.file_hash in kept for source in gone.sources)
    away = tuple(uri for file, uri in gone.files.items() if file not in kept)
    plan.gone += len(away) - len(changes.gone)
    return replace(looked, changes=replace(changes, gone=away))


def _count_files(plan: Plan, scans: Iterable[_Scan]) -> None:
    for scan in scans:
        new = sum(file.uri not in scan.known for file in scan.changes.to_read)
        plan.new += new
        plan.changed += len(scan.changes.to_read) - new
        plan.unchanged += len(scan.changes.kept)
        plan.gone += len(scan.changes.gone)


def _look_into(plan: Plan, scans: Sequence[_Scan], step: int) -> list[ScannedRoot]:
    """Read every `step`th of the files to read."""
    to_read = [(number, file) for number, scan in enumerate(scans) for file in scan.changes.to_read][::step]
    read: list[list[FileRead]] = [[] for _ in scans]
    with stage("look into files", len(to_read)) as bar:
        for number, file in to_read:
            one = read_file(file, scans[number].known.get(file.uri))
            read[number].append(one)
            if one.is_touched:
                plan.changed -= 1
                plan.unchanged += 1
            reasons = [one.error] if one.error else [record.error for record in one.records if _has_failed(record)]
            plan.unreadable += [(file.path_in_root, reason or "it cannot be read") for reason in reasons]
            bar.advance(1)
    return [ScannedRoot(scan.root, scan.changes, files) for scan, files in zip(scans, read, strict=True)]


def _has_failed(record: Record) -> bool:
    return record.status == "failed" and not record.key
