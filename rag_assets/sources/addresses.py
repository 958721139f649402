"""Which addresses can be source roots at all."""

from __future__ import annotations

import re

from rag_assets.sources.secrets import secret_problem, shown

WEB = frozenset({"http", "https"})
STORES = frozenset({"s3", "gs", "gcs", "az", "abfs", "abfss"})
ALLOWED = "a root is a path, or begins with " + ", ".join(f"{one}://" for one in ["file", *sorted(WEB | STORES)])
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def scheme_of(root: str) -> str | None:
    """The scheme of an address, in lower case; "" where something else stands before `://`, None for a path."""
    found = _SCHEME.match(root)
    if found:
        return found[1].lower()
    return "" if "://" in root else None


def is_local(root: str) -> bool:
    """Whether a root is a path or a `file:` URI."""
    return root.lower().startswith("file:") or scheme_of(root) is None


def root_problem(root: str) -> str | None:
    """Why nothing here could ever read this root, or None. It is not looked at; its secrets are not in the text."""
    if is_local(root):
        return None
    scheme, name = scheme_of(root), shown(root)
    if scheme not in WEB | STORES:
        return f"{name}: nothing here reads addresses that start with {scheme or name.partition(':')[0]}:// ({ALLOWED})"
    if scheme in STORES and "::" in root:
        return f"{name}: addresses within addresses (`::`) are not read ({ALLOWED})"
    if not root.partition("://")[2].strip("/"):
        return f"{name}: the address names nothing"
    return secret_problem(root)
