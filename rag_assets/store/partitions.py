"""The partition of knowledge_chunks that holds one profile: made, indexed and dropped as rag_owner."""

from __future__ import annotations

from psycopg import sql
from psycopg.errors import DuplicateTable, UniqueViolation

from rag_assets.store.database import Connection, Database
from rag_assets.store.sql import scalar
from rag_assets.store.tenants import Space

# A row keeps its vector in line up to here: 4 bytes a dimension, and about 400 bytes for the rest, in a page
# of 8 kB. Out of line, exact search takes about twice the time.
MAX_INLINE_DIMENSIONS = 1900


def partition_name(profile_id: int) -> str:
    """Table name of the profile's partition, in schema rag."""
    return f"knowledge_chunks_p{int(profile_id)}"


def create_partition(database: Database, profile_id: int, space: Space, dimensions: int) -> None:
    """Create and attach the profile's partition unless it is attached already.

    Its checks tie every row to one tenant, bot and space, whatever the inserting code believes, and refuse
    vectors of another model. Attaching a finished table does not block readers of other partitions.
    """
    name = partition_name(profile_id)
    with database.session("owner") as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [profile_id])
        if partition_exists(connection, profile_id):
            return
        table = sql.Identifier("rag", name)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))  # of a process killed half-way
        connection.execute(
            sql.SQL(
                "CREATE TABLE {table} (LIKE rag.knowledge_chunks INCLUDING DEFAULTS INCLUDING CONSTRAINTS, "
                "CHECK (embedding_profile_id = {profile}), CHECK (tenant_id = {tenant}), CHECK (bot_id = {bot}), "
                "CHECK (knowledge_space_id = {space}), CHECK (vector_dims(embedding) = {dimensions}), "
                "CHECK (vector_norm(embedding) BETWEEN 0.99 AND 1.01))"
            ).format(
                table=table,
                profile=sql.Literal(profile_id),
                tenant=sql.Literal(space.tenant),
                bot=sql.Literal(space.bot),
                space=sql.Literal(space.id),
                dimensions=sql.Literal(dimensions),
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
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))


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
