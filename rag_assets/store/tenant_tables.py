"""What belongs to a tenant, read from the catalogue: the rows that name it, and those that point at such rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row

from rag_assets.store.database import Connection
from rag_assets.store.sql import query, rows

# Tables that name a tenant or a bot in other columns than `tenant_id` and `bot_id`: those that these are keys of.
_KEYS = {"tenants": ("id", None), "bots": ("tenant_id", "id")}


@dataclass(frozen=True)
class _Table:
    name: str
    by_partitions: bool
    columns: list[str]
    text_columns: list[str]
    granted: bool

    @property
    def keys(self) -> tuple[str | None, str | None]:
        """Its columns that name the tenant and the bot."""
        columns = ("tenant_id" if "tenant_id" in self.columns else None, "bot_id" if "bot_id" in self.columns else None)
        return _KEYS.get(self.name, columns)

    def compared(self, column: str, operator: str, value: str | None) -> sql.Composable:
        # Only a plain comparison can use an index of the column.
        cast = "" if column in self.text_columns else "::text"
        return sql.SQL("{}" + cast + operator + "{}").format(sql.Identifier(column), sql.Literal(value))


@dataclass(frozen=True)
class _ForeignKey:
    table: str
    columns: list[str]
    target: str
    target_columns: list[str]

    def ties(self, column: str, target_column: str | None) -> bool:
        """Whether it keeps these two equal."""
        return any(pair == (column, target_column) for pair in zip(self.columns, self.target_columns, strict=True))


class TenantTables:
    """All tables of the schema as they are now that hold rows of a tenant, or of one bot of it, and the statements over
    all of them.

    A column of any other type than text names a tenant by what it reads as: a uuid, a number, an enum. An array, a
    range, a composite or JSON names none: a table whose `tenant_id` is one is left alone unless its rows point at
    rows of the tenant.
    """

    def __init__(self, connection: Connection, tenant: str, bot: str | None) -> None:
        tables = {table.name: table for table in rows(connection, class_row(_Table), query("tables"))}
        keys = rows(connection, class_row(_ForeignKey), query("foreign_keys"))
        self._connection = connection
        self._tenant, self._bot = tenant, bot
        self._tables = tables
        self._foreign_keys = {
            name: [key for key in keys if key.table == name and key.target in tables] for name in tables
        }

    # Values are literals in these statements: without parameters, a % in a name stands for itself.

    def not_granted(self) -> list[str]:
        """Tables, as SQL names them, that may hold such rows and that ingest may not read or not delete from."""
        return [
            sql.Identifier("rag", name).as_string(self._connection)
            for name in self._rows_by_table()
            if not self._tables[name].granted
        ]

    def count(self) -> dict[str, int]:
        """Rows of the tenant, or of the bot, by table."""
        return self._counts(self._rows_by_table())

    def count_pointing_from_outside(self, connection: Connection) -> dict[str, int]:
        """Rows by table that are not the tenant's and point at rows of it, or of the bot, so that these cannot go or
        take them along; only tables that have any. `connection` tells whose rows are seen."""
        outside = {
            name: sql.SQL("{} AND ({})").format(
                table.compared(tenant_column, " IS DISTINCT FROM ", self._tenant), sql.SQL(" OR ").join(ways)
            )
            for name, table in self._tables.items()
            if (tenant_column := table.keys[0]) is not None and (ways := self._ways_in(name, tenant_column))
        }
        return {name: count for name, count in self._counts(outside, connection).items() if count}

    def delete(self) -> None:
        """Delete these rows, but for those of knowledge_chunks, which go with the partitions of their profiles.

        It is one statement, so that the order of the tables does not matter: foreign keys are checked at its end.

        Raises:
            psycopg.errors.ForeignKeyViolation: somebody adds rows that point at them, or a trigger keeps such rows.
        """
        delete = sql.SQL("{table} AS (DELETE FROM rag.{table} WHERE {rows})")
        deletes = [
            delete.format(table=sql.Identifier(name), rows=condition)
            for name, condition in self._rows_by_table().items()
            if not self._tables[name].by_partitions
        ]
        self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self._connection.execute(sql.SQL("WITH {} SELECT").format(sql.SQL(", ").join(deletes)))

    def _counts(
        self, rows_by_table: Mapping[str, sql.Composable], connection: Connection | None = None
    ) -> dict[str, int]:
        count = sql.SQL("SELECT {name}, count(*) FROM rag.{table} WHERE {rows}")
        counts = [
            count.format(name=sql.Literal(name), table=sql.Identifier(name), rows=condition)
            for name, condition in rows_by_table.items()
        ]
        return dict((connection or self._connection).execute(sql.SQL(" UNION ALL ").join(counts)).fetchall())

    def _rows_by_table(self) -> Mapping[str, sql.Composable]:
        """Table -> condition on its rows, for all that may hold rows of a tenant."""
        return {
            table.name: (self._rows(table, self._bot is not None) or sql.SQL("false"))
            for table in self._tables.values()
            if self._rows(table, of_bot=False) is not None
        }

    def _ways_in(self, name: str, tenant_column: str) -> list[sql.Composable]:
        """Conditions that a row of the table points at rows that go, by each foreign key that does not itself keep
        both to one tenant."""
        return [
            _points_at(key, target_rows)
            for key in self._foreign_keys[name]
            if not key.ties(tenant_column, self._tables[key.target].keys[0])
            if (target_rows := self._rows(self._tables[key.target], self._bot is not None)) is not None
        ]

    def _rows(self, table: _Table, of_bot: bool, pointing: frozenset[str] = frozenset()) -> sql.Composable | None:
        """The condition that a row is the tenant's, or the bot's; None if none can be. `pointing` are the tables from
        which it is asked because they point here."""
        tenant_column, bot_column = table.keys
        column, value = (bot_column, self._bot) if of_bot else (tenant_column, self._tenant)
        ways = [] if column is None else [table.compared(column, " = ", value)]
        # Rows of one bot may point at rows of another: they go along with what they point at.
        if column is None or (of_bot and not pointing):
            ways += [
                _points_at(key, target_rows)
                for key in self._foreign_keys[table.name]
                if column not in key.columns and key.target not in {table.name, *pointing}
                if (target_rows := self._rows(self._tables[key.target], of_bot, pointing | {table.name})) is not None
            ]
        if not ways:
            return None
        either = sql.SQL("({})").format(sql.SQL(" OR ").join(ways))
        if of_bot and tenant_column is not None:
            return sql.SQL("{} AND {}").format(table.compared(tenant_column, " = ", self._tenant), either)
        return either


def _points_at(key: _ForeignKey, target_rows: sql.Composable) -> sql.Composable:
    columns, target_columns = (
        sql.SQL(", ").join(map(sql.Identifier, names)) for names in (key.columns, key.target_columns)
    )
    return sql.SQL("({}) IN (SELECT {} FROM rag.{} WHERE {})").format(
        columns, target_columns, sql.Identifier(key.target), target_rows
    )
