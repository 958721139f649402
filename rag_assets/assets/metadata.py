"""What a materialization tells the person who opens it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.refused import without_quotations
from rag_assets.ingest.sources import Failure
from rag_assets.printing import printable
from rag_assets.store.overview import BotIndexes, BotProfile, BotSources, FailedSource

MAX_FAILURES = 50
_PREVIEW_CHUNKS = 5
_PREVIEW_CHARACTERS = 200
_MAX_ERROR = 500

_FAILURE_SCHEMA = dg.TableSchema(columns=[dg.TableColumn("bot"), dg.TableColumn("source"), dg.TableColumn("error")])


def shown(failures: Sequence[Failure | FailedSource]) -> list[Failure]:
    """The first 50 failures, their errors shortened."""
    return [Failure(one.bot, one.name, one.error[:_MAX_ERROR]) for one in failures[:MAX_FAILURES]]


def failures_table(failures: Sequence[Failure | FailedSource]) -> dg.TableMetadataValue:
    """The first failures, as a table that the UI shows in place; without what they quote, since whoever may look into
    Dagster sees the runs of all tenants."""
    unquoted = [Failure(one.bot, one.name, without_quotations(one.error)) for one in failures[:MAX_FAILURES]]
    return dg.MetadataValue.table(
        records=[_row({"bot": f.bot, "source": f.name, "error": f.error}) for f in shown(unquoted)],
        schema=_FAILURE_SCHEMA,
    )


def bots_table(bots: Sequence[BotSources | BotProfile | BotIndexes]) -> dg.TableMetadataValue:
    """The whole partition, with a row for each bot, whichever bot a run was for."""
    return records_table(
        [{name: "" if value is None else value for name, value in asdict(bot).items()} for bot in bots]
    )


def records_table(records: Sequence[Mapping[str, str | int | float | bool]]) -> dg.TableMetadataValue:
    """Records with the same fields, as a table."""
    names = list(records[0]) if records else ["bot"]
    return dg.MetadataValue.table(
        records=[_row(record) for record in records],
        schema=dg.TableSchema(columns=[dg.TableColumn(name) for name in names]),
    )


def _row(record: Mapping[str, str | int | float | bool]) -> dg.TableRecord:
    return dg.TableRecord(
        {name: printable(value) if isinstance(value, str) else value for name, value in record.items()}
    )


def preview(chunks: ChunkFile) -> dg.MarkdownMetadataValue:
    """The first chunks of up to five different sources, shortened, as a Markdown table."""
    lines = ["| # | tokens | content |", "|---|---|---|"]
    lines += [
        f"| {row['chunk_index']} | {row['token_count']} | {_cell(row['content'])} |"
        for row in _first_of_each_source(chunks)
    ]
    return dg.MetadataValue.md("\n".join(lines) if len(lines) > 2 else "No chunk in this run.")


def _first_of_each_source(chunks: ChunkFile) -> Iterable[dict[str, Any]]:
    seen: set[str] = set()
    # Enough rows to meet several sources, without turning a large table into Python objects.
    head = chunks.head(500).select(["source_id", "chunk_index", "token_count", "content"])
    for row in head.to_pylist():
        if row["source_id"] not in seen and len(seen) < _PREVIEW_CHUNKS:
            seen.add(row["source_id"])
            yield row


def _cell(text: str) -> str:
    line = printable(" ".join(text.split()))
    if len(line) > _PREVIEW_CHARACTERS:
        line = line[: _PREVIEW_CHARACTERS - 1] + "…"
    for mark in "\\|`<*_[":
        line = line.replace(mark, "\\" + mark)
    return line


def seconds(value: float) -> dg.FloatMetadataValue:
    """A duration, rounded to milliseconds."""
    return dg.MetadataValue.float(round(value, 3))
