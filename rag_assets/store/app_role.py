"""Logins and roles that row-level security would not hold back are refused, with what takes the power away.

A session may leave its role at any time (RESET ROLE), so what counts is the login, and every role that it may become:
by SET ROLE, by inheritance, or by granting it to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from rag_assets.errors import DatabaseRefused
from rag_assets.store.sql import query
from rag_assets.store.statements import AsyncConnection, Connection, Role

# Roles whose members reach more than rows that a policy lets through: by name, and what they may do.
_STRONG = {
    "rag_owner": "owns the tables",
    "rag_search": "reads all tenants",
    "pg_read_all_data": "reads every table",
    "pg_write_all_data": "writes every table",
    "pg_read_server_files": "reads files of the server",
    "pg_write_server_files": "writes files of the server",
    "pg_execute_server_program": "runs programs on the server",
}
_OWN_LOGIN = (
    "or give {what} a login of its own, and name it in {variable}: "
    "CREATE ROLE {role}_login LOGIN PASSWORD '...' IN ROLE {role}"
)
_SEARCH = "RAG_SEARCH_DATABASE_URL"  # on a replica, whose roles are those of its primary
_USES: dict[Role, tuple[str, str]] = {
    "app": ("search", "RAG_APP_DATABASE_URL"),
    "ingest": ("ingest", "RAG_INGEST_DATABASE_URL"),
}


@dataclass(frozen=True)
class _Reachable:
    """A role that `who` is or may become. Names are quoted where SQL wants that.

    `through`: the roles granted to `who` that lead there. `owned`: tables of the schema. `plants`: schemas that the
    search functions look into and that it may create functions in.
    """

    who: str
    role: str
    is_super: bool
    bypasses: bool
    creates_roles: bool
    replicates: bool
    owned: int
    plants: list[str]
    through: list[str]

    @property
    def is_itself(self) -> bool:
        return self.role == self.who


def check_app_role(connection: Connection, *, login: bool = True, named: str = "") -> None:
    """Refuse to search with a login that could do more than search. Without `login`, only the current role is looked
    at: what somebody does who holds the owner's login anyway. `named`: the setting that names the login, where it is
    not the usual one.

    Raises:
        DatabaseRefused: says which power there is and how to take it away.
    """
    _refuse("app", _cursor(connection).execute(query("reachable_roles"), {"login": login}).fetchall(), named)


async def acheck_app_role(connection: AsyncConnection, *, login: bool = True, named: str = "") -> None:
    """As `check_app_role`."""
    cursor = connection.cursor(row_factory=class_row(_Reachable))
    _refuse("app", await (await cursor.execute(query("reachable_roles"), {"login": login})).fetchall(), named)


def check_ingest_role(connection: Connection) -> None:
    """As `check_app_role`, for a login that was made for ingest."""
    _refuse("ingest", _cursor(connection).execute(query("reachable_roles"), {"login": True}).fetchall())


def _cursor(connection: Connection) -> psycopg.Cursor[_Reachable]:
    return connection.cursor(row_factory=class_row(_Reachable))


def _refuse(role: Role, reachable: Sequence[_Reachable], named: str = "") -> None:
    powers = dict(power for one in reachable for power in _powers(role, one))  # each once
    if not powers:
        return
    doing, variable = _USES.get(role, ("work", "DATABASE_URL"))
    variable = _SEARCH if named == _SEARCH else variable
    own_login = _OWN_LOGIN.format(what={"search": "searches"}.get(doing, doing), variable=variable, role=f"rag_{role}")
    statements = "; ".join(dict.fromkeys(powers.values()))
    raise DatabaseRefused(
        f"login {reachable[0].who} must not {doing}: {', '.join(powers)}, so row-level security would not hold it "
        f"back. Take that away: {statements}; {own_login}"
    )


def _powers(role: Role, one: _Reachable) -> Iterator[tuple[str, str]]:
    """What is too much, and the statement that takes it away."""
    subject = "it" if one.is_itself else f"it may become {one.role}, which"
    revoke = f"REVOKE {', '.join(one.through) or one.role} FROM {one.who}"
    for holds, words, attribute in (
        (one.is_super, "is a superuser", "NOSUPERUSER"),
        (one.bypasses, "has BYPASSRLS", "NOBYPASSRLS"),
        (one.creates_roles, "may create roles", "NOCREATEROLE"),
        (one.replicates, "may copy the whole server (REPLICATION)", "NOREPLICATION"),
    ):
        if holds:
            yield f"{subject} {words}", f"ALTER ROLE {one.who} {attribute}" if one.is_itself else revoke
    if one.is_super:
        return  # and all that follows
    if one.role in _STRONG and not one.is_itself:
        yield f"{subject} {_STRONG[one.role]}", revoke
    elif one.role == "rag_ingest" and role == "app" and not one.is_itself:
        yield f"{subject} writes", revoke
    elif one.owned:
        way = f"REASSIGN OWNED BY {one.who} TO rag_owner" if one.is_itself else revoke
        yield f"{subject} owns {one.owned} of the tables", way
    for schema in one.plants:
        yield (
            f"it may create functions in schema {schema}, which searches look into",
            f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, {one.role}",
        )
