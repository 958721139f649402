"""With whom sources are shared: the users of a bot, all bots of the tenant, or one user alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from rag_assets.errors import InvalidArgument
from rag_assets.store.database import Database
from rag_assets.store.tenants import SHARED_BOT, add_tenant, share_with_tenant

Visibility = Literal["bot", "tenant", "user"]


def check_visibility(visibility: str | None, user: str | None) -> None:
    """Check that the two go together.

    Raises:
        InvalidArgument: no such visibility, no such user, or one without the other.
    """
    known = get_args(Visibility)
    if visibility not in (None, *known):
        raise InvalidArgument(f"visibility must be one of {', '.join(known)}, got {visibility!r}", "visibility")
    if user is not None and (not isinstance(user, str) or not user.strip() or not user.isprintable()):
        raise InvalidArgument(f"a user must be a name of printable characters, got {user!r}", "user")
    if (visibility == "user") != (user is not None):
        needed = "visibility 'user' needs a user, whose sources they are"
        said = needed if user is None else "only visibility 'user' takes a user"
        raise InvalidArgument(said, "user")


def visible_to(visibility: str | None, user: str | None) -> Mapping[str, Any]:
    """The options of a root whose sources are seen so; none where nothing was said."""
    if visibility is None or visibility == "tenant":
        return {}
    return {"visibility": str(visibility), "user": user}


def space_of(database: Database, tenant: str, bot: str, visibility: str | None) -> str:
    """The bot whose space the sources go to: for what the whole tenant shares that is one of its own, and is made; and
    so is `bot`, whose searches will find it.

    Raises:
        UsageError: the tenant has a bot of that name that is one like the others.
    """
    if visibility != "tenant":
        return bot
    share_with_tenant(database, tenant)
    if bot != SHARED_BOT:
        add_tenant(database, tenant, bot)
    return SHARED_BOT
