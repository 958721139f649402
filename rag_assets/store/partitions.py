"""The partition of knowledge_chunks that holds one profile: made, indexed and dropped as rag_owner."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.errors import DuplicateTable, UniqueViolation
from psycopg.rows import class_row

from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import first_row, query, scalar
from rag_assets.store.tenants import Space

# A row keeps its vector in line up to here: 4 bytes a dimension, and about 400 bytes for the rest, in a page
# of 8 kB. Out of line, exact search takes about twice the time.
MAX_INLINE_DIMENSIONS = 1900


# A table is given its partitions anew after each change of their list, by every session: with this many in a group,
# and the groups in `knowledge_chunks`, that takes as long with 5,000 profiles as with a hundred.
GROUP_SIZE = 100

_GROUPS_LOCK = 0x726167  # with the number of a group: who makes one, of two that need it


@dataclass(frozen=True)
class _Attached:
    """What a partition is attached to, and whether it is `pending` that it goes."""

    parent: str
    pending: bool


def partition_name(profile_id: int) -> str:
    """Table name of the profile's partition, in schema rag."""
    return f"knowledge_chunks_p{int(profile_id)}"


def create_partition(database: Database, profile_id: int, dimensions: int, space: Space) -> None:
    """Create and attach the partition of a profile of `space` unless it is attached already.

    Its checks tie every row to the profile's tenant, bot and space, whatever the inserting code believes, and refuse
    vectors of another model. None of them names a tenant: any login may read the catalogue. Attaching a finished table
    does not block readers of other partitions.
    """
    name = partition_name(profile_id)
    with database.session("owner") as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [profile_id])
        if partition_exists(connection, profile_id):
            return
        table = sql.Identifier("rag", name)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        connection.execute(
            sql.SQL(
                "CREATE TABLE {table} (LIKE rag.knowledge_chunks INCLUDING DEFAULTS INCLUDING CONSTRAINTS, "
                "CHECK (embedding_profile_id = {profile}), CHECK (vector_dims(embedding) = {dimensions}), "
                "CHECK (vector_norm(embedding) BETWEEN 0.99 AND 1.01), "
                "CONSTRAINT belongs_to_space CHECK (" + _OWNER_MARK + " = {owner}))"
            ).format(
                table=table,
                profile=sql.Literal(profile_id),
                dimensions=sql.Literal(dimensions),
                owner=sql.Literal(_owner_mark(space)),
            )
        )
        storage = "PLAIN" if dimensions <= MAX_INLINE_DIMENSIONS else "EXTERNAL"
        connection.execute(
            sql.SQL(
                "ALTER TABLE {}.{} ALTER embedding SET STORAGE " + storage + ", ALTER lexical SET STORAGE MAIN"
            ).format(sql.Identifier("rag"), sql.Identifier(name))
        )
        _close(connection, table)
        _attach(connection, _parent(connection, profile_id), table, [profile_id])


# The id of a space is random and in no catalogue, so nobody finds out by trying whose mark it is. A foreign key would
# leave two triggers on embedding_profiles for each partition: every session reads them all after any change there.
_OWNER_MARK = "sha256((knowledge_space_id::text || ' ' || tenant_id || ' ' || bot_id)::bytea)"


def _owner_mark(space: Space) -> bytes:
    return hashlib.sha256(f"{space.id} {space.tenant} {space.bot}".encode()).digest()


def _close(connection: Connection, table: sql.Identifier) -> None:
    """Read through the parent, its policies hold; read directly, nothing passes."""
    connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(table))
    connection.execute(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(table))


def _attach(connection: Connection, parent: str, table: sql.Identifier, profiles: Sequence[int]) -> None:
    connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES IN ({})").format(
            sql.Identifier("rag", parent), table, sql.SQL(", ").join(map(sql.Literal, profiles))
        )
    )


def _parent(connection: Connection, profile_id: int) -> str:
    """The table that the profile's partition is attached to: its group, which is made if need be, or where an earlier
    version has attached others of that group, `knowledge_chunks` itself."""
    number = profile_id // GROUP_SIZE
    group, profiles = f"knowledge_chunks_g{number}", range(number * GROUP_SIZE, (number + 1) * GROUP_SIZE)
    known = {"group": group, "partitions": [partition_name(profile) for profile in profiles]}
    if (found := scalar(connection, query("partition_parent"), known)) is not None:
        return str(found)
    connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_GROUPS_LOCK, number])
    if (found := scalar(connection, query("partition_parent"), known)) is not None:
        return str(found)
    table = sql.Identifier("rag", group)
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} (LIKE rag.knowledge_chunks INCLUDING DEFAULTS INCLUDING CONSTRAINTS) "
            "PARTITION BY LIST (embedding_profile_id)"
        ).format(table)
    )
    _close(connection, table)
    _attach(connection, "knowledge_chunks", table, profiles)
    return group


def partition_exists(connection: Connection, profile_id: int) -> bool:
    """Whether the profile's partition is attached."""
    name = {"name": partition_name(profile_id)}
    attached = first_row(connection, class_row(_Attached), query("partition_attached"), name)
    return attached is not None and not attached.pending


def drop_partition(database: Database, profile_id: int) -> None:
    """Detach and drop the profile's partition; nothing where there is none.

    Detaching concurrently never blocks the readers of other profiles.
    """
    name = partition_name(profile_id)
    table = sql.Identifier("rag", name)
    with database.session("owner") as connection:
        attached = first_row(connection, class_row(_Attached), query("partition_attached"), {"name": name})
        if attached is not None:
            how = sql.SQL("FINALIZE") if attached.pending else sql.SQL("CONCURRENTLY")
            parent = sql.Identifier("rag", attached.parent)
            connection.execute(sql.SQL("ALTER TABLE {} DETACH PARTITION {} {}").format(parent, table, how))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))


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
