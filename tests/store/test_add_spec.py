"""The catalogue keeps the terms, and the storage of the index, that a profile was added with."""

from __future__ import annotations

import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import InvalidProfile
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec, get_spec
from rag_assets.terms import FIRST, NEWEST
from tests.support.worlds import HASH_PROFILE

SPEC = {name: value for name, value in HASH_PROFILE.model_dump().items() if name not in ("name", "terms", "index")}


def test_a_profile_that_was_added_before_there_were_newer_terms_can_be_added_again(database: Database) -> None:
    first = make_profile(**SPEC, name="older", terms=FIRST)
    assert add_spec(database, first) == first
    assert add_spec(database, make_profile(**SPEC, name="older")) == first
    with database.work() as connection:
        assert get_spec(connection, "older").terms == FIRST


def test_terms_that_are_asked_for_are_part_of_what_a_profile_is(database: Database) -> None:
    assert add_spec(database, make_profile(**SPEC, name="newer")).terms == NEWEST
    with pytest.raises(InvalidProfile, match="another specification"):
        add_spec(database, make_profile(**SPEC, name="newer", terms=FIRST))


def test_a_profile_that_was_added_with_another_storage_can_be_added_again_without_saying_which(
    database: Database,
) -> None:
    older = make_profile(**SPEC, name="older", index={"storage": "vector", "m": 20})
    assert add_spec(database, older) == older
    assert add_spec(database, make_profile(**SPEC, name="older", index={"m": 20})) == older
    for index in ({"m": 20, "storage": "halfvec"}, {"m": 21}):
        with pytest.raises(InvalidProfile, match="another specification"):
            add_spec(database, make_profile(**SPEC, name="older", index=index))
