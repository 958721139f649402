"""Who asks, and what they may see. A retrieval without a scope is an error, never a wider search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from rag_assets.errors import ScopeError
from rag_assets.keys import check_key


@dataclass(frozen=True)
class RetrievalScope:
    """One tenant's one bot, one knowledge space, one profile; and the user, where sources may be private.

    Built on the server, never from what a client sent. `retrieval.open_scope` looks the space and the
    profile up; a scope made by hand with ids of another tenant finds nothing.

    Raises:
        InvalidKey: tenant or bot is not a key.
        ScopeError: space or profile is missing.
    """

    tenant_id: str
    bot_id: str
    knowledge_space_id: UUID
    profile_id: int
    user_id: str | None = None

    def __post_init__(self) -> None:
        check_key(self.tenant_id, "tenant")
        check_key(self.bot_id, "bot")
        if not isinstance(self.knowledge_space_id, UUID):
            raise ScopeError("a scope needs the id of a knowledge space")
        if not isinstance(self.profile_id, int) or isinstance(self.profile_id, bool):
            raise ScopeError("a scope needs the id of a profile")
        if self.user_id == "":
            raise ScopeError("a user id must not be empty; leave it out for a scope without a user")

    @property
    def settings(self) -> Mapping[str, str | None]:
        """The `rag.*` settings of a transaction under this scope."""
        return {
            "tenant": self.tenant_id,
            "bot": self.bot_id,
            "space": str(self.knowledge_space_id),
            "profile": str(self.profile_id),
            "user": self.user_id,
        }
