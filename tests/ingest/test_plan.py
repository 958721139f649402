"""A plan says what the ingest then does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.ingest.plan import Demand, Plan, make_plan
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.pdf_files import pdf, says
from tests.support.worlds import HASH_PROFILE, rewrite, write_files

TENANT, BOT = "acme", "support"
ALL_PAGES = make_profile(
    name="all-pages",
    provider="hash",
    model="hash",
    dimensions=64,
    chunking=ChunkingSpec(size=300, overlap=30, distinct_pages=False),
)
TOPICS = ["boiler", "filter", "hose", "motor", "nozzle", "piston", "valve"]
FOOTER = "This shop is open on every day but Sunday from nine to five, and on the telephone until eight."


def page(title: str, body: str, footer: str = FOOTER) -> str:
    body = "".join(f"<p>{line}</p>" for line in body.splitlines())
    return f"<html><title>{title}</title><body><main><h1>{title}</h1>{body}<p>{footer}</p></main></body></html>"


def manual(topic: str) -> str:
    return page(
        topic, "\n".join(f"How to clean the {topic} in nine steps, of which this is step {n}." for n in range(9))
    )


@pytest.fixture
def site(root: Path) -> Path:
    """Seven pages with one footer, copies of three of them, a page of few words, and a text."""
    files = {f"{topic}.html": manual(topic) for topic in TOPICS}
    files |= {f"print/{topic}.html": manual(topic) for topic in TOPICS[:3]}
    return write_files(
        root, files | {"note.txt": "Pumps are oiled in May.", "short.html": page("Short", "Say no more.", "")}
    )


@pytest.fixture(params=[HASH_PROFILE, ALL_PAGES], ids=lambda profile: profile.name)
def profile(database: Database, request: pytest.FixtureRequest) -> Iterator[EmbeddingProfile]:
    add_spec(database, request.param)
    return request.param


def planned(database: Database, profile: EmbeddingProfile, *given: Path) -> Plan:
    return make_plan(database, TENANT, BOT, [str(path) for path in given], Demand(database, TENANT, profile))


def as_planned(plan: Plan, report: IngestReport) -> None:
    """The plan is exact, and what it says is what was done."""
    work, chunks, embeddings = plan.work, report.chunks, report.embeddings
    assert plan.exact
    assert (work.sources, work.chunks) == (chunks.sources, chunks.chunks)
    assert (work.to_embed, work.cache_hits) == (embeddings.embedded, embeddings.cache_hits)
    assert work.tokens_to_embed == embeddings.tokens


def test_repeated_pages_and_footers_are_planned_as_they_are_ingested(
    database: Database, site: Path, profile: EmbeddingProfile
) -> None:
    before = planned(database, profile, site)  # of a bot that does not exist yet
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(site))
    plan = planned(database, profile)
    assert before == plan
    report = ingest(database, TENANT, BOT, profile.name)
    as_planned(plan, report)
    assert (report.chunks.duplicates, report.chunks.sources) == ((3, 9) if profile is HASH_PROFILE else (0, 12))
    assert planned(database, profile).work.chunks == 0


def test_a_profile_that_is_built_later_is_planned_from_what_is_stored(database: Database, site: Path) -> None:
    add_spec(database, ALL_PAGES)
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(site))
    ingest(database, TENANT, BOT, ALL_PAGES.name)
    plan = planned(database, HASH_PROFILE)
    report = ingest(database, TENANT, BOT, HASH_PROFILE.name)
    as_planned(plan, report)
    assert report.chunks.duplicates == 3


def test_changed_pages_are_planned_beside_those_that_stay(
    database: Database, site: Path, profile: EmbeddingProfile
) -> None:
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(site))
    ingest(database, TENANT, BOT, profile.name)
    (site / "boiler.html").unlink()  # what is repeated comes back,
    rewrite(site / "filter.html", manual("filter").replace("nine", "10"))  # here too;
    rewrite(site / "valve.html", manual("piston"))  # another one becomes a copy;
    rewrite(site / "hose.html", manual("hose"))  # only the time is another;
    rewrite(site / "nozzle.html", manual("nozzle").replace("<title>nozzle", "<title>Nozzles"))
    rewrite(site / "note.txt", "")  # no text any more
    write_files(site, {"pump.html": manual("pump"), "print/pump.html": manual("pump"), "broken.pdf": "%PDF-1.7"})
    plan = planned(database, profile)
    assert (plan.new, plan.changed, plan.gone) == (3, 4, 1)
    as_planned(plan, ingest(database, TENANT, BOT, profile.name))


def test_what_fails_now_stays_pending_in_the_version_before(database: Database, site: Path) -> None:
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(site))
    add_spec(database, ALL_PAGES)
    (site / "oil.pdf").write_bytes(pdf(says("Oil the valve twice a year.")))
    ingest(database, TENANT, BOT, ALL_PAGES.name)
    rewrite(site / "oil.pdf", b"%PDF-1.7 and then nothing")
    plan = planned(database, HASH_PROFILE)
    assert [name for name, _ in plan.unreadable] == ["oil.pdf"]
    report = ingest(database, TENANT, BOT, HASH_PROFILE.name)
    as_planned(plan, report)
    assert (report.sources.failed, report.chunks.sources) == (1, 10)


def test_a_plan_writes_nothing(database: Database, site: Path) -> None:
    add_tenant(database, TENANT, BOT)
    add_root(database, TENANT, BOT, str(site))
    planned(database, HASH_PROFILE)
    with database.work(TENANT) as connection:
        for table in ("knowledge_sources", "source_files", "page_signatures", "embedding_profiles"):
            assert connection.execute(f"SELECT count(*) FROM rag.{table}").fetchone() == (0,)
