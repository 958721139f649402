"""The database of a command, made ready on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from rag_assets.commands.shell import note
from rag_assets.errors import (
    DatabaseFailed,
    DatabaseRefused,
    DatabaseUnavailable,
    ProfileNotReady,
    UnknownBot,
    UnknownTenant,
    UsageError,
    did_you_mean,
)
from rag_assets.homes import has_database, looked_in, users_home
from rag_assets.observing.query_log import QUERY_LOG
from rag_assets.retrieval.scope import open_scope
from rag_assets.settings import Settings, load_settings, read_variable, unknown_variables
from rag_assets.store.database import Database, describe
from rag_assets.store.profiles import get_spec
from rag_assets.store.set_up import prepare
from rag_assets.store.tenants import spaces_of

_FLUSH_S = 2.0


def check_names(database: Database, tenant: str, bot: str | None = None, *profiles: str | None) -> None:
    """Find what is misspelt before anything else is looked at.

    Raises:
        UnknownTenant, UnknownBot, UnknownProfile: with the names that look like it.
    """
    with unless_away(database), database.work(tenant) as connection:
        spaces_of(connection, tenant, bot)
        for profile in profiles:
            if profile is not None:
                get_spec(connection, profile)


def unless_away(database: Database) -> AbstractContextManager[None]:
    """Around what the primary alone can tell, which a search on its replica does without where it is away."""
    return suppress(DatabaseUnavailable) if database.search_url else nullcontext()


@contextmanager
def ready_database(settings: Settings | None = None, *, makes_home: bool = False) -> Iterator[Database]:
    """The database with its schema and built-in profiles in place, whatever it was before; closed at the end.

    Only a command that writes `makes_home` where there is none: one that asks would find an empty database, and say
    that what it looks for does not exist.

    Raises:
        UsageError: there is no home, and this command makes none.
        InvalidArgument: `DATABASE_URL` is no connection URL.
        DatabaseUnavailable, DatabaseRefused: the server cannot be used.
    """
    settings = settings or load_settings()
    _tell_unknown_variables()
    if settings.database_url is None and not makes_home and not has_database(settings.home):
        raise _no_home(settings)
    database = Database.from_settings(settings, operator=True)
    try:
        prepare(database)
        yield database
    except (UnknownTenant, UnknownBot) as error:
        raise type(error)(f"{error} (looked in {describe(database.url)})") from error
    finally:
        QUERY_LOG.flush(_FLUSH_S)
        database.close()


@contextmanager
def searched_database() -> Iterator[Database]:
    """The database of a command that searches and builds nothing: as `ready_database`, or where searches go to a
    replica (`RAG_SEARCH_DATABASE_URL`), that one as it is, whether its primary is there or not.

    Raises:
        as `ready_database`
    """
    settings = load_settings()
    if settings.search_database_url is None:
        with ready_database(settings) as database:
            yield database
        return
    _tell_unknown_variables()
    database = Database.from_settings(settings, operator=True, on_replica=True)
    try:
        yield database
    finally:
        QUERY_LOG.flush(_FLUSH_S)
        database.close()


@contextmanager
def door_database(settings: Settings) -> Iterator[Database]:
    """The database as it is, for a program that serves others: its searches go through a login that can do nothing
    else, and nothing is migrated.

    Raises:
        UsageError: there is no home.
        InvalidArgument: `DATABASE_URL` is no connection URL.
        DatabaseUnavailable: the embedded server does not start.
    """
    if settings.database_url is None and not has_database(settings.home):
        raise _no_home(settings)
    database = Database.from_settings(settings)
    try:
        yield database
    finally:
        database.close()


def opened_for_others(database: Database, tenant: str, bot: str, profile: str | None, user: str | None) -> None:
    """Look whether there is something to serve, for whoever starts a program that serves it, and may know all names.

    Raises:
        UnknownTenant, UnknownBot, UnknownProfile: with the names that look like it, where this login may read them.
        ProfileNotReady: there is nothing to search.
        DatabaseUnavailable, DatabaseRefused: the database cannot be searched.
    """
    try:
        open_scope(database, tenant, bot, profile, user)
    except (UnknownBot, ProfileNotReady):
        with suppress(DatabaseRefused, DatabaseFailed):  # a login for searches alone knows no other names
            check_names(database, tenant, bot, profile)
        raise


def unknown_variable(name: str, meant: str | None) -> str:
    """The warning of a variable that looks like a setting."""
    return f"Warning: {name} is set and is no setting; {did_you_mean([meant]) if meant else 'nothing here reads it'}"


def _tell_unknown_variables() -> None:
    for name, meant in unknown_variables().items():
        if meant is not None:  # others may be an application's own
            note(unknown_variable(name, meant), "yellow")


def _no_home(settings: Settings) -> UsageError:
    if read_variable("RAG_HOME") is not None:
        return UsageError(f"no database in RAG_HOME={settings.home}. Make one with: rag up")
    places = looked_in()
    between = [] if len(places) < 3 else ["the folders above it"]
    where = ", ".join([str(places[0]), *between, str(users_home())])
    return UsageError(
        f"no home found (looked in {where}). Run `rag up` where it is to be, or set RAG_HOME to the one that is meant"
    )
