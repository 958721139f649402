"""Calendars: each event, task or note of an iCalendar file is a source of its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

from icalendar import Calendar, Component

from rag_assets.documents.building import failed
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import normalize
from rag_assets.errors import ParseError

_KINDS = {"VEVENT": "event", "VTODO": "task", "VJOURNAL": "note"}
_LINES = (
    ("DTSTART", "Begins"),
    ("DTEND", "Ends"),
    ("DUE", "Due"),
    ("RRULE", "Repeats"),
    ("LOCATION", "Where"),
    ("ORGANIZER", "Organizer"),
    ("ATTENDEE", "With"),
    ("CATEGORIES", "Categories"),
    ("STATUS", "Status"),
    ("URL", "URL"),
)


def parse_calendar(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse an iCalendar file.

    Raises:
        ParseError: it is no iCalendar file.
    """
    try:
        calendars = Calendar.from_ical(decode(data, charset(content_type)), multiple=True)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ParseError(f"not an iCalendar file: {error}") from error
    records: dict[str, Record] = {}
    seen: Counter[str] = Counter()
    for calendar in calendars:
        for entry in calendar.walk():
            if entry.name in _KINDS:
                kind = _KINDS[entry.name]
                seen[kind] += 1
                record = replace(_record(entry), place=f"{kind} {seen[kind]}")
                if record.key in records:
                    reason = f"there is another entry with the id {record.key!r}"
                    record = replace(
                        failed(f"{record.key}#{len(records)}", record.name, reason, "record"), place=record.place
                    )
                records[record.key] = record
    return list(records.values()) or [Record("", name, "no_text", error="the calendar holds no entries")]


def _record(entry: Component) -> Record:
    title = normalize(_text(entry.get("SUMMARY")))
    lines = [f"{label}: {text}" for field, label in _LINES if (text := _text(entry.get(field)))]
    body = _text(entry.get("DESCRIPTION"))
    text = normalize("\n\n".join(part for part in (title, "\n".join(lines), body) if part))
    key = _key(entry, text)
    if not title and not body:
        return Record(key, key, "no_text", error="the entry says nothing", source_type="record")
    document = Document(text, title, "text/calendar", metadata={"doc_id": key})
    return Record(key, title or key, "ready", document, source_type="record")


def _key(entry: Component, text: str) -> str:
    """The id of an entry; a changed occurrence of a series has the id of the series, and its own time."""
    uid = _text(entry.get("UID")) or hashlib.sha256(text.encode()).hexdigest()[:32]
    occurrence = _text(entry.get("RECURRENCE-ID"))
    return normalize(f"{uid}@{occurrence}" if occurrence else uid)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value)))
    # Text first: a value that its kind does not allow is kept as text, and refuses any other question.
    if isinstance(value, str):
        name = getattr(value, "params", {}).get("CN")
        return str(name) if name else str(value).strip().removeprefix("mailto:")
    if hasattr(value, "cats"):
        return ", ".join(map(str, value.cats))
    moment = getattr(value, "dt", None)
    if moment is not None:
        return str(moment)
    if isinstance(value, dict):
        return "; ".join(f"{field.lower()} {_text(part)}" for field, part in value.items())
    return str(value).strip()
