"""Collection files: each row of a JSONL, JSON or CSV file is a source of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import failed, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Block, Document, Record
from rag_assets.documents.names import charset, media_type, suffix
from rag_assets.documents.normalize import clean_json, normalize
from rag_assets.documents.parsers.csv_layout import csv_layout
from rag_assets.documents.parsers.faq import faq_record, pair_columns
from rag_assets.documents.parsers.rows import Row, csv_rows, json_array, json_lines, json_values
from rag_assets.errors import ParseError

_ID_FIELDS = ("_id", "id", "doc_id")
_LANGUAGE_FIELDS = ("language", "lang")
_URL_FIELDS = ("canonical_url", "url")
_MAX_HEADING = 300  # characters of a title that stands in every row


def parse_jsonl(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse JSON lines: question and answer pairs, or records in BEIR layout (`_id`, `title`, `text`)."""
    text = decode(data, charset(content_type))
    rows = list(json_lines(text))
    if any(row.values is None for row in rows):
        rows = json_values(text) or rows  # objects over several lines, or several in one
    return _collect(rows, _json_row)


def parse_json(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse JSON objects, in an array or one after the other, like JSON lines; other JSON values are one text."""
    text = decode(data, charset(content_type))
    rows = json_array(text)
    if rows is not None:
        return _collect(rows, _json_row)
    text = normalize(text)
    block = Block("code", len(text) - len(text.lstrip()), len(text.rstrip()))
    return whole_file(Document(text=text, content_type="application/json", blocks=(block,)), name)


def parse_csv(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse CSV: question and answer pairs, BEIR layout, or else `column: value` lines for each row."""
    tabs = suffix(name) == ".tsv" or media_type(content_type) == "text/tab-separated-values"
    text = decode(data, charset(content_type))
    layout = csv_layout(text, "\t" if tabs else None)
    heading = normalize("\n".join(layout.heading))
    rows = (_with_extra(row, layout.delimiter) for row in csv_rows(text, layout))
    records = [_under_heading(record, heading[:_MAX_HEADING]) for record in _collect(rows, _csv_record)]
    if len(heading) <= _MAX_HEADING and records:
        return records
    # Too much to stand in every row, or nothing for it to stand in.
    return [*whole_file(Document(heading), name), *records] if heading else records


def _with_extra(row: Row, delimiter: str) -> Row:
    """Give what the header names no column for to the text that it was cut from: nobody quoted the delimiter."""
    if not row.extra or row.values is None:
        return row
    pair = pair_columns(row.values)
    field = pair[1] if pair else "text" if _is_beir(row.values) else None
    if field is None:
        return row
    values = {name: value for name, value in row.values.items() if name not in row.extra}
    joined = delimiter if next(reversed(values)) == field else "\n"
    values[field] = joined.join([values[field], *(row.values[name] for name in row.extra)])
    return replace(row, values=values, extra=())


def _under_heading(record: Record, heading: str) -> Record:
    """Put a record under the title of its table: in front of its fields, and over the parts that it has."""
    document = record.document
    if document is None or not heading:
        return record
    path = (" ".join(heading.split()),)
    if document.blocks:
        blocks = tuple(replace(block, heading_path=path) for block in document.blocks)
        return replace(record, document=replace(document, blocks=blocks))
    text = f"{heading}\n\n{document.text}"
    begin = len(heading) + 2
    blocks = (Block("heading", 0, len(heading), path), Block("paragraph", begin, len(text), path))
    return replace(record, document=replace(document, text=text, blocks=blocks))


def _collect(rows: Iterable[Row], convert: Callable[[dict[str, Any]], Record]) -> list[Record]:
    first_seen: dict[str, Row] = {}
    records: list[Record] = []
    for row in rows:
        record = replace(_convert(row, convert), place=row.where)
        earlier = row if record.status == "failed" else first_seen.setdefault(record.key, row)
        if earlier is not row and row.values == earlier.values and _known_id(row.values or {}) is None:
            continue  # an identical row without an id is the same source, and nothing is lost
        if earlier is not row:
            reason = f"{row.where} has the same id as {earlier.where}: {record.key!r}"
            record = replace(failed(row.label, row.label, reason, record.source_type), place=row.where)
        records.append(record)
    return _told_apart(records)


def _told_apart(records: list[Record]) -> list[Record]:
    """A row that failed leaves its id to one that can be read, or to the first that failed."""
    taken = {record.key for record in records if record.status != "failed"}
    found = []
    for record in records:
        if record.status == "failed" and record.key in taken:
            label = record.place.replace(" ", ":")
            record = replace(record, key=label, name=label)
        taken.add(record.key)
        found.append(record)
    return found


def _convert(row: Row, convert: Callable[[dict[str, Any]], Record]) -> Record:
    if row.values is None:
        return _unread(row)
    try:
        record = convert(row.values)
    except (ParseError, RecursionError) as error:
        # A record that is known by its id keeps its last good version under that id.
        key = _known_id(row.values) or row.label
        return failed(key, key, f"{row.where}: {error}", "faq" if pair_columns(row.values) else "record")
    if record.status == "no_text":
        return replace(record, error=f"{row.where}: {record.error}")
    return record


def _unread(row: Row) -> Record:
    """The record of a row that could not be read: of the id that it begins with, or of any that is not seen now."""
    key = _known_id(row.known)
    record = failed(key or row.label, key or row.label, row.error or f"{row.where} could not be read", "record")
    if key is not None or not row.unread:
        return record
    return replace(record, hides_others=True, checksum=hashlib.sha256(row.unread.encode()).hexdigest())


def _json_row(values: dict[str, Any]) -> Record:
    if "text" in values:
        return _beir_record(values)
    return _faq_row(values) or _field_record(values)


def _csv_record(values: dict[str, Any]) -> Record:
    if _is_beir(values):
        return _beir_record(values)
    return _faq_row(values) or _field_record(values)


def _is_beir(values: Mapping[str, Any]) -> bool:
    return "text" in values and any(field in values for field in _ID_FIELDS)


def _faq_row(values: dict[str, Any]) -> Record | None:
    columns = pair_columns(values)
    if columns is None:
        return None
    question, answer = columns
    return faq_record(values[question], values[answer], _identity(values), _metadata(values, columns))


def _beir_record(values: dict[str, Any]) -> Record:
    title, body = _string(values, "title"), _string(values, "text")
    text = f"{title}\n\n{body}" if title and body else title or body
    return _record(values, title, text, _metadata(values, ("title", "text")))


def _field_record(values: dict[str, Any]) -> Record:
    cells = clean_json(values)
    lines = (f"{name}: {_cell(value)}" for name, value in cells.items() if not _is_empty(value))
    title = next((cells[name] for name in ("title", "name") if isinstance(cells.get(name), str)), "")
    return _record(values, title.strip(), "\n".join(lines), _metadata(values, ()))


def _record(values: dict[str, Any], title: str, text: str, metadata: dict[str, Any]) -> Record:
    key = _identity(values) or _content_key(values)
    if is_blank(text):
        return Record(key, title or key, "no_text", error="it holds no text", source_type="record")
    document = Document(
        text=text,
        title=title,
        language=_first_string(metadata, _LANGUAGE_FIELDS),
        canonical_url=_first_string(metadata, _URL_FIELDS),
        metadata={**metadata, "doc_id": key},
    )
    return Record(key, title or key, "ready", document, source_type="record")


def _string(values: dict[str, Any], field: str) -> str:
    value = values.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ParseError(f"the field {field!r} is a {type(value).__name__}, not text")
    return normalize(value)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and is_blank(value))


