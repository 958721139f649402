"""Roots as people change them: found by what they type, told, moved, confirmed and removed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from encodings.aliases import aliases
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from rag_assets.documents.checksum import bytes_checksum
from rag_assets.errors import RagError, RootMoved, RootUnreadable, SourceError, UsageError, unknown
from rag_assets.faults import faults_of
from rag_assets.ingest import losses
from rag_assets.printing import counted
from rag_assets.sources.local import to_path
from rag_assets.sources.options import RootOptions
from rag_assets.sources.patterns import patterns_of
from rag_assets.sources.places import base_of, place_in
from rag_assets.sources.pushed import is_pushed
from rag_assets.sources.scan import SourceFile, read_file, scan_root
from rag_assets.sources.secrets import shown
from rag_assets.store import roots as store
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import built_profiles
from rag_assets.store.publication import Publisher
from rag_assets.store.roots import Root, list_roots
from rag_assets.store.sources import FileState, file_states, hash_uri
from rag_assets.store.tenants import spaces_of

_COMPARED = 20  # files whose bytes are compared before two roots are called the same


@dataclass(frozen=True)
class Moved:
    """What a move did: `sources` keep their ids at the new place, `missing` files of the old place are not there, and
    `replaced` sources that had been read from the new place as others are withdrawn."""

    files: int
    missing: int
    sources: int
    replaced: int


def checked_options(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a root by their names, as they are stored.

    Raises:
        UsageError: names the first that cannot be.
    """
    if (encoding := changes.get("encoding")) is not None:
        check_encoding(encoding)
    try:
        patterns_of(RootOptions.model_validate(dict(changes)))
    except ValidationError as error:
        given = error.errors()[0]["input"]
        raise UsageError(f"{faults_of(error, RootOptions)[0]}, got {given!r}") from error
    return dict(changes)


def check_encoding(name: str) -> None:
    """Raises UsageError where Python makes no text of bytes by that name, with the one that may be meant."""
    if not _is_encoding(name):
        known = {alias.replace("_", "-") for names in aliases.items() for alias in names if _is_encoding(alias)}
        way_out = "Known are utf-8, cp1252, gb18030 and what else Python knows"
        raise unknown("encoding", name.lower().replace("_", "-"), known, listed=False, way_out=way_out)


def _is_encoding(name: str) -> bool:
    """Whether Python makes text of bytes by that name; of some it makes other bytes."""
    try:
        b"a".decode(name)
    except UnicodeError:
        return True  # one in which a byte alone is no text
    except (LookupError, ValueError):
        return False
    return True


def find_root(connection: Connection, tenant: str, bot: str, word: str) -> Root:
    """The remembered root that a person means: by its address, a path to it, or its id.

    Raises:
        UnknownTenant, UnknownBot: there is no such bot.
        UnknownRoot: with the roots that the bot has.
    """
    spaces_of(connection, tenant, bot)
    roots = list_roots(connection, tenant, bot)
    names = _names(word)
    for root in roots:
        if names & ({str(root.id)} | _names(root.uri)):
            return root
    of = f"of bot {bot!r} of tenant {tenant!r}"
    if word.startswith((".", "~")):
        word = os.path.abspath(os.path.expanduser(word))
    raise unknown("root", shown(word), [shown(root.uri) for root in roots], of=of, places=True)


def _names(word: str) -> set[str]:
    """What a root may be called: the word itself, and the path that it is."""
    if "://" in word and not word.lower().startswith("file:"):
        return {word, word.rstrip("/"), shown(word)}
    try:
        path = to_path(word if "://" in word else os.path.abspath(os.path.expanduser(word)))
    except RagError:
        return {word}
    return {word, str(path), Path(path).as_uri()}


def remove_root(database: Database, root: Root) -> int:
    """Forget a root and withdraw its sources, but for those of files that lie under another root of the bot; returns
    how many sources that were. The other root looks at its next scan whether it has them."""
    with database.work(root.tenant) as connection:
        leave_to_others(connection, root)
        withdrawn = store.drop_root(connection, root)
    withdraw(database, root)
    return withdrawn


def count_removed(database: Database, root: Root) -> int:
    """How many sources `remove_root` would withdraw. Writes nothing."""
    with database.work(root.tenant) as connection, connection.transaction(force_rollback=True):
        leave_to_others(connection, root)
        return store.count_sources(connection, root)


def leave_to_others(connection: Connection, root: Root) -> None:
    """Leave what lies under other roots of the space to those."""
    for other in list_roots(connection, root.tenant, root.bot):
        if other.space_id == root.space_id and other.id != root.id:
            store.adopt_files(connection, root, other, base_of(other.uri))
    store.leave_files(connection, root, [hash_uri(uri) for uri in file_states(connection, root)])


def confirm_loss(database: Database, root: Root) -> int:
    """Withdraw what is held back of a root; returns how many sources that were."""
    with database.work(root.tenant) as connection:
        withdrawn = losses.confirm(connection, root)
    withdraw(database, root)
    return withdrawn


