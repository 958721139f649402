"""What is waiting to be done for a tenant: files to read, and profiles that are behind their sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rag_assets.automation.work import Look, PendingWork, digest
from rag_assets.errors import SourceError
from rag_assets.ingest.root_changes import RootChanges, decide
from rag_assets.sources.scan import scan_root
from rag_assets.sources.secrets import shown
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile, built_profiles
from rag_assets.store.roots import Root, list_roots
from rag_assets.store.sources import FileState, file_states, profile_lag

# A bucket costs a request to list, a page one to see whether it has changed.
REMOTE_EVERY_S = 900


def look_at(database: Database, tenant: str, looked: Mapping[str, int], now: float) -> Look:
    """Compare the tenant's roots and profiles with what the database knows. Reads only.

    A root that cannot be listed becomes a warning: nothing of it is taken for gone, and the others are
    looked at. Remote roots are listed every 15 minutes; `looked` says when that was.
    """
    look = Look()
    with database.work(tenant) as connection:
        roots = list_roots(connection, tenant)
        profiles = built_profiles(connection, tenant)
    look.roots = len(roots)
    parts: list[object] = []
    for root in roots:
        last = looked.get(str(root.id), 0)
        if is_remote(root.uri):
            if now - last < REMOTE_EVERY_S:
                look.looked[str(root.id)] = last
                continue
            look.looked[str(root.id)] = int(now)
        parts += _look_at_root(database, root, look)
    if parts:
        look.works.append(PendingWork(tenant, None, digest(parts), f"{len(parts)} files new, changed or gone"))
    look.works += _behind(database, tenant, profiles)
    look.pairs = {(tenant, built.profile.name) for built in profiles}
    return look


def is_remote(uri: str) -> bool:
    """Whether a root is reached over a network."""
    return "://" in uri and not uri.lower().startswith("file:")


def _look_at_root(database: Database, root: Root, look: Look) -> list[object]:
    with database.work(root.tenant) as connection:
        known = file_states(connection, root)
    try:
        listing = scan_root(root.uri, known, root.options)
    except (SourceError, OSError) as error:
        look.warnings.append(f"root {shown(root.uri)} of {root.tenant}/{root.bot} could not be listed: {error}")
        return []
    return to_do(root, decide(listing, known), known)


def to_do(root: Root, changes: RootChanges, known: Mapping[str, FileState]) -> list[object]:
    """One value for each file to read or gone: what it is now, and what is known of it."""
    return [
        (str(root.id), file.uri, file.size, file.mtime_ns, file.ctime_ns, file.inode, known.get(file.uri))
        for file in changes.to_read
    ] + [(str(root.id), uri, "gone", known[uri]) for uri in changes.gone]


def _behind(database: Database, tenant: str, profiles: Sequence[BuiltProfile]) -> list[PendingWork]:
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
        PendingWork(tenant, name, digest(parts[name]), f"{count} sources to publish or take away")
        for name, count in counts.items()
    ]