def _cell(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _identity(values: Mapping[str, Any]) -> str | None:
    """Return the first id field that is set, as text; ids are compared as text everywhere."""
    for field in _ID_FIELDS:
        value = values.get(field)
        if value is None or value == "":
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ParseError(f"the field {field!r} is a {type(value).__name__}, not a string or number")
        return normalize(str(value)).strip() or None
    return None


def _known_id(values: Mapping[str, Any]) -> str | None:
    try:
        return _identity(values)
    except ParseError:
        return None


def _content_key(values: dict[str, Any]) -> str:
    content = json.dumps(clean_json(values), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _metadata(values: dict[str, Any], used: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that are neither text nor id; those of a nested `metadata` object move up a level."""
    skipped = {*used, *_ID_FIELDS}
    rest = {name: value for name, value in values.items() if name not in skipped}
    if not rest:
        return {}
    nested = rest.pop("metadata", None) if isinstance(rest.get("metadata"), dict) else {}
    cleaned: dict[str, Any] = clean_json({**(nested or {}), **rest})
    return cleaned


def _first_string(metadata: dict[str, Any], fields: Iterable[str]) -> str | None:
    values: Iterator[Any] = (metadata.get(field) for field in fields)
    return next((value for value in values if isinstance(value, str) and value), None)
