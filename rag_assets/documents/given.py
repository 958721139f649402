"""What a registered parser gives back, checked: its mistakes are those of one file, never of an ingest."""

from __future__ import annotations

import json
from typing import get_args

from rag_assets.documents.blank import is_blank
from rag_assets.documents.model import BlockKind, Document, Record
from rag_assets.documents.normalize import normalize
from rag_assets.errors import ParseError
from rag_assets.printing import counted

_STATUSES = ("ready", "no_text", "failed")


def checked(records: object, parser: str) -> list[Record]:
    """The records, if the store can hold them.

    Raises:
        ParseError: says what is wrong with which of them.
    """
    if not isinstance(records, list) or not all(isinstance(record, Record) for record in records):
        raise ParseError(f"the {parser} parser returned {type(records).__name__}, not a list of Records")
    keys: set[str] = set()
    for record in records:
        fault = _fault(record) or ("two records have this key" if record.key in keys else None)
        if fault:
            raise ParseError(f"the {parser} parser returned a record with the key {record.key!r}: {fault}")
        keys.add(record.key)
    return records


def _fault(record: Record) -> str | None:
    if not isinstance(record.key, str) or not isinstance(record.name, str):
        return "key and name must be strings"
    if record.status not in _STATUSES:
        return f"its status is {record.status!r}, and none of {', '.join(_STATUSES)}"
    if record.status == "ready":
        return _fault_of(record.document)
    return None


def _fault_of(document: object) -> str | None:
    if not isinstance(document, Document):
        return "it is ready and has no Document"
    if not isinstance(document.text, str) or not isinstance(document.title, str):
        return "text and title must be strings"
    if document.text != normalize(document.text):
        return "its text holds NUL, half a surrogate pair or a carriage return, or is not in Unicode's form NFC"
    if is_blank(document.text):
        return "it is ready and holds no text; its status is no_text"
    length = len(document.text)
    for block in document.blocks:
        if block.kind not in get_args(BlockKind) or not 0 <= block.start <= block.end <= length:
            return f"{block} is no part of a text of {counted(length, 'character')}"
    try:
        json.dumps(dict(document.metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its metadata is no JSON: {error}"
    return None
