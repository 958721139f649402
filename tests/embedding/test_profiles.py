from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from pydantic import ValidationError

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import (
    BUILTIN_PROFILES,
    EmbeddingProfile,
    IndexSpec,
    LexicalSpec,
    first_storage,
    make_profile,
    stored_profile,
)
from rag_assets.errors import InvalidKey, InvalidProfile
from rag_assets.store.database import Database
from rag_assets.store.profiles import get_spec
from rag_assets.terms import FIRST

HASH: dict[str, Any] = {"name": "p", "provider": "hash", "model": "hash", "dimensions": 64}

profiles = st.builds(
    EmbeddingProfile,
    name=st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True),
    provider=st.just("hash"),
    model=st.just("hash"),
    dimensions=st.integers(8, 4000),
    distance_metric=st.sampled_from(["cosine", "ip", "l2"]),
    task_instruction=st.dictionaries(st.sampled_from(["query", "document"]), st.text(max_size=20)),
    chunking=st.builds(ChunkingSpec, size=st.integers(200, 3000), overlap=st.integers(0, 50)),
    index=st.builds(IndexSpec, kind=st.sampled_from(["auto", "exact", "hnsw"]), m=st.integers(2, 32)),
    lexical=st.builds(LexicalSpec, language=st.sampled_from(["simple", "german"])),
)


@given(profiles)
def test_a_profile_survives_a_round_trip_through_json(profile: EmbeddingProfile) -> None:
    copy = EmbeddingProfile.model_validate(json.loads(json.dumps(profile.model_dump(mode="json"))))
    assert copy == profile
    assert (copy.spec_hash, copy.model_key, hash(copy)) == (
        profile.spec_hash,
        profile.model_key,
        hash(profile),
    )


@given(profiles, profiles)
def test_profiles_share_a_spec_hash_exactly_when_only_their_names_differ(
    one: EmbeddingProfile, other: EmbeddingProfile
) -> None:
    same = one.model_copy(update={"name": "same"}) == other.model_copy(update={"name": "same"})
    assert (one.spec_hash == other.spec_hash) is same
    assert one.model_copy(update={"name": "renamed"}).spec_hash == one.spec_hash


@pytest.mark.parametrize(
    "change",
    [
        {"dimensions": 65},
        {"distance_metric": "l2"},
        {"task_instruction": {"query": "q: "}},
        {"chunking": {"size": 777, "overlap": 10}},
        {"index": {"m": 17}},
        {"index": {"exact_below": 1}},
        {"index": {"storage": "vector"}},
        {"lexical": {"language": "german"}},
        {"terms": 1},
    ],
)
def test_every_field_but_the_name_changes_the_spec_hash(change: dict[str, Any]) -> None:
    assert make_profile(**{**HASH, **change}).spec_hash != make_profile(**HASH).spec_hash


def test_the_model_key_depends_on_what_decides_a_vector_and_on_nothing_else() -> None:
    base = make_profile(**HASH)
    other_chunks = make_profile(**{**HASH, "name": "q"}, chunking={"size": 777, "overlap": 10}, index={"m": 8})
    assert other_chunks.model_key == base.model_key
    assert base.model_key.startswith("hash:hash:64:")
    assert make_profile(**{**HASH, "dimensions": 65}).model_key != base.model_key
    assert make_profile(**HASH, task_instruction={"document": "d: "}).model_key != base.model_key


def test_the_keys_do_not_change_from_one_process_or_release_to_the_next() -> None:
    assert BUILTIN_PROFILES["static-256"].model_key == "wordllama:l2_supercat_256:256:1e89216cd751"


def test_a_profile_that_says_nothing_of_terms_and_storage_keeps_its_hash_and_is_read_with_the_first(
    database: Database,
) -> None:
    first = make_profile(**HASH, terms=FIRST, index={"storage": "vector"})
    assert first.spec_hash == "89ab409296fca6d6ebcbfe594d7685fbbbfddde7f4213a82ea26c856127bad34"
    with psycopg.connect(database.url) as owner:
        spec = {name: value for name, value in first.model_dump(mode="json").items() if name != "terms"}
        del spec["index"]["storage"]
        values = (first.name, Jsonb(spec), first.spec_hash)
        owner.execute("INSERT INTO rag.profile_specs (name, spec, spec_hash) VALUES (%s, %s, %s)", values)
    with database.work() as connection:
        assert get_spec(connection, first.name) == first


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_bug_33_moving_text_between_two_instructions_makes_another_model_key(a: str, b: str, c: str, d: str) -> None:
    one = make_profile(**HASH, task_instruction={"document": a, "query": b})
    other = make_profile(**HASH, task_instruction={"document": c, "query": d})
    assert (one.model_key == other.model_key) is ((a, b) == (c, d))


