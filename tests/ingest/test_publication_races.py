"""Several at once: publishers of the same sources, changes in between, and a reader who must never see a mix."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.chunk_files import ChunkFile
from rag_assets.ingest.embeddings import vectors_of, with_vectors
from rag_assets.ingest.pairs import enable_pair, enabled_profiles
from rag_assets.ingest.publication import publish_chunks
from rag_assets.ingest.run import ingest
from rag_assets.ingest.sources import sync_sources
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.publication import Published, Publisher, StagedChunk, StagedVersion
from rag_assets.store.search import SearchRequest, search_chunks
from rag_assets.store.sources import sources_overview
from tests.support.corpora import Corpus, chunk_id
from tests.support.stages import cut, embedded, kept
from tests.support.worlds import ingested, rewrite

VECTOR = np.eye(8, dtype=np.float32)[0]


@pytest.fixture
def corpus(database: Database) -> Corpus:
    return Corpus(database, make_profile(name="races", provider="hash", model="hash", dimensions=8))


def version(corpus: Corpus, source: str, mark: str, count: int) -> StagedVersion:
    """A version of a source in which every chunk says which version it is, and how many there are."""
    source_id = corpus.add_source(source)
    texts = [f"pump {source} {mark} of {count}, {n}" for n in range(count)]
    return StagedVersion(
        source_id,
        "v",
        [StagedChunk(chunk_id(source_id, n, t), n, t, 4, "{}", "{}", VECTOR) for n, t in enumerate(texts)],
    )


def assert_whole(contents: Sequence[str]) -> None:
    """All chunks of one source are of one version, and all of them are there."""
    (version_,) = {content.rpartition(",")[0] for content in contents}
    assert len(contents) == len(set(contents)) == int(version_.rpartition(" ")[2])


@pytest.mark.slow
def test_two_publishers_of_overlapping_sources_end_with_one_whole_version_each(corpus: Corpus) -> None:
    names = [f"s{n}" for n in range(6)]
    for name in names:
        corpus.add_source(name)

    def publish(worker: int) -> list[Published]:
        draw = random.Random(worker)
        done = []
        publisher = Publisher(corpus.database, corpus.built)
        for turn in range(15):
            chosen = draw.sample(names, 4)
            done.append(
                publisher.publish([version(corpus, n, f"w{worker}t{turn}", draw.randint(1, 9)) for n in chosen])
            )
        return done

    with ThreadPoolExecutor(3) as pool:
        results = [done for batch in pool.map(publish, range(3)) for done in batch]
    assert all((done.sources, done.superseded) == (4, 0) for done in results)
    rows = corpus.as_superuser(
        "SELECT c.source_id, array_agg(c.content), array_agg(c.chunk_index ORDER BY c.chunk_index), max(p.chunk_count) "
        "FROM rag.knowledge_chunks c JOIN rag.source_profiles p "
        "ON p.source_id = c.source_id AND p.embedding_profile_id = c.embedding_profile_id GROUP BY c.source_id"
    )
    assert len(rows) == len(names)
    for _, contents, indexes, counted in rows:
        assert_whole(contents)
        assert indexes == list(range(len(contents)))
        assert counted == len(contents)
    corpus.close()


@pytest.mark.slow
def test_a_reader_never_sees_two_versions_or_a_part_of_one(corpus: Corpus) -> None:
    draw = random.Random(5)
    publisher = Publisher(corpus.database, corpus.built)
    publisher.publish([version(corpus, "s", "first", 10)])
    publisher.complete()
    stop = threading.Event()

    def read() -> list[list[str]]:
        seen = []
        with corpus.database.connect("app") as connection:
            while not stop.is_set():
                for mode in ("lexical", "hybrid", "dense"):
                    vector = None if mode == "lexical" else VECTOR
                    request = SearchRequest(mode, vector, "pump", top_k=100)  # type: ignore[arg-type]
                    found = search_chunks(connection, corpus.scope.settings, request)
                    seen.append([row.content for row in found])
        return seen

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        for turn in range(50):
            publisher.publish([version(corpus, "s", f"t{turn}", draw.choice([10, 10, 7, 13]))])
        stop.set()
        seen = reader.result()
    assert len({first.rpartition(",")[0] for first, *_ in filter(None, seen)}) > 3, "it read while versions changed"
    for contents in seen:
        assert contents, "a reader sees the old version or the new one, never neither"
        assert_whole(contents)
    corpus.close()


def staged(database: Database, built: BuiltProfile, folder: Path) -> ChunkFile:
    return embedded(database, [built], cut(database, [built], folder), folder)[0]


def served(database: Database) -> list[str]:
    with psycopg.connect(database.url) as connection:
        rows = connection.execute("SELECT content FROM rag.knowledge_chunks ORDER BY source_id, chunk_index").fetchall()
    return sorted(row[0] for row in rows)


def status_of(database: Database, name: str) -> tuple[str, str | None]:
    with database.work("acme") as connection:
        (source,) = [s for s in sources_overview(connection, "acme", "support") if s["name"] == name]
    return source["status"], source["error"]


def test_a_source_that_changed_after_it_was_cut_is_superseded_and_not_published(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "Lamps."})
    (built,) = enabled_profiles(database, "acme")
    rewrite(root / "a.md", "The blue pump.")
    rewrite(root / "b.md", "Bright lamps.")
    sync_sources(database, "acme")
    ready = staged(database, built, root.parent)
    rewrite(root / "a.md", "The green pump.")
    sync_sources(database, "acme")
    report = publish_chunks(database, [built], ready)
    assert (report.ready, report.superseded) == (1, 1)
    assert served(database) == ["Bright lamps.", "The red pump."], "the old version is served until the newest is there"
    ingest(database, "acme", "support", "hash-64")
    assert served(database) == ["Bright lamps.", "The green pump."]


def test_a_source_that_was_deleted_after_it_was_cut_is_not_published(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "Lamps."})
    (built,) = enabled_profiles(database, "acme")
    rewrite(root / "a.md", "The blue pump.")
    sync_sources(database, "acme")
    ready = staged(database, built, root.parent)
    (root / "a.md").unlink()
    sync_sources(database, "acme")
    report = publish_chunks(database, [built], ready)
    assert (report.ready, report.superseded, report.withdrawn) == (0, 1, 1)
    assert served(database) == ["Lamps."]


def test_staged_chunks_that_are_published_twice_are_the_same_rows(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump."})
    (built,) = enabled_profiles(database, "acme")
    rewrite(root / "a.md", "The blue pump.")
    sync_sources(database, "acme")
    ready = staged(database, built, root.parent)
    for _ in range(2):
        report = publish_chunks(database, [built], ready)
        assert (report.ready, report.chunks_written, report.failures) == (1, 1, [])
    assert served(database) == ["The blue pump."]


def poisoned(table: pa.Table, needle: str, poison: str) -> pa.Table:
    """The staged table with one chunk that Postgres will not take."""
    where = pc.match_substring(table["content"], needle).to_pylist().index(True)
    vectors, texts = vectors_of(table).copy(), table["content"].to_pylist()
    if poison == "zero vector":
        vectors[where] = 0
    elif poison == "NaN":
        vectors[where, 0] = np.nan
    elif poison == "long vector":
        vectors[where] *= 2
    else:
        texts[where] = {"NUL": "a\0b", "empty text": ""}[poison]
    column = table.schema.get_field_index("content")
    texts_in = table.drop_columns(["embedding"]).set_column(column, "content", pa.array(texts, pa.string()))
    return with_vectors(texts_in, vectors)


@pytest.mark.parametrize("poison", ["zero vector", "NaN", "long vector", "NUL", "empty text"])
def test_a_chunk_that_postgres_refuses_fails_its_source_alone(database: Database, root: Path, poison: str) -> None:
    ingested(database, root, "acme", {"a.md": "The red pump.", "b.md": "Lamps.", "c.md": "Hoses."})
    (built,) = enabled_profiles(database, "acme")
    for name, text in (("a.md", "The blue pump."), ("b.md", "Bright lamps."), ("c.md", "Long hoses.")):
        rewrite(root / name, text)
    sync_sources(database, "acme")
    table = poisoned(staged(database, built, root.parent).table(), "blue", poison)
    report = publish_chunks(database, [built], kept(table, root.parent))
    assert (report.ready, report.chunks_written) == (2, 2)
    (failure,) = report.failures
    assert failure.error.startswith("cannot be stored: ")
    assert served(database) == ["Bright lamps.", "Long hoses.", "The red pump."], "the old version stays"
    assert status_of(database, "a.md") == ("failed", failure.error)
    assert status_of(database, "b.md") == ("ready", None)
    scope = open_scope(database, "acme", "support")
    assert [r.content for r in LexicalRetriever(database).search("pump", scope)] == ["The red pump."]


@pytest.mark.slow
def test_two_ingests_of_one_bot_at_once_end_as_one(database: Database, root: Path) -> None:
    files = {f"{n}.md": f"# Page {n}\n\n" + f"The pump of page {n} hums. " * 30 for n in range(12)}
    ingested(database, root, "acme", files)
    expected = served(database)
    enable_pair(database, "acme", "support", "hash-64")
    for n in range(12):
        rewrite(root / f"{n}.md", files[f"{n}.md"] + "And it leaks.")
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: ingest(database, "acme", "support", "hash-64"), range(2)))
    assert all(report.publication.failures == [] for report in reports)
    after = served(database)
    assert len(after) == len(set(after)) == len(expected)
    assert sum("leaks" in content for content in after) == 12
    assert ingest(database, "acme", "support", "hash-64").publication.chunks_written == 0
