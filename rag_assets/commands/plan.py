"""What an ingest would do, found out without writing anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.documents.chunking import chunk_document
from rag_assets.documents.model import Document
from rag_assets.documents.registry import PARSER_VERSION, parse
from rag_assets.documents.scan import SourceFile, read_file, scan_root
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.errors import RootUnreadable, SourceError
from rag_assets.ingest.sources import RootChanges, decide
from rag_assets.progress import stage
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import built_profiles
from rag_assets.store.sources import FileState, file_states, hash_uri, pending_sources, sources_of_files
from rag_assets.store.tenants import Root, list_bots, list_roots, list_tenants

SAMPLE_FILES = 200  # of the files to read, so many are read and cut to estimate the rest


@dataclass
class Plan:
    """Counts of files, and an estimate of the work: exact where at most `SAMPLE_FILES` are to be read."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    skipped: int = 0  # no parser takes them
    sources: int = 0
    chunks: int = 0
    tokens: int = 0
    exact: bool = True
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # root or path, and why


@dataclass(frozen=True)
class _Scanned:
    root: Root | None  # None: not remembered yet
    known: dict[str, FileState]
    changes: RootChanges


def make_plan(database: Database, tenant: str, bot: str, given: Sequence[str], profile: EmbeddingProfile) -> Plan:
    """Look at the remembered roots and the `given` ones, and at what the profile has not published yet."""
    plan = Plan()
    with database.transaction("ingest", {"tenant": tenant}) as connection:
        roots = list_roots(connection, tenant, bot)
        fresh = [uri for uri in given if uri not in {root.uri for root in roots}]
        wanted: list[tuple[str, Root | None]] = [(root.uri, root) for root in roots]
        wanted += [(uri, None) for uri in fresh]
        scans = [scan for uri, root in wanted if (scan := _scan(connection, uri, root, plan)) is not None]
        waiting = _waiting(connection, tenant, bot, profile.name, scans)
    _count(plan, scans)
    _estimate(plan, scans, profile)
    _add_documents(plan, waiting, profile, scale=1.0)
    return plan


def exists(database: Database, tenant: str, bot: str) -> bool:
    """Whether the tenant has this bot."""
    return tenant in list_tenants(database) and bot in list_bots(database, tenant)


def _scan(connection: Connection, uri: str, root: Root | None, plan: Plan) -> _Scanned | None:
    try:
        listing = scan_root(uri)
    except RootUnreadable as error:
        plan.unreadable.append((uri, str(error)))
        return None
    plan.skipped += len(listing.skipped)
    plan.unreadable += [(error.path, error.message) for error in listing.errors]
    known = file_states(connection, root) if root else {}
    return _Scanned(root, known, decide(listing, known))


def _waiting(connection: Connection, tenant: str, bot: str, profile: str, scans: Sequence[_Scanned]) -> list[Document]:
    """Documents that are stored, stay as they are, and that the profile has yet to publish."""
    found = [scan.root for scan in scans if scan.root is not None]
    if not found:
        return []
    replaced = set()
    for scan in scans:
        if scan.root is not None:
            uris = [file.uri for file in scan.changes.to_read] + list(scan.changes.gone)
            states = sources_of_files(connection, scan.root, [hash_uri(uri) for uri in uris])
            replaced |= {state.id for state in states}
    built = built_profiles(connection, tenant, bot, profile)
    pending = pending_sources(connection, built[0].id if built else 0, found[0].space_id)
    return [source.document for source in pending if source.id not in replaced]


def _count(plan: Plan, scans: Iterable[_Scanned]) -> None:
    for scan in scans:
        new = sum(file.uri not in scan.known for file in scan.changes.to_read)
        plan.new += new
        plan.changed += len(scan.changes.to_read) - new
        plan.unchanged += len(scan.changes.kept)
        plan.gone += len(scan.changes.gone)


def _estimate(plan: Plan, scans: Sequence[_Scanned], profile: EmbeddingProfile) -> None:
    to_read = [(file, scan.known.get(file.uri)) for scan in scans for file in scan.changes.to_read]
    step = max(1, -(-len(to_read) // SAMPLE_FILES))
    sample = to_read[::step]
    plan.exact = len(sample) == len(to_read)
    documents: list[Document] = []
    with stage("look into files", len(sample)) as bar:
        for file, known in sample:
            documents += _documents(plan, file, known)
            bar.advance(1)
    _add_documents(plan, documents, profile, scale=len(to_read) / max(1, len(sample)))


def _documents(plan: Plan, file: SourceFile, known: FileState | None) -> list[Document]:
    try:
        data = read_file(file)
        if known is not None and _same(known, data):  # touched, and nothing else
            plan.changed -= 1
            plan.unchanged += 1
            return []
        return [record.document for record in parse(data, file.path_in_root) if record.document is not None]
    except (OSError, SourceError) as error:
        plan.unreadable.append((file.path_in_root, str(error)))
        return []


def _same(known: FileState, data: bytes) -> bool:
    return known.parser_version == PARSER_VERSION and known.checksum == bytes_checksum(data)


def _add_documents(plan: Plan, documents: Sequence[Document], profile: EmbeddingProfile, scale: float) -> None:
    chunks = tokens = 0
    for document in documents:
        pieces = chunk_document(document, profile.chunking)
        chunks += len(pieces)
        tokens += sum(piece.token_count for piece in pieces)
    plan.sources += round(len(documents) * scale)
    plan.chunks += round(chunks * scale)
    plan.tokens += round(tokens * scale)