@pytest.mark.parametrize(
    ("dimensions", "index_type"), [(8, "vector"), (2000, "vector"), (2001, "halfvec"), (3072, "halfvec")]
)
def test_bug_52_a_profile_that_says_nothing_of_storage_has_the_first_that_its_dimensions_allow(
    dimensions: int, index_type: str
) -> None:
    spec = make_profile(**{**HASH, "dimensions": dimensions}).model_dump(mode="json")
    del spec["index"]["storage"]
    assert stored_profile(spec).index_type == first_storage(dimensions) == index_type


@pytest.mark.parametrize("dimensions", [8, 2000, 2001, 4000])
def test_a_new_profile_is_indexed_in_half_the_space(dimensions: int) -> None:
    assert make_profile(**{**HASH, "dimensions": dimensions}).index_type == "halfvec"


@pytest.mark.parametrize(
    ("storage", "dimensions", "text"),
    [
        ("vector", 2001, "index.storage vector: Postgres indexes at most 2000 .* use halfvec or bit"),
        ("bit", 64, "index.storage bit: 64 bits tell too few texts apart; use halfvec"),
        ("nibble", 64, "index: no storage 'nibble'; there are: bit, halfvec, vector"),
    ],
)
def test_a_storage_that_cannot_be_or_finds_nothing_is_refused_with_the_way_out(
    storage: str, dimensions: int, text: str
) -> None:
    with pytest.raises(InvalidProfile, match=text):
        make_profile(**{**HASH, "dimensions": dimensions, "index": {"storage": storage}})


@pytest.mark.parametrize("dimensions", [4001, 4096])
def test_bug_52_more_dimensions_than_postgres_can_index_are_refused(dimensions: int) -> None:
    with pytest.raises(InvalidProfile, match="Postgres cannot index more than 4000 dimensions"):
        make_profile(**{**HASH, "dimensions": dimensions})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"provider": "nope"}, r"unknown embedding provider 'nope': known are wordllama, hash, google"),
        ({"model": "nope"}, r"unknown model 'nope' of provider 'hash': known are hash"),
        ({"dimensions": 7}, r"hash/hash makes vectors of 8 to 4000 dimensions, not 7"),
        (
            {"provider": "wordllama", "model": "l2_supercat_256", "dimensions": 100},
            r"64, 128 or 256 dimensions, not 100",
        ),
        ({"normalized": False}, r"normalized: vectors are always stored at unit length"),
        ({"task_instruction": {"passage": "x"}}, r"task_instruction.passage"),
        ({"lexical": {"language": "klingon"}}, r"lexical: no language"),
        (
            {"index": {"m": 40, "ef_construction": 64}},
            r"index: ef_construction must be at least 2 \* m \(80\)",
        ),
        ({"chunking": {"size": 500, "overlap": 500}}, r"overlap 500 must be at least 0 and less than"),
        ({"index": {"exact_below": -1}}, r"index.exact_below"),
        ({"distance_metrik": "l2"}, r"distance_metrik"),
        ({"dimensions": None}, r"dimensions"),
    ],
)
def test_a_profile_that_cannot_be_built_is_refused_by_name_and_reason(change: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidProfile, match=text) as refused:
        make_profile(**{**HASH, **change})
    assert str(refused.value).startswith("profile 'p': ")


def test_a_name_that_is_no_key_is_refused() -> None:
    with pytest.raises(InvalidKey, match=r"profile key 'a\|b'"):
        make_profile(**{**HASH, "name": "a|b"})


def test_a_profile_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make_profile(**HASH).dimensions = 65


def test_auto_builds_an_index_once_an_exact_scan_takes_five_milliseconds() -> None:
    auto = IndexSpec()
    assert auto.exact_rows(256) == 8544
    assert [auto.builds_hnsw(rows, 256) for rows in (0, 8543, 8544)] == [False, False, True]
    assert auto.exact_rows(1536) < auto.exact_rows(768) < auto.exact_rows(64)
    assert IndexSpec(exact_below=10).builds_hnsw(10, 256)


def test_exact_never_builds_an_index_and_hnsw_always_does() -> None:
    assert not IndexSpec(kind="exact", exact_below=0).builds_hnsw(10**9, 256)
    assert IndexSpec(kind="hnsw").builds_hnsw(0, 256)


def test_the_built_in_profiles_differ_in_model_and_dimensions_alone() -> None:
    assert {name: p.dimensions for name, p in BUILTIN_PROFILES.items()} == {
        "static-64": 64,
        "static-128": 128,
        "static-256": 256,
        "minilm": 384,
    }
    assert {(p.chunking.size, p.chunking.overlap) for p in BUILTIN_PROFILES.values()} == {(1200, 150)}
