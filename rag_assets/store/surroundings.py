"""What stands around passages in the text of their sources, read under the scope of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from rag_assets.store.sql import query
from rag_assets.store.statements import Statement

Text = tuple[UUID, str]  # of a source, in one version


@dataclass(frozen=True)
class Span:
    """A passage: code points `start` to `end` of a source's text in one version."""

    source_id: UUID
    version: str
    start: int
    end: int

    @property
    def text(self) -> Text:
        """Whose part it is."""
        return self.source_id, self.version


@dataclass(frozen=True)
class Parts:
    """The parts of a text, by their start: offsets and, where known, first and last pages; of blocks also which section
    each is of, counted from the first one on."""

    source_id: UUID
    version: str
    starts: list[int]
    ends: list[int]
    pages: list[int | None]
    last_pages: list[int | None]
    sections: list[int] | None


@dataclass(frozen=True)
class SpanText:
    """The text of the span of this number (from 1)."""

    number: int
    content: str


def blocks_of(texts: Sequence[Text]) -> Statement:
    """The blocks of each text, as `Parts`. Of a source that the scope may not see there is no row."""
    return Statement(query("blocks_of_texts"), _values(texts), class_row(Parts))


def chunks_of(texts: Sequence[Text], profiles: Sequence[int]) -> Statement:
    """The chunks that these profiles cut of each text, as `Parts`. Of a source that the scope may not see there is no
    row."""
    return Statement(query("chunks_of_texts"), {**_values(texts), "profiles": list(profiles)}, class_row(Parts))


def texts_of(spans: Sequence[Span]) -> Statement:
    """What stands there, as `SpanText`s. Of a source that the scope may not see there is no row."""
    bounds = {"firsts": [span.start for span in spans], "lasts": [span.end for span in spans]}
    values = {**_values([span.text for span in spans]), **bounds}
    return Statement(query("texts_of_spans"), values, class_row(SpanText))


def _values(texts: Sequence[Text]) -> dict[str, list[UUID] | list[str]]:
    return {"sources": [source for source, _ in texts], "versions": [version for _, version in texts]}
