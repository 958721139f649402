"""What belongs to a tenant, read from the catalogue: the rows that name it, and those that point at such rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row

from rag_assets.store.database import Connection
from rag_assets.store.sql import query

# Tables that name a tenant or a bot in other columns than `tenant_id` and `bot_id`: those that these are keys of.
_KEYS = {"tenants": ("id", None), "bots": ("tenant_id", "id")}


@dataclass(frozen=True)
class _Table:
    name: str
    columns: list[str]
    partitioned: bool

    @property
    def keys(self) -> tuple[str | None, str | None]:
        """Its columns that name the tenant and the bot."""
        columns = ("tenant_id" if "tenant_id" in self.columns else None, "bot_id" if "bot_id" in self.columns else None)
        return _KEYS.get(self.name, columns)


@dataclass(frozen=True)
class _ForeignKey:
    table: str
    columns: list[str]
    target: str
    target_columns: list[str]


class TenantTables:
    """All tables of the schema as they are now that hold rows of tenants, and the statements over all of them."""

    def __init__(self, connection: Connection) -> None:
        tables = connection.cursor(row_factory=class_row(_Table)).execute(query("tables")).fetchall()
        keys = connection.cursor(row_factory=class_row(_ForeignKey)).execute(query("foreign_keys")).fetchall()
        self._connection = connection
        self._tables = {table.name: table for table in tables}
        self._foreign_keys = {name: [key for key in keys if key.table == name] for name in self._tables}

    def count(self, tenant: str, bot: str | None) -> dict[str, int]:
        """Rows of the tenant, or of one bot of it, by table."""
        count = sql.SQL("SELECT {name}, count(*) FROM rag.{table} WHERE {rows}")
        counts = [
            count.format(name=sql.Literal(name), table=sql.Identifier(name), rows=rows)
            for name, rows in self._rows_by_table(bot).items()
        ]
        statement = sql.SQL(" UNION ALL ").join(counts)
        return dict(self._connection.execute(statement, {"tenant": tenant, "bot": bot}).fetchall())

    def delete(self, tenant: str, bot: str | None) -> None:
        """Delete these rows, but for those of partitioned tables, which go with their partitions.

        It is one statement, so that the order of the tables does not matter: foreign keys are checked at its end.

        Raises:
            psycopg.errors.ForeignKeyViolation: somebody adds rows that point at them.
        """
        delete = sql.SQL("{table} AS (DELETE FROM rag.{table} WHERE {rows})")
        deletes = [
            delete.format(table=sql.Identifier(name), rows=rows)
            for name, rows in self._rows_by_table(bot).items()
            if not self._tables[name].partitioned
        ]
        statement = sql.SQL("WITH {} SELECT").format(sql.SQL(", ").join(deletes))
        self._connection.execute(statement, {"tenant": tenant, "bot": bot})

    def _rows_by_table(self, bot: str | None) -> Mapping[str, sql.Composable]:
        """Table -> condition on its rows, for all that may hold rows of a tenant."""
        return {
            table.name: (self._rows(table, bot is not None) or sql.SQL("false"))
            for table in self._tables.values()
            if self._rows(table, of_bot=False) is not None
        }

    def _rows(self, table: _Table, of_bot: bool, pointing: frozenset[str] = frozenset()) -> sql.Composable | None:
        """The condition that a row is the tenant's, or the bot's; None if none can be. `pointing` are the tables from
        which it is asked because they point here."""
        tenant_column, bot_column = table.keys
        column, value = (bot_column, "bot") if of_bot else (tenant_column, "tenant")
        ways = [] if column is None else [_is(column, value)]
        # Rows of one bot may point at rows of another: they go along with what they point at.
        if column is None or (of_bot and not pointing):
            ways += [
                _points_at(key, rows)
                for key in self._foreign_keys[table.name]
                if column not in key.columns and key.target not in {table.name, *pointing}
                if (rows := self._rows(self._tables[key.target], of_bot, pointing | {table.name})) is not None
            ]
        if not ways:
            return None
        either = sql.SQL("({})").format(sql.SQL(" OR ").join(ways))
        if of_bot and tenant_column is not None:
            return sql.SQL("{} AND {}").format(_is(tenant_column, "tenant"), either)
        return either


def _is(column: str, value: str) -> sql.Composable:
    return sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder(value))


def _points_at(key: _ForeignKey, rows: sql.Composable) -> sql.Composable:
    columns, target_columns = (
        sql.SQL(", ").join(map(sql.Identifier, names)) for names in (key.columns, key.target_columns)
    )
    return sql.SQL("({}) IN (SELECT {} FROM rag.{} WHERE {})").format(
        columns, target_columns, sql.Identifier(key.target), rows
    )
