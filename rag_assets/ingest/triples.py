"""Given triples find the place in a source's text where they are said, and are kept there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rag_assets.errors import UsageError
from rag_assets.ingest.mentions import mentions, nearest_mentions
from rag_assets.ingest.triple_files import BadLine, GivenTriple, read_triples
from rag_assets.store.database import Connection, Database
from rag_assets.store.source_life import named_sources
from rag_assets.store.tenants import Space, spaces_of
from rag_assets.store.triples import (
    Place,
    SourceText,
    Triple,
    analysis_of_space,
    analyze_triples,
    place_of_chunk,
    texts_of_sources,
    write_triples,
)

_KNOWN_SOURCES = 64  # whose texts are kept while a file is read


@dataclass
class ImportReport:
    """What came of a file's lines: triples that are new or changed, those that were known, and what is wrong with the
    others, by the number of the line."""

    lines: int = 0
    written: int = 0
    unchanged: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)


def import_triples(
    database: Database, tenant: str, bot: str, file: str | Path, *, dry_run: bool = False
) -> ImportReport:
    """Keep the triples of a file (JSON lines, or .csv or .tsv with a header), in one transaction; a line that is
    wrong is reported and stops nothing.

    Each line has `subject`, `predicate`, `object`, the `source` that says so by its name, path or id, and, if given, a
    `confidence` in (0, 1] and the `quote` or the `chunk` in which it is said.

    Raises:
        UnknownTenant, UnknownBot: there is no such bot.
        UsageError: the file cannot be read, or the bot has no profile yet, so nobody knows its language.
    """
    with database.work(tenant, bot) as connection:
        space = spaces_of(connection, tenant, bot)[0]
        analysis = analysis_of_space(connection, space)
        if analysis is None:
            raise UsageError(
                f"{tenant}/{bot} knows nothing yet that triples could stand in; first: "
                f"rag ingest PATH --tenant {tenant} --bot {bot}"
            )
        report = ImportReport()
        placed = list(_placed(connection, space, read_triples(Path(file)), report))
        with connection.transaction(force_rollback=dry_run):
            report.written = write_triples(connection, space, analysis, placed)
    report.unchanged = len(placed) - report.written
    if not dry_run:
        analyze_triples(database, report.written)
    return report


def _placed(
    connection: Connection, space: Space, lines: Iterable[tuple[int, GivenTriple | BadLine]], report: ImportReport
) -> Iterator[tuple[Triple, Place]]:
    texts = _texts_by_name(connection, space)
    for number, given in lines:
        report.lines += 1
        try:
            if isinstance(given, BadLine):
                raise given
            yield given.triple, _place(connection, space, given, texts)
        except (BadLine, UsageError) as error:
            report.errors.append((number, str(error)))


def _texts_by_name(connection: Connection, space: Space) -> Callable[[str], Sequence[SourceText]]:
    @lru_cache(_KNOWN_SOURCES)
    def texts(name: str) -> Sequence[SourceText]:
        found = named_sources(connection, space.tenant, space.bot, name)
        return texts_of_sources(connection, [one.id for one in found])

    return texts


def _place(
    connection: Connection, space: Space, given: GivenTriple, texts: Callable[[str], Sequence[SourceText]]
) -> Place:
    if given.chunk is not None:
        place = place_of_chunk(connection, space, given.chunk)
        if place is None:
            raise BadLine(f"{space.tenant}/{space.bot} has no chunk {given.chunk}, or its source has changed since")
        return place
    assert given.source is not None  # no line without one or the other is read
    found = texts(given.source)
    if not found:
        raise BadLine(f"source {given.source!r} has no text that was read")
    for strict in (True, False):
        for source in found:
            if given.quote:
                span = next(mentions(source.text, given.quote), None)
            else:
                span = nearest_mentions(source.text, given.triple.subject, given.triple.object, strict)
            if span is not None:
                return Place(source.id, source.checksum, *span)
    what = "the quote stands" if given.quote else f"{given.triple.subject!r} and {given.triple.object!r} stand"
    raise BadLine(f"{what} nowhere in source {given.source!r}")
