"""Addresses of pushed documents: they lie in the database, under a root for a bot and one for each of its users."""

from __future__ import annotations

from urllib.parse import quote, unquote

_BOTS, _USERS = "push://documents", "push://user/"


def is_pushed(uri: str) -> bool:
    """Whether an address is that of pushed documents."""
    return uri == _BOTS or uri.startswith((f"{_BOTS}/", _USERS))


def pushed_root(user: str | None) -> str:
    """The root of what was pushed for all users of a bot, or for one."""
    return _BOTS if user is None else _USERS + quote(user, safe="")


def pushed_uri(user: str | None, key: str) -> str:
    """The address of one document: whatever its key is, it is one part of an address."""
    return f"{pushed_root(user)}/{quote(key, safe='')}"


def parts_of(uri: str) -> tuple[str | None, str]:
    """User and key of a document, from its address."""
    root, _, key = uri.rpartition("/")
    return (unquote(root.removeprefix(_USERS)) if root.startswith(_USERS) else None), unquote(key)
