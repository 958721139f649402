"""The partition of knowledge_chunks that holds one profile: made, indexed and dropped as rag_owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.errors import DuplicateTable, LockNotAvailable, UniqueViolation
from psycopg.rows import class_row
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import query, rows, scalar, scalars

# A row keeps its vector in line up to here: 4 bytes a dimension, and about 400 bytes for the rest, in a page
# of 8 kB. Out of line, exact search takes about twice the time.
MAX_INLINE_DIMENSIONS = 1900


_OWNER_KEY = "belongs_to_profile"
_BELONGS = (
    "FOREIGN KEY (embedding_profile_id, knowledge_space_id, tenant_id, bot_id) "
    "REFERENCES rag.embedding_profiles (id, knowledge_space_id, tenant_id, bot_id)"
)
_AGAIN: dict[str, Any] = {
    "retry": retry_if_exception_type(LockNotAvailable),
    "stop": stop_after_delay(300),
    "wait": wait_random(0.05, 0.5),
    "reraise": True,
}


@dataclass(frozen=True)
class _Named:
    """A partition of an earlier version: its checks with names in them, and whether it has the foreign key."""

    name: str
    checks: list[str]
    has_key: bool


def partition_name(profile_id: int) -> str:
    """Table name of the profile's partition, in schema rag."""
    return f"knowledge_chunks_p{int(profile_id)}"


def create_partition(database: Database, profile_id: int, dimensions: int) -> None:
    """Create and attach the profile's partition unless it is attached already.

    Its foreign key ties every row to the profile's tenant, bot and space, whatever the inserting code believes, and its
    checks refuse vectors of another model. Neither names a tenant: any login may read the catalogue. Attaching a
    finished table does not block readers of other partitions.
    """
    name = partition_name(profile_id)
    with database.session("owner") as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [profile_id])
        if partition_exists(connection, profile_id):
            return
        table = sql.Identifier("rag", name)
        _drop_owner_key(connection, name)  # of a process killed half-way
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        connection.execute(
            sql.SQL(
                "CREATE TABLE {table} (LIKE rag.knowledge_chunks INCLUDING DEFAULTS INCLUDING CONSTRAINTS, "
                "CHECK (embedding_profile_id = {profile}), CHECK (vector_dims(embedding) = {dimensions}), "
                "CHECK (vector_norm(embedding) BETWEEN 0.99 AND 1.01), CONSTRAINT {owner} " + _BELONGS + ")"
            ).format(
                table=table,
                profile=sql.Literal(profile_id),
                dimensions=sql.Literal(dimensions),
                owner=sql.Identifier(_OWNER_KEY),
            )
        )
        storage = "PLAIN" if dimensions <= MAX_INLINE_DIMENSIONS else "EXTERNAL"
        connection.execute(
            sql.SQL(
                "ALTER TABLE {}.{} ALTER embedding SET STORAGE " + storage + ", ALTER lexical SET STORAGE MAIN"
            ).format(sql.Identifier("rag"), sql.Identifier(name))
        )
        # Read through the parent, its policies hold; read directly, nothing passes.
        connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(table))
        connection.execute(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(table))
        connection.execute(
            sql.SQL("ALTER TABLE rag.knowledge_chunks ATTACH PARTITION {} FOR VALUES IN ({})").format(
                table, sql.Literal(profile_id)
            )
        )


def partition_exists(connection: Connection, profile_id: int) -> bool:
    """Whether the profile's partition is attached."""
    row = connection.execute(
        "SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'rag' AND c.relname = %s AND NOT i.inhdetachpending",
        [partition_name(profile_id)],
    ).fetchone()
    return row is not None


def drop_partition(database: Database, profile_id: int) -> None:
    """Detach and drop the profile's partition; nothing where there is none.

    Detaching concurrently never blocks the readers of other profiles.
    """
    name = sql.Identifier("rag", partition_name(profile_id))
    with database.session("owner") as connection:
        pending = scalar(
            connection,
            "SELECT i.inhdetachpending FROM pg_inherits i WHERE i.inhrelid = to_regclass(%(table)s)",
            {"table": f"rag.{partition_name(profile_id)}"},
        )
        if pending is not None:
            how = sql.SQL("FINALIZE") if pending else sql.SQL("CONCURRENTLY")
            connection.execute(sql.SQL("ALTER TABLE rag.knowledge_chunks DETACH PARTITION {} {}").format(name, how))
        _drop_owner_key(connection, partition_name(profile_id))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))


def _drop_owner_key(connection: Connection, table: str) -> None:
    """Drop the foreign key first: while it goes, every search waits, and that must not be for as long as files take to
    be deleted."""
    statement = sql.SQL("ALTER TABLE IF EXISTS {} DROP CONSTRAINT IF EXISTS {}").format(
        sql.Identifier("rag", table), sql.Identifier(_OWNER_KEY)
    )
    _in_turn(connection, statement)


def _in_turn(connection: Connection, statement: sql.Composed) -> None:
    """Run a statement that locks out readers. Those that come while it waits wait behind it: so it gives up soon, lets
    them pass, and tries again."""
    for attempt in Retrying(**_AGAIN):
        with attempt, connection.transaction():
            connection.execute("SET LOCAL lock_timeout = '100ms'")
            connection.execute(statement)
            connection.execute("SET LOCAL lock_timeout = DEFAULT")


def names_tenants(connection: Connection) -> bool:
    """Whether a partition of an earlier version has checks with names of tenants, bots and spaces."""
    return bool(scalars(connection, query("partitions_with_names")))


def take_names_out(database: Database) -> None:
    """Replace checks of partitions that name a tenant by the foreign key. Readers go on; safe to repeat, also after a
    process that was killed."""
    with database.session("owner") as connection:
        for partition in rows(connection, class_row(_Named), query("partitions_with_names")):
            table, key = sql.Identifier("rag", partition.name), sql.Identifier(_OWNER_KEY)
            if not partition.has_key:
                add = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} " + _BELONGS + " NOT VALID").format(table, key)
                _in_turn(connection, add)
            connection.execute(sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(table, key))
            drops = [sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(check)) for check in partition.checks]
            _in_turn(connection, sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(", ").join(drops)))


def index_is_valid(connection: Connection, index: str) -> bool | None:
    """True for a usable index, False for one whose concurrent build was cut off, None where there is none."""
    valid: bool | None = scalar(
        connection,
        "SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass(%(index)s)",
        {"index": f"rag.{index}"},
    )
    return valid


def build_index(connection: Connection, index: str, definition: sql.Composed, *, online: bool) -> bool:
    """Create the index unless a valid one is there; True if it was built now.

    `connection` is the owner's, in autocommit. `online` builds concurrently, for a profile that is serving.
    """
    valid = index_is_valid(connection, index)
    if valid:
        return False
    name = sql.Identifier("rag", index)
    if valid is False:
        connection.execute(sql.SQL("DROP INDEX {}").format(name))
    how = sql.SQL("CONCURRENTLY ") if online else sql.SQL("")
    try:
        connection.execute(
            sql.SQL("CREATE INDEX {how}{index} ON {definition}").format(
                how=how, index=sql.Identifier(index), definition=definition
            )
        )
    except (DuplicateTable, UniqueViolation):
        return False  # another run of the same profile was faster
    return True
