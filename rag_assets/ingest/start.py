"""What begins an ingest for a person: a bot with its roots, and a profile enabled for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rag_assets.embedding.registry import require_packages
from rag_assets.ingest.pairs import enable_pair, enabled_profiles
from rag_assets.ingest.roots import refuse_moves
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile, get_spec
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant


def remember_roots(
    database: Database, tenant: str, bot: str, roots: Sequence[str], options: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Remember source roots of a bot, as `sources.roots.resolve_roots` gives them, and what they are told; tenant and
    bot are created."""
    if roots:
        add_tenant(database, tenant, bot)
    for uri in roots:
        add_root(database, tenant, bot, uri, options)


def start(
    database: Database,
    tenant: str,
    bot: str,
    profile: str,
    roots: Sequence[str],
    options: Mapping[str, Any] = MappingProxyType({}),
    as_new: bool = False,
) -> BuiltProfile:
    """Remember the roots and enable the profile for the bot. `as_new`: also where a root looks like another one of the
    bot that was moved.

    Raises:
        UnknownTenant, UnknownBot: no roots were given, and there is no such bot.
        UnknownProfile: the catalogue has no profile of that name; nothing was written.
        EmbeddingError: the bot has no such profile yet, and its model needs what is not installed; nothing was written.
        RootMoved: a root looks like another one that was moved; nothing was written.
    """
    with database.work() as connection:
        spec = get_spec(connection, profile)
    if not enabled_profiles(database, tenant, profile, bot):
        require_packages(spec)  # what is built already may have nothing to embed, or all of it in the cache
    if not as_new:
        refuse_moves(database, tenant, bot, roots, options)
    remember_roots(database, tenant, bot, roots, options)
    return enable_pair(database, tenant, bot, profile)
