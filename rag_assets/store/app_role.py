"""The role that searches: refused where row-level security would not hold it back."""

from __future__ import annotations

from psycopg.rows import dict_row

from rag_assets.errors import DatabaseRefused
from rag_assets.store.statements import AsyncConnection, Connection

_POWERS = (
    "SELECT current_user AS role, r.rolsuper AS is_super, r.rolbypassrls AS bypasses, "
    "  (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "   WHERE n.nspname = 'rag' AND c.relkind IN ('r', 'p') AND pg_has_role(current_user, c.relowner, 'USAGE')) "
    "    AS owned, pg_has_role(current_user, 'rag_search', 'MEMBER') AS is_search "
    "FROM pg_roles r WHERE r.rolname = current_user"
)


def check_app_role(connection: Connection) -> None:
    """Refuse to search as a role that row-level security does not hold back.

    Raises:
        DatabaseRefused: says which power the role has and how to take it away.
    """
    row = connection.cursor(row_factory=dict_row).execute(_POWERS).fetchone()
    assert row is not None
    _refuse(**row)


async def acheck_app_role(connection: AsyncConnection) -> None:
    """As `check_app_role`."""
    row = await (await connection.cursor(row_factory=dict_row).execute(_POWERS)).fetchone()
    assert row is not None
    _refuse(**row)


def _refuse(role: str, is_super: bool, bypasses: bool, owned: int, is_search: bool) -> None:
    reasons = [
        reason
        for holds, reason in (
            (is_super, "it is a superuser"),
            (bypasses, "it has BYPASSRLS"),
            (owned, f"it owns or inherits {owned} of the tables"),
            (is_search and not is_super, "it is a member of rag_search"),
        )
        if holds
    ]
    if reasons:
        raise DatabaseRefused(
            f"role {role!r} must not search: {', '.join(reasons)}, so row-level security would not hold it back. "
            "Use a role that was only granted rag_app"
        )
