"""The pairs of tenant and profile that are enabled: rows in Postgres, one for each bot."""

from __future__ import annotations

from rag_assets.errors import UnknownProfile
from rag_assets.store.database import Database
from rag_assets.store.partitions import partition_exists
from rag_assets.store.profiles import BuiltProfile, built_profiles, enable_profile, get_spec
from rag_assets.store.tenants import spaces_of


def enable_pair(database: Database, tenant: str, bot: str, name: str) -> BuiltProfile:
    """Enable a profile for one bot of a tenant, or return it if it is enabled.

    Raises:
        UnknownTenant, UnknownBot, UnknownProfile: before anything is written.
    """
    with database.work(tenant) as connection:
        spec = get_spec(connection, name)
        space = spaces_of(connection, tenant, bot)[0]
    return enable_profile(database, space, spec)


def enabled_profiles(
    database: Database, tenant: str, name: str | None = None, bot: str | None = None
) -> list[BuiltProfile]:
    """What is enabled of a tenant: of one profile, of one bot, or of all."""
    with database.work(tenant) as connection:
        return built_profiles(connection, tenant, bot, name)


def require_pair(database: Database, tenant: str, name: str, bot: str | None = None) -> list[BuiltProfile]:
    """The bots' profiles that a run for this pair has to build, with their partitions in place.

    Raises:
        UnknownProfile: the pair is not enabled; says how to enable it.
    """
    with database.work(tenant) as connection:
        found = built_profiles(connection, tenant, bot, name)
        incomplete = [built for built in found if not partition_exists(connection, built.id)]
        if not found:
            get_spec(connection, name)
    if not found:
        who = f"bot {bot!r} of tenant {tenant!r}" if bot else f"tenant {tenant!r}"
        raise UnknownProfile(
            f"profile {name!r} is not enabled for {who}. Enable it with: "
            f"rag ingest --tenant {tenant} --bot {bot or 'BOT'} --profile {name}"
        )
    for built in incomplete:
        enable_pair(database, built.tenant, built.bot, built.profile.name)
    return found
