"""Triples find the place where they are said, and go with it: no sooner, no later, and nobody else's."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import make_profile
from rag_assets.errors import UnknownBot, UsageError
from rag_assets.ingest.forgetting import forget
from rag_assets.ingest.run import ingest
from rag_assets.ingest.triples import import_triples
from rag_assets.retrieval import GraphRetriever, LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.profiles import add_spec
from rag_assets.store.tenants import add_tenant, spaces_of
from rag_assets.store.triples import StoredTriple, list_triples
from tests.support.graph_world import FILES, TRIPLES, imported, triples_file
from tests.support.worlds import ingested, rewrite

TOWN = "In which town is the maker of the Brimble valve?"


@pytest.fixture
def root(database: Database, tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    ingested(database, folder, "acme", FILES)
    return folder


@pytest.fixture
def given(tmp_path: Path) -> Path:
    folder = tmp_path / "given"
    folder.mkdir()
    return folder


def stored(database: Database, tenant: str = "acme") -> list[StoredTriple]:
    with database.work(tenant) as connection:
        return list_triples(connection, spaces_of(connection, tenant, "support")[0])


def reached(database: Database, query: str = TOWN, profile: str | None = None) -> dict[str, str]:
    """By source the chunk that a path leads to."""
    scope = open_scope(database, "acme", "support", profile)
    found = GraphRetriever(LexicalRetriever(database)).search(query, scope, top_k=50)
    return {one.source_name: one.content for one in found if one.path}


def test_a_triple_stands_where_the_text_says_it(database: Database, root: Path, given: Path) -> None:
    text = (
        "The Dorn pump. Wide words lie between.\n\nAlso Ketley & Sons exist. The DORN\npump is sold by Ketley-and Sons."
    )
    rewrite(root / "valve.md", text)
    ingest(database, "acme", "support", "hash-64")
    say = {"subject": "Dorn pump", "predicate": "is sold by", "object": "Ketley", "source": "valve.md"}
    imported(database, given, "acme", [say, {**say, "predicate": "quoted", "quote": "WIDE words  lie"}])
    by_predicate = {one.predicate: one.quote for one in stored(database)}
    assert by_predicate == {"is sold by": "DORN\npump is sold by Ketley", "quoted": "Wide words lie"}


def test_a_triple_is_given_with_the_chunk_in_which_it_is_said(database: Database, root: Path, given: Path) -> None:
    scope = open_scope(database, "acme", "support")
    hit = LexicalRetriever(database).search("Corrin Works founded 1931", scope)[0]
    line = {"subject": "Corrin Works", "predicate": "dates from", "object": "the thirties", "chunk": str(hit.chunk_id)}
    assert imported(database, given, "acme", [line]).errors == []
    assert reached(database, "thirties")["corrin.md"] == hit.content


def test_each_profile_is_led_to_its_own_chunks(database: Database, root: Path, given: Path) -> None:
    small = make_profile(
        name="small", provider="hash", model="hash", dimensions=32, chunking=ChunkingSpec(size=40, overlap=0)
    )
    add_spec(database, small)
    ingest(database, "acme", "support", "small")
    imported(database, given, "acme")
    assert "seat in Harrowfen" in reached(database, profile="small")["corrin.md"]
    assert len(reached(database, profile="small")["corrin.md"]) < len(reached(database)["corrin.md"])


SAID = {"subject": "s", "predicate": "p", "object": "o", "source": "valve.md"}
NOWHERE = "8d9e5a7c-1111-4222-8333-444455556666"
BAD_LINES: tuple[tuple[str | dict[str, Any], str], ...] = (
    ("{", "no object of JSON"),
    ("[1]", "no object of JSON"),
    ({**SAID, "subject": None}, "subject is missing"),
    ({**SAID, "subject": " "}, "subject is missing"),
    ({**SAID, "subject": 7}, "subject must be a text"),
    ({**SAID, "subject": "a\x00b"}, "no text may hold"),
    ({**SAID, "subject": "a\ud800"}, "no text may hold"),
    ({**SAID, "subject": "s" * 501}, "longer than 500"),
    ({**SAID, "source": None}, "source is missing"),
    ({**SAID, "source": "valvo.md"}, "did you mean 'valve.md'"),
    ({**SAID, "confidence": 0}, "confidence must be"),
    ({**SAID, "confidence": "high"}, "confidence must be"),
    ({**SAID, "confidense": 1}, "confidense: known are"),
    ({**SAID, "subject": "Zorp", "object": "Zarp"}, "'Zorp' and 'Zarp' stand nowhere in source 'valve.md'"),
    ({**SAID, "quote": "no such words"}, "the quote stands nowhere"),
    ({**SAID, "chunk": "7"}, "chunk must be"),
    ({**SAID, "chunk": NOWHERE}, "has no chunk"),
)


def test_a_line_that_is_wrong_is_told_with_its_number_and_stops_nothing(
    database: Database, root: Path, given: Path
) -> None:
    path = triples_file(given, [])
    lines: list[str] = []
    for line, _ in BAD_LINES:
        lines += [line if isinstance(line, str) else json.dumps(line), ""]
    good = [json.dumps(one) for one in TRIPLES]
    path.write_text("\n".join([*good[:2], *lines, *good[2:]]) + "\n", encoding="utf-8")
    report = import_triples(database, "acme", "support", path)
    assert report.written == len(stored(database)) == len(TRIPLES)
    assert report.lines == len(TRIPLES) + len(BAD_LINES)
    assert [number for number, _ in report.errors] == list(range(3, 3 + 2 * len(BAD_LINES), 2))
    for (_, told), (line, expected) in zip(report.errors, BAD_LINES, strict=True):
        assert expected in told, line


@pytest.mark.parametrize(("name", "delimiter"), [("t.csv", ","), ("t.tsv", "\t")])
def test_tables_are_read_by_their_header(
    database: Database, root: Path, given: Path, name: str, delimiter: str
) -> None:
    rows = [
        ["Object", "subject", "predicate", "source", "confidence"],
        ["Corrin Works", '"Brimble valve"', '"is made\nby"' if delimiter == "," else "is made by", "valve.md", "0.5"],
        ["one cell"],
        ["Harrowfen", "Corrin Works", "has its seat in", "corrin.md", ""],
    ]
    path = given / name
    path.write_text("\ufeff" + "\n".join(delimiter.join(row) for row in rows), encoding="utf-8")
    report = import_triples(database, "acme", "support", path)
    assert [number for number, _ in report.errors] == [4 if delimiter == "," else 3]
    assert [(one.subject, one.predicate, one.confidence) for one in stored(database)] == [
        ("Corrin Works", "has its seat in", 1.0), ("Brimble valve", "is made by", 0.5),
    ]  # fmt: skip
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(UsageError, match="must name the columns; subject, predicate, object"):
        import_triples(database, "acme", "support", path)


def test_the_same_file_twice_is_the_same_as_once(database: Database, root: Path, given: Path) -> None:
    assert imported(database, given, "acme").written == len(TRIPLES)
    again = imported(database, given, "acme", [*TRIPLES, {**TRIPLES[0], "subject": "BRIMBLE   Valve"}])
    assert (again.written, again.unchanged) == (0, len(TRIPLES) + 1)
    assert imported(database, given, "acme", [{**TRIPLES[0], "confidence": 0.4}]).written == 1
    assert len(stored(database)) == len(TRIPLES)


def test_the_planner_knows_the_triples_that_were_imported(database: Database, root: Path, given: Path) -> None:
    imported(database, given, "acme")
    with database.session("owner") as connection:
        found = connection.execute("SELECT reltuples FROM pg_class WHERE oid = 'rag.triples'::regclass").fetchone()
    assert found == (len(TRIPLES),)


def test_a_dry_run_says_what_would_be_taken_and_takes_nothing(database: Database, root: Path, given: Path) -> None:
    report = import_triples(database, "acme", "support", triples_file(given, TRIPLES), dry_run=True)
    assert (report.written, report.errors, stored(database)) == (len(TRIPLES), [], [])


def test_a_bot_that_knows_nothing_is_told_what_to_do(database: Database, given: Path) -> None:
    add_tenant(database, "acme", "support")
    with pytest.raises(UsageError, match="knows nothing yet that triples could stand in"):
        imported(database, given, "acme")
    with pytest.raises(UnknownBot):
        imported(database, given, "acme", bot="other")


def subjects(database: Database) -> set[str]:
    return {one.subject for one in stored(database)}


def test_a_changed_source_retracts_its_own_triples_with_its_publication_and_no_others(
    database: Database, root: Path, given: Path
) -> None:
    imported(database, given, "acme")
    rewrite(root / "corrin.md", "# Corrin Works\n\nCorrin Works moved to Pell. Harrowfen is no more its seat.\n")
    assert "corrin.md" in reached(database), "what is served is served with its triples"
    ingest(database, "acme", "support", "hash-64")
    assert "corrin.md" not in reached(database)
    assert sorted(one.source for one in stored(database)) == ["harrowfen.md", "harrowfen.md", "valve.md"]
    assert "valve.md" in reached(database)
    moved = {"subject": "Corrin Works", "predicate": "moved to", "object": "Pell", "source": "corrin.md"}
    imported(database, given, "acme", [moved])
    assert "Pell" in reached(database)["corrin.md"]


def test_a_version_that_cannot_be_published_leaves_the_triples_of_the_one_before(
    database: Database, root: Path, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(database, given, "acme")
    rewrite(root / "corrin.md", "# Corrin Works\n\nCorrin Works moved to Pell.\n")
    with monkeypatch.context() as patched:
        patched.setattr("rag_assets.ingest.chunks.cut_source", broken_cut)
        ingest(database, "acme", "support", "hash-64")
    assert "seat in Harrowfen" in reached(database)["corrin.md"]
    shown = {one.subject: one.up_to_date for one in stored(database)}
    assert shown == {"Brimble valve": True, "Corrin Works": False, "Harrowfen": True}


def broken_cut(source: Any, *_: Any) -> Any:
    from rag_assets.ingest.chunks import CutSource

    return CutSource(source, error="cannot be chunked: out of ink")


def test_an_unchanged_ingest_keeps_all_triples(database: Database, root: Path, given: Path) -> None:
    imported(database, given, "acme")
    before = stored(database)
    (root / "new.md").write_text("Something else altogether, about hoses.")
    ingest(database, "acme", "support", "hash-64")
    assert [one.id for one in stored(database)] == [one.id for one in before]


def test_a_deleted_source_takes_its_triples_along(database: Database, root: Path, given: Path) -> None:
    imported(database, given, "acme")
    (root / "corrin.md").unlink()
    ingest(database, "acme", "support", "hash-64")
    assert subjects(database) == {"Brimble valve", "Harrowfen"}
    assert "corrin.md" not in reached(database)


def test_a_forgotten_source_takes_its_triples_along(database: Database, root: Path, given: Path) -> None:
    imported(database, given, "acme")
    gone = next(one.source_id for one in stored(database) if one.source == "corrin.md")
    forget(database, "acme", "support", [gone])
    assert subjects(database) == {"Brimble valve", "Harrowfen"}


@pytest.mark.parametrize("bot", [None, "support"])
def test_an_erasure_leaves_no_triple(database: Database, root: Path, given: Path, bot: str | None) -> None:
    imported(database, given, "acme")
    report = erase(database, "acme", bot)
    assert report.counts["triples"] == len(TRIPLES)
    assert report.remaining["triples"] == 0


def test_no_search_sees_a_path_over_two_versions(database: Database, root: Path, given: Path) -> None:
    """While a source is published again and again, a path says what the chunk says that it leads to."""
    towns = ("Harrowfen", "Pellbridge")
    for town in towns:
        rewrite(root / "corrin.md", text_of(town))
        ingest(database, "acme", "support", "hash-64")
    imported(database, given, "acme", [TRIPLES[0]])
    done = threading.Event()

    def publish() -> None:
        try:
            for turn in range(6):
                town = towns[turn % 2]
                rewrite(root / "corrin.md", text_of(town))
                ingest(database, "acme", "support", "hash-64")
                line = {"subject": "Corrin Works", "predicate": "sits in", "object": town, "source": "corrin.md"}
                imported(database, given, "acme", [line])
        finally:
            done.set()

    worker = threading.Thread(target=publish)
    worker.start()
    retriever = GraphRetriever(LexicalRetriever(database))
    scope = open_scope(database, "acme", "support")
    seen: set[str] = set()
    while not done.is_set():
        for one in retriever.search(TOWN, scope, top_k=20):
            if one.source_name == "corrin.md" and one.path:
                last: Mapping[str, Any] = one.path[-1]
                if last["predicate"] == "sits in":
                    assert last["object"] in one.content
                    seen.add(str(last["object"]))
    worker.join()
    assert seen, "paths were met while it was published"


def text_of(town: str) -> str:
    return f"# Corrin Works\n\nCorrin Works makes valves and sits in {town}.\n"
