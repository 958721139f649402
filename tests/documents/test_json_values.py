"""Several JSON values in one file: what `jq`, logs, paged downloads and joined files look like."""

from __future__ import annotations

import json
import time

import pytest

from rag_assets.documents.registry import parse

ONE, TWO = {"id": "1", "text": "Bolt [big], {new}"}, {"id": "2", "text": 'Nut, "small"'}
WIDE = [json.dumps(value, indent=2) for value in (ONE, TWO)]
FLAT = [json.dumps(value) for value in (ONE, TWO)]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(
    "text",
    [
        "\n".join(FLAT),
        "".join(FLAT),
        " ".join(FLAT),
        "\r\n\r\n".join(WIDE),
        ",\n".join(WIDE) + ",\n",
        "".join(f"\x1e{value}\n" for value in WIDE),
        "\ufeff".join(f"{value}\n" for value in FLAT),
        "\ufeff".join(["", *WIDE]),
    ],
    ids=["lines", "joined", "spaces", "indented", "commas", "sequence", "marks", "indented with marks"],
)
def test_objects_one_after_the_other_are_records(text: str, name: str) -> None:
    first, second = parse(text.encode(), name)
    assert first.document is not None
    assert second.document is not None
    assert [(first.key, first.document.text), (second.key, second.document.text)] == [
        (ONE["id"], ONE["text"]),
        (TWO["id"], TWO["text"]),
    ]


def test_pages_of_a_list_are_one_list() -> None:
    text = f"[{FLAT[0]}]\n[{FLAT[1]}, {json.dumps({'id': '3', 'text': 'Nail'})}]"
    assert [(record.key, record.status) for record in parse(text.encode(), "a.json")] == [
        ("1", "ready"),
        ("2", "ready"),
        ("3", "ready"),
    ]


@pytest.mark.parametrize("text", ['1 "two" [3]', '{"a": 1}\n"Note: 2"', "[1, 2]\n[3]", '"one"'])
def test_other_values_are_one_text(text: str) -> None:
    (record,) = parse(text.encode(), "a.json")
    assert record.document is not None
    assert record.document.text == text


def test_what_is_broken_behind_good_objects_fails_alone() -> None:
    good, broken = parse(f'{WIDE[0]}\n{{"id": "2", "text": "Nu'.encode(), "a.json")
    assert (good.key, good.status) == ("1", "ready")
    assert (broken.key, broken.status) == ("2", "failed")
    assert "item 2" in (broken.error or "")


@pytest.mark.parametrize("text", ['{"a": ', '[{"a": 1}', "[1] x", "12abc", "{'a': 1}", '[{"a": 1}]]', "nothing"])
def test_what_is_no_json_fails_whole(text: str) -> None:
    (record,) = parse(text.encode(), "a.json")
    assert record.status == "failed"
    assert "not valid JSON" in (record.error or "")


def test_very_many_values_take_little_time() -> None:
    began = time.process_time()
    assert len(parse("\n".join(f'{{"id": {number}}}' for number in range(20_000)).encode(), "a.json")) == 20_000
    assert len(parse(b"[] " * 100_000, "a.json")) == 1
    assert time.process_time() - began < 20
