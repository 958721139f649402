"""Where a file lies under its root: the same name in two places makes two files the same."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from rag_assets.documents.names import is_web
from rag_assets.documents.normalize import normalize
from rag_assets.errors import RootUnreadable
from rag_assets.sources.local import to_path
from rag_assets.sources.remote import driver


def base_of(root: str) -> str:
    """The uri of a root that is a file, and what stands before the first slash in the uris of all files below it."""
    if is_web(root):
        return root.rstrip("/")
    if "://" not in root or root.lower().startswith("file:"):
        try:
            return to_path(root).as_uri().rstrip("/")
        except RootUnreadable:
            return root
    return _remote_base(root)


def _remote_base(root: str) -> str:
    try:
        filesystem, path = driver(root)
        uri: str = filesystem.unstrip_protocol(path.rstrip("/"))
    except Exception:  # a store without its driver, or with a name that it does not take, has no other one
        return root.rstrip("/")
    return uri


def place_in(root: str, uri: str) -> str:
    """What a file is called below its root, `""` for the root itself: the same in every place that a root can be moved
    to. Pages lie below their host, wherever the sitemap is that names them."""
    if is_web(root):
        host, page = urlsplit(root).netloc, urlsplit(uri)
        if uri == root:
            return ""
        return f"{page.path.lstrip('/')}?{page.query}".rstrip("?") if page.netloc == host else uri
    base = base_of(root)
    if uri == base:
        return ""
    if not uri.startswith(f"{base}/"):
        return uri
    name = uri[len(base) + 1 :]
    return normalize(unquote(name) if uri.startswith("file:") else name)
