from __future__ import annotations

from pathlib import Path

from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from tests.support.worlds import ingested, write_files

NOTICE = "<p>We use cookies to make this shop better for you, and you can change that at any time.</p>"


def page(title: str, *paragraphs: str) -> str:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<html><head><title>{title}</title></head><body><main><h1>{title}</h1>{body}</main></body></html>"


WARRANTY = page(
    "Warranty",
    "The warranty of every pump lasts five years from the day of purchase, and covers the motor, the seals and the "
    "pressure switch, but neither filters nor hoses, because these wear out with use.",
    "Send the pump with its receipt to our workshop, where it is repaired or replaced within two weeks.",
)


def found(database: Database, query: str) -> list[str]:
    scope = open_scope(database, "acme", "support")
    return sorted({result.source_name for result in LexicalRetriever(database, copies=True).search(query, scope)})


def again(database: Database) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64")


def test_a_page_that_repeats_another_is_served_by_that_one_alone(database: Database, tmp_path: Path) -> None:
    report = ingested(database, tmp_path, "acme", {"a.html": WARRANTY, "print/a.html": WARRANTY})
    assert (report.chunks.duplicates, report.publication.duplicates) == (1, 1)
    assert found(database, "warranty of every pump") == ["a.html"]
    second = again(database)
    assert (second.chunks.sources, second.chunks.duplicates, second.publication.duplicates) == (0, 0, 0)


def test_bug_32_a_repeated_page_comes_back_when_the_first_one_goes(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path, "acme", {"a.html": WARRANTY, "print/a.html": WARRANTY})
    (tmp_path / "a.html").unlink()
    again(database)
    assert found(database, "warranty of every pump") == ["print/a.html"]


def test_a_repeated_page_comes_back_when_the_first_one_says_something_else(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path, "acme", {"a.html": WARRANTY, "print/a.html": WARRANTY})
    write_files(tmp_path, {"a.html": WARRANTY.replace("five", "10")})
    again(database)
    assert found(database, "warranty of every pump") == ["a.html", "print/a.html"]


def test_a_page_that_changes_into_a_copy_is_not_served_twice(database: Database, tmp_path: Path) -> None:
    other = page(
        "Delivery", "Parcels leave our store at noon on every day but Sunday, and arrive on the day after. " * 2
    )
    ingested(database, tmp_path, "acme", {"a.html": WARRANTY, "b.html": other})
    write_files(tmp_path, {"b.html": WARRANTY})
    again(database)
    assert found(database, "warranty of every pump") == ["a.html"]
    assert found(database, "parcels") == []


def test_a_notice_that_all_pages_carry_is_found_once(database: Database, tmp_path: Path) -> None:
    topics = ["boiler", "filter", "hose", "motor", "nozzle", "piston", "valve"]
    files = {
        f"{topic}.html": page(topic, NOTICE[3:-4], *(f"How to clean the {topic}: step {n} of nine." for n in range(9)))
        for topic in topics
    }
    report = ingested(database, tmp_path, "acme", files)
    assert report.chunks.boilerplate_characters == 6 * (len(NOTICE) - 7)
    assert len(found(database, "cookies")) == 1
    assert found(database, "clean the piston")


def test_copies_in_other_formats_and_of_other_bots_are_left_alone(database: Database, tmp_path: Path) -> None:
    text = "The warranty of every pump lasts five years from the day of purchase and covers all of its many parts. " * 2
    ingested(database, tmp_path / "one", "acme", {"a.md": text, "b.md": text, "a.html": WARRANTY})
    ingested(database, tmp_path / "two", "acme", {"a.html": WARRANTY}, bot="sales")
    assert found(database, "warranty of every pump") == ["a.html", "a.md", "b.md"]
    scope = open_scope(database, "acme", "sales")
    assert len(LexicalRetriever(database).search("warranty of every pump", scope)) > 0


def test_erasing_a_bot_takes_the_signatures_of_its_pages_along(database: Database, tmp_path: Path) -> None:
    ingested(database, tmp_path, "acme", {"a.html": WARRANTY, "print/a.html": WARRANTY})
    report = erase(database, "acme")
    assert report.counts["page_signatures"] == 2
    assert not any(report.remaining.values())
