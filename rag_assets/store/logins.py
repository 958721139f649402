"""The logins of the embedded server: one for each role, so that its superuser is for setting up alone."""

from __future__ import annotations

import os
from pathlib import Path

from psycopg import conninfo

from rag_assets.settings import bundled
from rag_assets.store.sql import query, scalar
from rag_assets.store.statements import Connection, Role

SUPERUSER = "postgres"
ROLES: tuple[Role, ...] = ("owner", "ingest", "app")
_MARK = "rag-assets-server"  # lies beside the socket of a server that is ours


def is_marked(socket_dir: Path) -> bool:
    """Whether this is the socket of an embedded server whose logins have been seen to."""
    return os.path.exists(socket_dir / _MARK)  # False also where we may not look


def see_to_logins(connection: Connection, socket_dir: Path) -> None:
    """Give an embedded server that has our roles, from an earlier version, its logins; one that is new gets both when
    it is set up. `connection` is its superuser's."""
    if scalar(connection, "SELECT to_regrole('rag_app')") is not None:
        make_logins(connection)
    connection.commit()
    (socket_dir / _MARK).touch()


def make_logins(connection: Connection) -> None:
    """Make the logins, or mend them. `connection` is the superuser's."""
    connection.execute((bundled("sql") / "logins.sql").read_bytes())


def has_logins(connection: Connection) -> bool:
    """Whether each role has a login that may become it."""
    return bool(scalar(connection, query("has_logins"), {"roles": [f"rag_{role}" for role in ROLES]}))


def login_urls(url: str) -> dict[Role, str]:
    """How to enter the embedded server that `url` names as its superuser, by role; empty for any other server."""
    parts = conninfo.conninfo_to_dict(url)
    host = str(parts.get("host") or "")
    if parts.get("user") != SUPERUSER or not host.startswith("/") or not is_marked(Path(host)):
        return {}
    return {role: conninfo.make_conninfo(url, user=f"rag_{role}_login") for role in ROLES}
