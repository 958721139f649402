from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz import broken_promise, outcome
from bench.mutations import mutated
from bench.seeds import SEEDS
from rag_assets.documents.formats import BUILTIN_FORMATS
from rag_assets.documents.isolated import parse_file
from rag_assets.documents.registry import choose, parse, supported_suffixes
from rag_assets.errors import UnsupportedFormat

# These are read from OLE containers, which no text can be the seed of.
_BINARY_ONLY = {"msg", "xls", "legacy-office"}


def damage(inputs: int, seed: int) -> list[str]:
    """Parse damaged files of every kind in another process; what went wrong in any other way than a refusal."""
    randomness = random.Random(seed)
    names = list(SEEDS)
    harm = []
    for number in range(inputs):
        name = names[number % len(names)]
        data = mutated(SEEDS[name], randomness, list(SEEDS.values()))
        result, message = outcome(parse_file(data, name), len(data))
        if message:
            harm.append(f"{result} on input {number} of seed {seed}, from {name}: {message}")
    return harm


def test_there_is_a_seed_of_every_format_and_each_is_read() -> None:
    formats = {choose(data, name).name for name, data in SEEDS.items()}
    assert formats == {known.name for known in BUILTIN_FORMATS} - _BINARY_ONLY
    for name, data in SEEDS.items():
        records = parse(data, name)
        assert {record.status for record in records} == {"ready"}, name
        assert [broken_promise(record) for record in records] == [None] * len(records)


def test_a_damaged_file_is_read_or_refused_and_does_no_harm() -> None:
    assert damage(400, seed=1) == []


@pytest.mark.slow
def test_thousands_of_damaged_files_are_read_or_refused(rounds: int) -> None:
    assert damage(2_000 * rounds, seed=2) == []


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(supported_suffixes()))
def test_any_bytes_under_any_name_are_read_or_refused(data: bytes, suffix: str) -> None:
    assert outcome(parse_file(data, f"a{suffix}"), len(data))[1] == ""


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(exclude_categories=()), max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([".txt", ".md", ".html", ".json", ".jsonl", ".csv", ".xml", ".srt", ".rtf", ".eml"]),
)
def test_any_text_under_the_name_of_a_text_format_is_read_or_refused(data: bytes, suffix: str) -> None:
    assert outcome(parse_file(data, f"a{suffix}"), len(data))[1] == ""


@given(st.binary(max_size=50), st.text(max_size=20), st.none() | st.text(max_size=30))
def test_any_name_and_declared_type_choose_a_format_or_none(data: bytes, name: str, content_type: str | None) -> None:
    with contextlib.suppress(UnsupportedFormat):
        assert choose(data, name, content_type) in BUILTIN_FORMATS
