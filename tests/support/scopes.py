"""The scope of a transaction, set by hand, as an application that was broken into could."""

from __future__ import annotations

from rag_assets.store.database import Connection
from rag_assets.store.statements import SET_SCOPE, Scope, scope_values


def set_scope(connection: Connection, scope: Scope) -> None:
    """Set `rag.<name>` for this transaction only; every part that `scope` leaves out is emptied."""
    connection.execute(SET_SCOPE, scope_values(scope))
