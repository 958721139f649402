"""Pictures and small PDFs embedded themselves, beside their text."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rag_assets.ingest.plan import Demand, make_plan, price_of
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.sources import profile_lag
from rag_assets.store.tenants import add_tenant
from tests.support.google_server import media_text, unit_vectors
from tests.support.media_world import BOT, PROFILE, TENANT, MediaWorld, media_world, picture, small_pdf
from tests.support.pdf_files import IMAGE_ONLY, pdf

PDF, PNG, JPEG = "application/pdf", "image/png", "image/jpeg"


@pytest.fixture
def world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MediaWorld]:
    with media_world(database, root, monkeypatch) as made:
        yield made


def lag(world: MediaWorld, profile: str = PROFILE.name) -> int:
    """What the profile is said to be behind by."""
    ((built,),) = world.rows("SELECT id FROM rag.embedding_profiles WHERE name = %s", profile)
    with world.database.work(TENANT) as connection:
        return profile_lag(connection, built).sources


def test_a_pdf_of_six_pages_has_one_more_chunk_with_the_vector_of_the_file(world: MediaWorld) -> None:
    data = small_pdf(6)
    world.write(oil_pdf=data)
    report = world.ingest()
    (_, first, none), (name, content, kind) = world.chunks()
    assert (none, name, kind) == (None, "oil.pdf", PDF)
    assert content == first
    ((vector, citation),) = world.rows(
        "SELECT embedding::text, citation FROM rag.knowledge_chunks WHERE metadata ? 'media'"
    )
    found = np.array([float(value) for value in vector.strip("[]").split(",")])
    assert found @ unit_vectors([media_text(data, PDF)], 128)[0] > 0.99999
    assert (citation["page"], citation["page_end"]) == (1, 6)
    ((text,),) = world.rows("SELECT text FROM rag.source_documents")
    assert text[citation["start"] : citation["end"]] == content
    assert (report.embeddings.media, report.embeddings.embedded, world.media_sent()) == (1, 2, 1)


def test_a_pdf_of_seven_pages_has_only_its_text(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(7))
    report = world.ingest()
    assert [kind for _, _, kind in world.chunks()] == [None]
    assert (report.embeddings.media, report.embeddings.failures, world.media_sent()) == (0, [], 0)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [("plan_png", picture(), PNG), ("plan_jpg", picture(kind="JPEG"), JPEG), ("plan_pdf", pdf(IMAGE_ONLY), PDF)],
    ids=["PNG", "JPEG", "PDF"],
)
def test_a_file_without_text_is_found_by_what_it_shows(world: MediaWorld, name: str, data: bytes, kind: str) -> None:
    world.shows(data, kind, "where is the pump")
    world.write(**{name: data}, other_txt=b"Opening hours are from nine to five.")
    report = world.ingest()
    best = world.search("where is the pump")[0]
    assert best.content == best.source_name == name.replace("_", ".")
    assert best.score > 0.999
    assert best.metadata["media"] == kind
    assert (best.citation["start"], best.citation["end"]) == (0, 0)
    assert report.publication.activated == [BOT]
    assert world.states()[best.source_name] == ("no_text", "ready")
    assert lag(world) == 0
    assert [result.source_name for result in world.search_words("plan")] == [best.source_name]


def test_a_picture_with_a_description_has_a_chunk_of_each(world: MediaWorld) -> None:
    data = picture(description="The pump stands behind the boiler")
    world.shows(data, PNG, "where is the pump")
    world.write(plan_png=data)
    world.ingest()
    text = "The pump stands behind the boiler"
    assert world.chunks() == [("plan.png", text, None), ("plan.png", text, PNG)]
    assert world.search("where is the pump")[0].metadata["media"] == PNG


def test_lexical_search_finds_a_passage_once(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(2), plan_png=picture())
    world.ingest()
    assert ["media" in result.metadata for result in world.search_words("valves")] == [False]


def test_a_second_run_sends_and_writes_nothing(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(2), plan_png=picture(), photo_jpg=picture(kind="JPEG"))
    world.ingest()
    sent, usage = len(world.google.embeds), world.usage()
    again = world.ingest()
    assert (len(world.google.embeds), world.usage()) == (sent, usage)
    assert (again.chunks.chunks, again.publication.chunks_written, again.publication.withdrawn) == (0, 0, 0)


def test_what_a_file_costs_is_counted_at_its_own_price(world: MediaWorld) -> None:
    world.write(plan_png=picture(), scan_pdf=pdf(IMAGE_ONLY, IMAGE_ONLY))
    report = world.ingest()
    assert world.usage() == (2, 3 * 258, pytest.approx(3 * 258 * 0.45 / 1e6))
    assert report.embeddings.cost_usd == pytest.approx(3 * 258 * 0.45 / 1e6)


def test_the_same_file_under_two_names_is_paid_for_once(world: MediaWorld) -> None:
    world.write(one_png=picture(), two_png=picture())
    world.ingest()
    assert [name for name, _, _ in world.chunks()] == ["one.png", "two.png"]
    assert world.media_sent() == 1


def test_another_picture_with_the_same_text_takes_the_place_of_the_first(world: MediaWorld) -> None:
    world.write(plan_png=picture(1, "The pump"))
    world.ingest()
    newer = picture(2, "The pump")
    world.shows(newer, PNG, "the newer one")
    world.write(plan_png=newer)
    report = world.ingest()
    assert (report.sources.changed, report.embeddings.embedded, report.embeddings.cache_hits) == (1, 1, 1)
    assert len(world.chunks()) == 2
    assert world.search("the newer one")[0].score > 0.999


def test_another_picture_without_text_takes_the_place_of_the_first(world: MediaWorld) -> None:
    world.write(plan_png=picture(1))
    world.ingest()
    newer = picture(2)
    world.shows(newer, PNG, "the newer one")
    world.write(plan_png=newer)
    world.ingest()
    assert len(world.chunks()) == 1
    assert world.search("the newer one")[0].score > 0.999


def test_a_picture_that_lost_its_text_is_served_without_it(world: MediaWorld) -> None:
    world.write(plan_png=picture(1, "Secret"))
    world.ingest()
    world.write(plan_png=picture(1))
    world.ingest()
    assert world.chunks() == [("plan.png", "plan.png", PNG)]


def test_a_text_that_was_taken_out_is_not_served_on_where_the_file_is_refused(world: MediaWorld) -> None:
    world.write(plan_png=picture(1, "Secret"))
    world.ingest()
    world.write(plan_png=picture(1) + bytes(3_000_000))
    for _ in range(3):
        report = world.ingest()
        assert world.chunks() == []
    assert [failure.name for failure in report.embeddings.failures] == [(world.root / "plan.png").as_uri()]
    assert lag(world) == 0
    assert world.media_sent() == 1


def test_deleted_files_are_withdrawn(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(2), plan_png=picture(), kept_txt=b"Kept.")
    world.ingest()
    (world.root / "oil.pdf").unlink()
    (world.root / "plan.png").unlink()
    report = world.ingest()
    assert report.publication.withdrawn == 2
    assert [name for name, _, _ in world.chunks()] == ["kept.txt"]


def test_a_profile_of_texts_is_as_it_was_without_the_other(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(2), plan_png=picture(), shown_png=picture(1, "The pump"))
    alone = world.ingest("hash-64")
    served = world.chunks("hash-64")
    assert {kind for _, _, kind in served} == {None}
    assert {name for name, _, _ in served} == {"oil.pdf", "shown.png"}
    assert alone.publication.activated == [BOT]
    assert (lag(world, "hash-64"), world.states("hash-64")["plan.png"]) == (0, ("no_text", None))
    world.ingest()
    beside = world.ingest("hash-64")
    assert (beside.chunks.chunks, beside.publication.withdrawn, lag(world, "hash-64")) == (0, 0, 0)
    assert world.chunks("hash-64") == served
    assert len(world.chunks()) == 5


def test_without_a_multimodal_profile_the_same_text_in_another_file_is_no_new_version(world: MediaWorld) -> None:
    world.write(shown_png=picture(1, "The pump"))
    world.ingest("hash-64")
    newer = picture(2, "The pump")
    world.write(shown_png=newer)
    report = world.ingest("hash-64")
    assert (report.sources.unchanged, report.chunks.chunks, lag(world, "hash-64")) == (1, 0, 0)
    world.shows(newer, PNG, "the newer one")
    assert world.ingest().embeddings.media == 1
    assert world.search("the newer one")[0].score > 0.999


def test_a_multimodal_profile_that_is_added_later_reads_no_file_twice(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(2), plan_png=picture())
    world.ingest("hash-64")
    report = world.ingest()
    assert (report.sources.bytes_read, report.embeddings.media) == (0, 2)


def test_files_inside_an_archive_have_only_their_text(world: MediaWorld) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("oil.pdf", small_pdf(1))
        archive.writestr("plan.png", picture())
    world.write(all_zip=target.getvalue())
    report = world.ingest()
    assert [(name, kind) for name, _, kind in world.chunks()] == [("all.zip#oil.pdf", None)]
    assert (report.embeddings.failures, world.media_sent(), lag(world)) == ([], 0, 0)


def test_a_plan_knows_the_files_and_finds_them_paid_for_afterwards(world: MediaWorld) -> None:
    world.write(oil_pdf=small_pdf(3), plan_png=picture(), long_pdf=small_pdf(7))
    before = make_plan(world.database, TENANT, BOT, [], Demand(world.database, TENANT, PROFILE)).work
    assert (before.chunks, before.to_embed, before.media_tokens_to_embed) == (4, 4, 4 * 258)
    price = price_of(world.database, TENANT, PROFILE, before)
    texts = before.tokens_to_embed - 4 * 258
    assert price.sync_usd == pytest.approx(4 * 258 * 0.45e-6 + texts * 0.20e-6)
    assert price.batch_usd == pytest.approx(4 * 258 * 0.45e-6 + texts * 0.10e-6)
    world.ingest("hash-64")
    stored = make_plan(world.database, TENANT, BOT, [], Demand(world.database, TENANT, PROFILE)).work
    assert stored == before
    world.ingest()
    add_tenant(world.database, TENANT, "sales")
    add_root(world.database, TENANT, "sales", str(world.root))
    again = make_plan(world.database, TENANT, "sales", [], Demand(world.database, TENANT, PROFILE)).work
    assert (again.chunks, again.cache_hits, again.to_embed) == (4, 4, 0)
