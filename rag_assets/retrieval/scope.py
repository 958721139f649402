"""Who asks, what they may see, and with which profile. A retrieval without a scope is an error, and never wider."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from rag_assets.embedding.profiles import DEFAULT_PROFILE, EmbeddingProfile, stored_profile
from rag_assets.errors import InvalidArgument, ProfileNotReady, ScopeError, UnknownBot, shown
from rag_assets.keys import check_key
from rag_assets.retrieval.arguments import check_number, check_share, check_text
from rag_assets.retrieval.steps import Steps, adrive, ask, drive
from rag_assets.signing import ScopeSignature
from rag_assets.store.database import Database
from rag_assets.store.search import SpaceProfile, profiles_for_search, shared_profiles_for_search


@dataclass(frozen=True)
class RetrievalScope:
    """One tenant's one bot, one knowledge space, one profile; and the user, where sources may be private.

    Built on the server, never from what a client sent, by `open_scope`: it looks up the space and the profile, whose
    `profile_id` names the chunks that are searched, and whose `profile` says how a query is embedded. A scope made by
    hand with ids of another tenant finds nothing, and one whose `profile` is not that of its `profile_id` is refused
    by every search. `origin` is where the vectors of the profile were made, if that is known and not in the profile: a
    query is embedded there or not at all. `dense_weight` is the weight of meaning in hybrid search that was tuned
    for the profile, or found for it without labels; None for the default. `shared` is the same for what all bots of the
    tenant share, with the profile that serves there; None where they share nothing. `floors` are the best scores, by
    mode (`dense`, `lexical`, `hybrid`), below which nothing that is found is an answer, where they were measured for
    the profile. `signature` is one of this tenant, bot and user that was made elsewhere; without it the database's own
    key signs, if it has one.

    Raises:
        InvalidKey: tenant or bot is not a key.
        ScopeError: space or profile is missing, or the user is no text.
    """

    tenant_id: str
    bot_id: str
    knowledge_space_id: UUID
    profile_id: int
    profile: EmbeddingProfile
    user_id: str | None = None
    origin: str | None = None
    dense_weight: float | None = None
    shared: RetrievalScope | None = None
    floors: Mapping[str, float] = field(default_factory=dict)
    signature: ScopeSignature | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_key(self.tenant_id, "tenant")
        check_key(self.bot_id, "bot")
        if not isinstance(self.knowledge_space_id, UUID):
            raise ScopeError("a scope needs the id of a knowledge space", "knowledge_space_id")
        if type(self.profile_id) is not int or not 0 <= self.profile_id < 2**63:
            raise ScopeError("a scope needs the id of a profile", "profile_id")
        if not isinstance(self.profile, EmbeddingProfile):
            raise ScopeError("a scope needs its profile, which says how a query is embedded", "profile")
        if self.user_id == "":
            raise ScopeError("a user id must not be empty; leave it out for a scope without a user", "user_id")
        if self.user_id is not None:
            check_text(self.user_id, "user_id", ScopeError)
        if self.dense_weight is not None:
            check_share(self.dense_weight, "dense_weight")
        if self.shared is not None and (
            not isinstance(self.shared, RetrievalScope)
            or (self.shared.tenant_id, self.shared.bot_id, self.shared.user_id)
            != (self.tenant_id, self.bot_id, self.user_id)
        ):
            raise ScopeError("what is shared is searched for the same tenant, bot and user", "shared")
        if self.signature is not None and not isinstance(self.signature, ScopeSignature):
            raise ScopeError("a scope's signature is what sign_scope returns", "signature")
        if not isinstance(self.floors, Mapping):
            raise InvalidArgument(f"floors must be a mapping, got {shown(self.floors)}", "floors")
        for floor in self.floors.values():
            check_number(floor, "floors", -1, 1)

    @property
    def settings(self) -> Mapping[str, str | None]:
        """The `rag.*` settings of a transaction under this scope."""
        return {
            "tenant": self.tenant_id,
            "bot": self.bot_id,
            "space": str(self.knowledge_space_id),
            "profile": str(self.profile_id),
            "user": self.user_id,
            **(self.signature.settings if self.signature is not None else {}),
        }


def require_scope(value: object, so: str = "") -> RetrievalScope:
    """`value` if it is a scope; `so` says what is not done without one.

    Raises:
        ScopeError: it is something else.
    """
    if not isinstance(value, RetrievalScope):
        ending = f": {so}" if so else ""
        raise ScopeError(f"scope must be a RetrievalScope, got {type(value).__name__}{ending}", "scope")
    return value


def open_scope(
    database: Database,
    tenant: str,
    bot: str,
    profile: str | None = None,
    user_id: str | None = None,
    request_key: str | None = None,
    signature: ScopeSignature | None = None,
) -> RetrievalScope:
    """The scope of a request: a bot's active profile (or the one named) as it is now, and who asks; with it what all
    bots of the tenant share, if they do. A bot that has nothing of its own answers from that.

    Open one for each request, on the server: a promotion or a rollback then holds from the next request on, and an
    answer comes wholly from one profile. Where the bot has a canary, its share of the values of `request_key` gets
    that profile, the same value always the same one: pass a conversation or a user. Without a key, or with a profile
    named, no canary answers.

    `signature`, as `sign_scope` makes it for this tenant, bot and user: where the database takes signed scopes alone,
    and this process does not know the key.

    Raises:
        InvalidArgument: names the argument that is of the wrong kind; for tenant, bot and profile an `InvalidKey`.
        UnknownBot: no such tenant or bot. The app may not list tenants, so neither is told apart.
        ProfileNotReady: the bot has no active profile, or the named one is not built.
        DatabaseUnavailable: after retries.
        DatabaseRefused: the role could bypass row-level security, or the schema is not there.
        ScopeRefused: the database takes signed scopes alone, and this one is not signed with a key in use.
    """
    return drive(database, _opening(_Who(tenant, bot, user_id, signature), profile, request_key))


async def aopen_scope(
    database: Database,
    tenant: str,
    bot: str,
    profile: str | None = None,
    user_id: str | None = None,
    request_key: str | None = None,
    signature: ScopeSignature | None = None,
) -> RetrievalScope:
    """As `open_scope`, for tasks of an event loop."""
    return await adrive(database, _opening(_Who(tenant, bot, user_id, signature), profile, request_key))


def with_profile(scope: RetrievalScope, profile: str | None) -> Steps[RetrievalScope]:
    """The same scope for another profile of its bot, by name; None: as it is. Who asks and where stays the
    same; only a scope of nothing but what all bots share has the bot's own space before that, where the profile lies.

    Raises:
        ProfileNotReady: the bot has no such profile that is ready.
        UnknownBot, DatabaseUnavailable, DatabaseRefused: as `open_scope`.
    """
    if profile is None:
        return scope
    opened = yield from _opening(_Who(scope.tenant_id, scope.bot_id, scope.user_id, scope.signature), profile, None)
    if opened.shared is not None and scope.knowledge_space_id == opened.shared.knowledge_space_id:
        return opened
    return replace(opened, knowledge_space_id=scope.knowledge_space_id, shared=scope.shared)


@dataclass(frozen=True)
class _Who:
    tenant: str
    bot: str
    user: str | None
    signature: ScopeSignature | None

    @property
    def settings(self) -> Mapping[str, str | None]:
        signature = self.signature.settings if self.signature is not None else {}
        return {"tenant": self.tenant, "bot": self.bot, "user": self.user, **signature}


def _opening(who: _Who, profile: str | None, request_key: str | None) -> Steps[RetrievalScope]:
    tenant, bot = check_key(who.tenant, "tenant"), check_key(who.bot, "bot")
    if who.user is not None:
        check_text(who.user, "user_id", ScopeError)
    if who.signature is not None and not isinstance(who.signature, ScopeSignature):
        raise InvalidArgument(f"signature must be what sign_scope returns, got {shown(who.signature)}", "signature")
    if profile is not None:
        check_key(profile, "profile")
    if request_key is not None and not isinstance(request_key, str):
        raise InvalidArgument(f"request_key must be a string, got {shown(request_key)}", "request_key")
    canary = request_key is not None
    names = (tenant, bot, profile, canary)
    rows, shared_rows = yield from ask(who.settings, profiles_for_search(*names), shared_profiles_for_search(*names))
    if not rows:
        raise UnknownBot(
            f"no bot {bot!r} of tenant {tenant!r}. Create it with: rag ingest PATH --tenant {tenant} --bot {bot}"
        )
    shared = _scope_of(who, _chosen(shared_rows, request_key)) if shared_rows else None
    chosen = _chosen(rows, request_key)
    if chosen.profile_id is None and profile is None and shared is not None:
        return shared
    if chosen.profile_id is None or chosen.status not in ("ready", "active"):
        wanted = f"profile {profile!r}" if profile else "active profile"
        raise ProfileNotReady(
            f"bot {bot!r} of tenant {tenant!r} has no {wanted} that is ready. Build one with: "
            f"rag ingest --tenant {tenant} --bot {bot} --profile {profile or DEFAULT_PROFILE} "
            "(rag profile list shows which there are)"
        )
    return replace(_scope_of(who, chosen), shared=shared)


def _scope_of(who: _Who, chosen: SpaceProfile) -> RetrievalScope:
    assert chosen.profile_id is not None
    return RetrievalScope(
        who.tenant, who.bot, chosen.space_id, chosen.profile_id, stored_profile(chosen.spec), who.user,
        origin=chosen.spec.get("origin"), dense_weight=chosen.dense_weight, floors=_floors(chosen),
        signature=who.signature,
    )  # fmt: skip


def _floors(chosen: SpaceProfile) -> dict[str, float]:
    """By mode. One of hybrid search that was found with another weight says nothing of its scores now."""
    return {
        one["mode"]: one["floor"]
        for one in chosen.floors
        if one["mode"] != "hybrid" or one["dense_weight"] == chosen.dense_weight
    }


def _chosen(rows: Sequence[SpaceProfile], request_key: str | None) -> SpaceProfile:
    """Of the active profile and its canary the one that answers."""
    first = rows[0]
    if len(rows) == 1:
        return first
    takes = request_key is not None and in_canary(first.space_id, request_key, first.canary_percent)
    return next((row for row in rows if row.is_canary is takes), first)


def in_canary(space: UUID, request_key: str, percent: int) -> bool:
    """Whether the canary answers this key: its hash decides, so that a conversation does not change its mind."""
    digest = hashlib.blake2b(space.bytes + request_key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100 < percent