def withdraw(database: Database, root: Root) -> None:
    """Take the chunks of deleted sources out of all profiles of the root's bot."""
    with database.work(root.tenant) as connection:
        profiles = built_profiles(connection, root.tenant, root.bot)
    for built in profiles:
        Publisher(database, built).withdraw()


def move_root(database: Database, root: Root, uri: str) -> Moved:
    """Remember a root at another address. What is known of its files goes along: sources keep their ids and labels, and
    nothing is embedded again. A root of the bot that is remembered at that address already becomes one with it.

    Raises:
        RootUnreadable: what lies at the new address cannot be listed; nothing was changed.
        UsageError: nothing of the root is there; nothing was changed.
    """
    if is_pushed(root.uri):
        raise UsageError(f"what was pushed lies under {root.uri} in the database and nowhere else: it cannot be moved")
    listing = scan_root(uri, {}, root.options)
    there = _places(uri, listing.files)
    with database.work(root.tenant) as connection:
        known = file_states(connection, root)
        other = next((one for one in list_roots(connection, root.tenant, root.bot) if one.uri == uri), None)
        pairs = [
            (before, there[name].uri)
            for before in known
            if (name := place_in(root.uri, before)) in there and there[name].uri != before
        ]
        if known and not pairs:
            raise UsageError(
                f"none of {counted(len(known), 'file')} of root {shown(root.uri)} lies under {shown(uri)}: "
                "that is no move"
            )
        replaced = store.move_files(connection, root, pairs)
        if other is not None:
            store.merge_root(connection, other, root)
        store.rename_root(connection, root, uri)
        sources = store.count_sources(connection, root)
    withdraw(database, root)
    return Moved(len(pairs), len(known) - len(pairs), sources, replaced)


def refuse_moves(
    database: Database, tenant: str, bot: str, uris: Sequence[str], options: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Refuse new roots that hold what another root of the bot held, which is gone there: they would be read as others.

    Raises:
        RootMoved: says how the root is moved, and how it is read as a new one.
    """
    with database.work(tenant) as connection:
        roots = [root for root in list_roots(connection, tenant, bot) if not is_pushed(root.uri)]
        known = {root.id: file_states(connection, root) for root in roots}
    new = set(uris) - {root.uri for root in roots}
    if not any(known.values()):
        return
    for uri in uris:
        if uri not in new:
            continue
        try:
            there = _places(uri, scan_root(uri, {}, RootOptions.model_validate(dict(options))).files)
        except RootUnreadable:
            continue  # the scan that follows meets it again, and reports it
        for root in roots:
            if _is_moved(root, known[root.id], there):
                raise _moved(root, uri)


def _moved(root: Root, uri: str) -> RootMoved:
    old, new = shown(root.uri), shown(uri)
    return RootMoved(
        f"root {old} of {root.tenant}/{root.bot} is gone, and {new} holds the same files. If it was moved: "
        f"rag root move {quote(old)} {quote(new)} --tenant {root.tenant} --bot {root.bot}; nothing is embedded again "
        "then. If it is another root: rag ingest with --as-new"
    )


def _places(root: str, files: Iterable[SourceFile]) -> dict[str, SourceFile]:
    return {place_in(root, file.uri): file for file in files}


def _is_moved(root: Root, known: Mapping[str, FileState], there: Mapping[str, SourceFile]) -> bool:
    """Whether most files of a root are in another one, byte by byte, and gone from this one."""
    same = [
        (state, there[name])
        for uri, state in known.items()
        if (name := place_in(root.uri, uri)) in there and there[name].size in (-1, state.size)
    ]
    if not same or 2 * len(same) <= len(known):
        return False
    compared = same[:: -(-len(same) // _COMPARED)]
    if 2 * sum(_has_checksum(file, state.checksum) for state, file in compared) <= len(compared):
        return False
    try:
        listed = {file.uri for file in scan_root(root.uri, known, root.options).files}
    except RootUnreadable:
        return True
    return not listed & set(known)


def _has_checksum(file: SourceFile, checksum: str) -> bool:
    try:
        return bytes_checksum(read_file(file)) == checksum
    except (OSError, SourceError):
        return False


def forget_unread(database: Database, tenant: str, bot: str, uris: Iterable[str]) -> list[str]:
    """Forget those of these roots that could never be read, so that they do not fail each time; returns which."""
    given = set(uris)
    forgotten: list[str] = []
    with database.work(tenant) as connection:
        for root in list_roots(connection, tenant, bot):
            if root.uri in given and root.scan is None and root.last_error and not _has_anything(connection, root):
                store.drop_root(connection, root)
                forgotten.append(shown(root.uri))
    return forgotten


def _has_anything(connection: Connection, root: Root) -> bool:
    return bool(store.count_sources(connection, root) or file_states(connection, root))
