"""Filters on metadata outside of Postgres mean what they mean there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from rag_assets.vector_stores.matching import contains

PLAIN = st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, -2, "", "a", "1", "true", "ä"])
JSON = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3)


@pytest.fixture(scope="module")
def connection(server_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_url, autocommit=True) as opened:
        yield opened


def parts_of(value: Any, draw: st.DataObject) -> Any:
    """A part of a value, so that it is often contained."""
    if isinstance(value, dict):
        return {name: parts_of(one, draw) for name, one in value.items() if draw.draw(st.booleans())}
    if isinstance(value, list):
        return [parts_of(one, draw) for one in value if draw.draw(st.booleans())]
    return value if draw.draw(st.integers(0, 9)) else draw.draw(PLAIN)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=OBJECTS, draw=st.data())
def test_metadata_contains_what_postgres_says_it_contains(
    connection: psycopg.Connection, value: dict[str, Any], draw: st.DataObject
) -> None:
    wanted = parts_of(value, draw) if draw.draw(st.booleans()) else draw.draw(OBJECTS)
    (expected,) = connection.execute("SELECT %s::jsonb @> %s::jsonb", [Jsonb(value), Jsonb(wanted)]).fetchone() or ()
    assert contains(value, wanted) is expected
