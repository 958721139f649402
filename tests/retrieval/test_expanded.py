"""Passages with what stands around them: the source's own text, nothing twice, and nothing of what others own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from rag_assets.documents.isolated import parse_file
from rag_assets.documents.words import count_tokens
from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import InvalidArgument
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import (
    DenseRetriever,
    DualRetriever,
    ExpandedRetriever,
    HybridRetriever,
    LexicalRetriever,
    TimedRetriever,
    open_scope,
)
from rag_assets.retrieval.expanded import Surroundings, _Tokens
from rag_assets.retrieval.files import load_retriever
from rag_assets.retrieval.protocol import SteppedRetriever
from rag_assets.retrieval.results import Retrieval
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from tests.support.passages import TIMINGS, Search, awaited, blocking
from tests.support.pdf_files import pdf, prints
from tests.support.worlds import HASH_PROFILE, ingested

faces = pytest.mark.parametrize("search", [blocking, awaited])
OTHER = make_profile(
    name="long",
    provider="hash",
    model="hash",
    dimensions=32,
    chunking=HASH_PROFILE.chunking.model_copy(update={"size": 700}),
)
_WORDS = [
    "pump",
    "valve",
    "door",
    "cellar",
    "week",
    "check",
    "seal",
    "motor",
    "cable",
    "light",
    "water",
    "steam",
    "gauge",
]


def _manual(number: int) -> str:
    """Sections of several chunks each, two of them with the same heading."""
    words = random.Random(number)
    parts = [f"# Manual {number}\n\nAbout machine{number}."]
    for section in ("Start", "Note", "Care", "Note"):
        paragraphs = [" ".join(words.choices(_WORDS, k=30)) + "." for _ in range(4)]
        parts.append(f"## {section}\n\n" + "\n\n".join(f"The {section.lower()} part: {one}" for one in paragraphs))
    return "\n\n".join(parts) + "\n"


FILES = {f"manual{n}.md": _manual(n) for n in range(4)} | {
    "flat.txt": "\n\n".join(f"Line {n} of the log says that all is well in room {n}." for n in range(60))
}
QUERIES = ["the care part pump valve", "note seal motor", "start water steam", "log room 31", "machine2 gauge"]


@pytest.fixture(scope="module")
def world(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = new_database()
    add_spec(database, OTHER)
    for tenant in ("acme", "globex"):
        ingested(database, tmp_path_factory.mktemp(tenant), tenant, FILES)
    ingest(database, "acme", "support", OTHER.name)
    yield database
    database.close()


@cache
def text_of(name: str) -> str:
    (record,) = parse_file(FILES[name].encode(), name)
    assert record.document is not None
    return record.document.text


class Given(SteppedRetriever):
    """A retriever with a database, that says what it is told to say."""

    def __init__(self, database: Database, results: Any) -> None:
        super().__init__(database)
        self.results = tuple(results)

    def steps(self, query: str, scope: Any, top_k: int = 8, filters: Any = None) -> Any:
        return Retrieval(self.results[:top_k], TIMINGS)
        yield


SETTINGS: list[dict[str, Any]] = [
    {"section": True},
    {"section": True, "max_tokens": 60},
    {"section": True, "max_tokens": 5},
    {"neighbours": 1},
    {"neighbours": 3, "max_tokens": 120},
    {"neighbours": 20, "max_tokens": 20_000},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("query", QUERIES)
@faces
def test_what_is_shown_is_the_sources_text_within_its_bounds_and_nothing_twice(
    world: Database, search: Search, settings: dict[str, Any], query: str
) -> None:
    scope = open_scope(world, "acme", "support")
    plain = HybridRetriever(world).search(query, scope, 16)
    found = search(ExpandedRetriever(HybridRetriever(world), **settings), query, scope)
    assert found.degraded is None
    assert 1 <= len(found) <= 8
    shown: dict[str, list[tuple[int, int]]] = {}
    for one in found:
        start, end = one.citation["start"], one.citation["end"]
        assert text_of(one.source_name)[start:end] == one.content
        assert one.token_count == count_tokens(one.content)
        intervals = shown.setdefault(one.source_name, [])
        assert all(end <= first or last <= start for first, last in intervals), "something is shown twice"
        intervals.append((start, end))
        own = next(other for other in plain if other.chunk_id == one.chunk_id)
        assert (one.score, one.citation["version"]) == (own.score, own.citation["version"])
        assert one.token_count <= max(settings.get("max_tokens", 800), own.token_count)
    assert found[0].content.find(plain[0].content.strip()) >= 0
    places = [next(n for n, other in enumerate(plain) if other.chunk_id == one.chunk_id) for one in found]
    assert places == sorted(places)
    told = found.trace[-1]
    assert told["stage"] == "expanded"
    assert found.timings_ms["expand"] <= found.timings_ms["total"]
    if len(found) < 8:  # nothing that was found is lost
        for other in plain:
            start, end = other.citation["start"], other.citation["end"]
            covered = sorted(shown.get(other.source_name, []))
            lost = [c for c in range(start, end) if not any(first <= c < last for first, last in covered)]
            assert not "".join(text_of(other.source_name)[c] for c in lost).strip()


def test_a_section_goes_from_its_heading_to_the_next_and_another_of_the_same_name_is_not_it(world: Database) -> None:
    scope = open_scope(world, "acme", "support")
    text = text_of("manual1.md")
    plain = LexicalRetriever(world).search("note part", scope, 50)
    notes = [one for one in plain if one.source_name == "manual1.md" and one.citation["heading"].endswith("Note")]
    second = text.rindex("## Note")
    for notes_of, start, end in [
        ([one for one in notes if one.citation["start"] < second], text.index("## Note"), text.index("## Care")),
        ([one for one in notes if one.citation["start"] >= second], second, len(text)),
    ]:
        assert len(notes_of) > 1
        for one in notes_of:
            (shown,) = ExpandedRetriever(Given(world, [one]), section=True).search("q", scope)
            assert shown.content == text[start:end].strip()
        (merged,) = ExpandedRetriever(Given(world, notes_of), section=True).search("q", scope)
        assert (merged.content, merged.score) == (text[start:end].strip(), notes_of[0].score)
        assert merged.chunk_id == notes_of[0].chunk_id


def test_neighbours_are_the_chunks_before_and_after(world: Database) -> None:
    scope = open_scope(world, "acme", "support")
    chunks = [one for one in LexicalRetriever(world).search("log room", scope, 60) if one.source_name == "flat.txt"]
    chunks.sort(key=lambda one: one.citation["start"])
    assert len(chunks) > 6
    for place in (0, 3, len(chunks) - 1):
        (shown,) = ExpandedRetriever(Given(world, [chunks[place]]), neighbours=2).search("q", scope)
        first, last = chunks[max(0, place - 2)], chunks[min(len(chunks) - 1, place + 2)]
        assert (shown.citation["start"], shown.citation["end"]) == (first.citation["start"], last.citation["end"])


@faces
def test_passages_of_another_profile_are_expanded_as_well(world: Database, search: Search) -> None:
    dual = DualRetriever(LexicalRetriever(world), DenseRetriever(world), secondary_profile=OTHER.name)
    for settings in ({"section": True}, {"neighbours": 1}):
        found = search(ExpandedRetriever(dual, **settings), QUERIES[0], open_scope(world, "acme", "support"))
        assert found.trace[-1]["expanded"] > 0
        assert {one.index for one in found} > {"secondary"} or len({one.index for one in found}) == 1
        for one in found:
            assert text_of(one.source_name)[one.citation["start"] : one.citation["end"]] == one.content


@faces
def test_nothing_is_read_of_sources_that_the_scope_may_not_see(world: Database, search: Search) -> None:
    theirs = list(HybridRetriever(world).search(QUERIES[0], open_scope(world, "globex", "support")))
    for settings in SETTINGS:
        found = search(ExpandedRetriever(Given(world, theirs), **settings), "q", open_scope(world, "acme", "support"))
        assert list(found) == theirs
        assert found.trace[-1]["expanded"] == 0


@faces
def test_of_what_became_private_nothing_more_is_shown(database: Database, tmp_path: Path, search: Search) -> None:
    ingested(database, tmp_path / "acme", "acme", {"manual.md": FILES["manual1.md"]})
    scope = open_scope(database, "acme", "support")
    found = list(HybridRetriever(database).search(QUERIES[0], scope))
    with database.connect() as connection:
        connection.execute("UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann'")
    for settings in ({"section": True}, {"neighbours": 2}):
        expanded = ExpandedRetriever(Given(database, found), **settings)
        assert list(search(expanded, "q", scope)) == found
        own = search(expanded, "q", open_scope(database, "acme", "support", user_id="ann"))
        assert own.trace[-1]["expanded"] > 0


@faces
def test_what_cannot_be_read_stays_as_it_was_found(world: Database, search: Search) -> None:
    scope = open_scope(world, "acme", "support")
    found = list(HybridRetriever(world).search(QUERIES[0], scope))
    elsewhere = Database("postgresql://nobody@127.0.0.1:1/none")
    answer = search(ExpandedRetriever(Given(elsewhere, found), section=True), "q", scope)
    assert list(answer) == found
    assert answer.degraded is not None
    assert answer.degraded.startswith("not expanded (")


def test_results_without_a_place_in_a_text_stay_as_they_are(world: Database) -> None:
    scope = open_scope(world, "acme", "support")
    (one,) = list(HybridRetriever(world).search(QUERIES[0], scope, 1))
    strange = [
        replace(one, citation={}),
        replace(one, citation={**one.citation, "start": "0"}),
        replace(one, citation={**one.citation, "end": 2**40}),
        replace(one, citation={**one.citation, "version": "gone"}),
        replace(one, content="a picture of a pump"),
    ]
    for settings in ({"section": True}, {"neighbours": 2}):
        assert list(ExpandedRetriever(Given(world, strange), **settings).search("q", scope)) == strange


def test_pages_are_those_of_what_is_shown(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    words = random.Random(7)
    pages = [
        prints(
            *((f"In number{n} the {' '.join(words.choices(_WORDS, k=4))}.", 12, 230 - 16 * line) for line in range(9))
        )
        for n in range(1, 6)
    ]
    (folder / "rooms.pdf").write_bytes(pdf(*pages))
    ingested(database, folder, "acme", {})
    scope = open_scope(database, "acme", "support")
    hits = LexicalRetriever(database).search("number3", scope, 20)
    hit = next(one for one in hits if one.citation["page"] == 3)
    for settings in ({"neighbours": 3}, {"section": True}):
        (shown,) = ExpandedRetriever(Given(database, [hit]), **settings).search("q", scope)
        assert shown.citation["page"] < 3
        assert shown.citation["page_end"] > 3
        told = {number for number in range(1, 6) if f"number{number}" in shown.content}
        assert told == set(range(shown.citation["page"], shown.citation["page_end"] + 1))


def test_threads_share_one_and_a_file_makes_it(world: Database, tmp_path: Path) -> None:
    path = tmp_path / "expanded.toml"
    path.write_text('kind = "expanded"\nsection = true\nmax_tokens = 300\n[retriever]\nkind = "diverse"\n'
                    '[retriever.retriever]\nkind = "hybrid"\n')  # fmt: skip
    retriever = load_retriever(world, path)
    scope = open_scope(world, "acme", "support")
    expected = [list(retriever.search(query, scope)) for query in QUERIES]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: list(retriever.search(QUERIES[n % 5], scope)), range(20))) == expected * 4


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("neighbours", {}), ("neighbours", {"section": True, "neighbours": 1}), ("neighbours", {"section": 1}),
        ("neighbours", {"neighbours": 0}), ("neighbours", {"neighbours": 21}),
        ("max_tokens", {"section": True, "max_tokens": 0}), ("max_tokens", {"section": True, "max_tokens": 10**6}),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_by_name(world: Database, argument: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as error:
        ExpandedRetriever(HybridRetriever(world), **settings)
    assert error.value.argument == argument


PARTS = 5_000  # of a large source


@pytest.fixture(scope="module")
def large(world: Database) -> Iterator[list[Any]]:
    """Passages all over a text of many small blocks in one section, and of as many chunks, each of a line."""
    lines = [f"- part {number} of the plant, 部分 {'é' * (number % 7)}" for number in range(PARTS)]
    text = "\n".join(lines)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))[:-1]
    places = [(start, start + len(line)) for start, line in zip(starts, lines, strict=True)]
    blocks = [{"kind": "list", "start": start, "end": end, "heading_path": ["Plant"]} for start, end in places]
    known = LexicalRetriever(world).search("log room", open_scope(world, "acme", "support"), 1)[0]
    with world.connect() as connection:
        connection.execute("INSERT INTO rag.source_documents SELECT (jsonb_populate_record(d, %s)).* "
                           "FROM rag.source_documents d WHERE source_id = %s",
                           [Jsonb({"checksum": "large", "text": text, "blocks": blocks}), known.source_id])  # fmt: skip
        connection.execute(
            "INSERT INTO rag.knowledge_chunks SELECT (jsonb_populate_record(c, jsonb_build_object("
            "'id', gen_random_uuid(), 'chunk_index', n - 1, 'citation', jsonb_build_object("
            "'version', 'large', 'start', s, 'end', e)))).* FROM rag.knowledge_chunks c "
            "CROSS JOIN unnest(%s::int[], %s::int[]) WITH ORDINALITY AS p (s, e, n) WHERE c.id = %s",
            [[start for start, _ in places], [end for _, end in places], known.chunk_id],
        )
        connection.commit()
    chosen = random.Random(5).sample(range(PARTS), 1000)
    found = [(n, places[n], lines[n]) for n in chosen]
    yield [replace(known, content=line, citation={**known.citation, "version": "large", "start": s, "end": e},
                   chunk_id=UUID(int=n)) for n, (s, e), line in found]  # fmt: skip
    with world.connect() as connection:
        connection.execute("DELETE FROM rag.knowledge_chunks WHERE citation ->> 'version' = 'large'")
        connection.execute("DELETE FROM rag.source_documents WHERE checksum = 'large'")
        connection.commit()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"section": True, "max_tokens": 20_000}, {"section": True}, {"neighbours": 2}])
def test_of_a_large_source_each_part_is_looked_at_once_however_many_passages_it_has(
    world: Database, large: list[Any], settings: dict[str, Any]
) -> None:
    text = "\n".join(f"- part {number} of the plant, 部分 {'é' * (number % 7)}" for number in range(PARTS))
    scope = open_scope(world, "acme", "support")
    ask = ExpandedRetriever(TimedRetriever(Given(world, large), 1), **settings)
    found = TimedRetriever(ask, 60).search("q", scope, 500)  # gone through for each passage, it took minutes
    assert found.degraded is None
    assert found.trace[-1]["expanded"] > 0
    shown = [(one.citation["start"], one.citation["end"]) for one in found]
    assert all(text[start:end] == one.content for (start, end), one in zip(shown, found, strict=True))
    for (_, end), (start, _) in pairwise(sorted(shown)):
        assert end <= start
    if "neighbours" in settings:
        first = found[0].content.splitlines()
        assert first == text.splitlines()[found[0].chunk_id.int - 2 : found[0].chunk_id.int + 3]


@pytest.mark.parametrize("text", ["a b\tc", "word-word … 部分 x_1é!", "\n\n", "", "éé éé", "x" * 50])
def test_words_are_counted_between_two_places_as_in_a_text_of_their_own(text: str) -> None:
    counted = _Tokens(Surroundings(7, text, [], [], [], []))
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            assert counted.within(7 + start, 7 + end) == count_tokens(text[start:end])
