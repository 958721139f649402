"""JSON as connections for searching read it: the same values as `json.loads`."""

from __future__ import annotations

import json

import psycopg
import pytest

from rag_assets.store.database import Database
from rag_assets.store.json_values import read_json_soon

VALUES = [
    "{}",
    "[]",
    "null",
    '"é \\u00e9 \\ud83d\\ude00"',
    '{"a": {"b": [1, 2.5, -1.5e-3, true]}}',
    "12345678901234567890123",
]


@pytest.mark.parametrize("kind", ["json", "jsonb"])
@pytest.mark.parametrize("text", [*VALUES, "12345678901234567890123", ' \n{"a": 1} '])
def test_a_value_is_what_json_says(database: Database, kind: str, text: str) -> None:
    with psycopg.connect(database.url) as connection:
        read_json_soon(connection)
        row = connection.execute(f"SELECT %s::{kind}", [text]).fetchone()  # type: ignore[call-overload]
    assert row is not None
    assert row[0] == json.loads(text)
