"""What is waiting to be done for a tenant: files to read, and profiles that are behind their sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rag_assets.automation.work import Look, PendingWork, Rank, digest
from rag_assets.errors import SourceError
from rag_assets.ingest.listing import list_root
from rag_assets.ingest.root_changes import RootChanges, decide, is_due, is_remote
from rag_assets.printing import counted
from rag_assets.runs.lanes import Lane
from rag_assets.sources.secrets import shown
from rag_assets.store.attempts import failed_work
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile, built_profiles
from rag_assets.store.roots import Root, list_roots
from rag_assets.store.sources import FileState, file_states, profile_lag
from rag_assets.store.tenants import Space, spaces_of

_MUCH = 1000  # files or sources
_MUCH_BYTES = 64 * 2**20
_ON_THIS_MACHINE = frozenset({"wordllama", "hash", "sentence-transformers", "onnx"})


def look_at(database: Database, tenant: str) -> Look:
    """Compare the tenant's roots and profiles with what the database knows. Reads only, and asks nobody else.

    A root that cannot be listed becomes a warning: nothing of it is taken for gone, and the others are
    looked at. A root on the network is not listed here: when it is due, a run does that.
    """
    now = datetime.now(UTC)
    look = Look(began=now.timestamp())
    with database.work(tenant) as connection:
        roots = list_roots(connection, tenant)
        profiles = built_profiles(connection, tenant)
        spaces = spaces_of(connection, tenant)
        look.failed = failed_work(connection, tenant)
    look.roots = len(roots)
    look.works += _sources(database, tenant, roots, look, now)
    look.works += _behind(database, tenant, profiles, spaces)
    look.pairs = {(tenant, built.profile.name) for built in profiles}
    return look


def _sources(database: Database, tenant: str, roots: Sequence[Root], look: Look, now: datetime) -> list[PendingWork]:
    parts: list[object] = []
    reasons: list[str] = []
    size, outside = 0, False  # whether the run waits for servers of others: it looks at those of them that are due
    for root in roots:
        if not is_due(root, now):
            continue
        if is_remote(root.uri):
            outside = True
            parts.append((str(root.id), "due", root.scanned_at))
            reasons.append(f"{shown(root.uri)} is due")
            continue
        found, bytes_found = _look_at_root(database, root, look)
        parts += found
        size += bytes_found
        if found:
            reasons.append(f"{counted(len(found), 'file')} new, changed or gone under {shown(root.uri)}")
    if not parts:
        return []
    lane: Lane = "bulk" if len(parts) > _MUCH or size > _MUCH_BYTES else "outside" if outside else "quick"
    return [PendingWork(tenant, None, digest(parts), "; ".join(reasons), lane)]


def _look_at_root(database: Database, root: Root, look: Look) -> tuple[list[object], int]:
    with database.work(root.tenant) as connection:
        known = file_states(connection, root)
    try:
        listing = list_root(database, root, known)
    except (SourceError, OSError) as error:
        look.warnings.append(f"root {shown(root.uri)} of {root.tenant}/{root.bot} could not be listed: {error}")
        return [], 0
    changes = decide(listing, known)
    return to_do(root, changes, known), sum(file.size for file in changes.to_read if file.size > 0)


def to_do(root: Root, changes: RootChanges, known: Mapping[str, FileState]) -> list[object]:
    """One value for each file to read or gone: what it is now, and what is known of it."""
    return [
        (str(root.id), file.uri, file.size, file.mtime_ns, file.ctime_ns, file.inode, known.get(file.uri))
        for file in changes.to_read
    ] + [(str(root.id), uri, "gone", known[uri]) for uri in changes.gone]


def _behind(
    database: Database, tenant: str, profiles: Sequence[BuiltProfile], spaces: Sequence[Space]
) -> list[PendingWork]:
    """Work for each profile that has sources to publish or to take away, for all bots that have it."""
    counts: dict[str, int] = defaultdict(int)
    parts: dict[str, list[object]] = defaultdict(list)
    with database.work(tenant) as connection:
        for built in profiles:
            lag = profile_lag(connection, built.id)
            if lag.sources:
                counts[built.profile.name] += lag.sources
                parts[built.profile.name].append((built.id, lag.digest))
    return [
        PendingWork(
            tenant,
            name,
            digest(parts[name]),
            f"{counted(count, 'source')} to publish or take away",
            lane_of_pair(name, profiles, count),
            rank_of_pair(name, profiles, spaces),
        )
        for name, count in counts.items()
    ]


def lane_of_pair(name: str, profiles: Sequence[BuiltProfile], sources: int = 0) -> Lane:
    """Where the run of a pair has its place."""
    if sources > _MUCH:
        return "bulk"
    providers = {built.profile.provider for built in profiles if built.profile.name == name}
    return "quick" if providers <= _ON_THIS_MACHINE else "outside"


def rank_of_pair(name: str, profiles: Sequence[BuiltProfile], spaces: Sequence[Space]) -> Rank:
    """The best of what a profile is to the tenant's bots. Where nothing serves yet, the first built will."""
    mine = {built.space_id: built.id for built in profiles if built.profile.name == name}
    of_mine = [space for space in spaces if space.id in mine]
    if any(space.active_profile_id in (None, mine[space.id]) for space in of_mine):
        return "serving"
    return "canary" if any(space.canary_profile_id == mine[space.id] for space in of_mine) else "candidate"
