from __future__ import annotations

from pathlib import Path

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import BUILTIN_PROFILES
from rag_assets.ingest.run import ingest
from rag_assets.store.cache import usage_of
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec, get_spec, seed_specs
from tests.support.worlds import ingested


def test_a_built_in_profile_keeps_the_meaning_that_it_had_when_the_database_was_made(database: Database) -> None:
    older = BUILTIN_PROFILES["static-256"].model_copy(update={"chunking": ChunkingSpec(size=1000, overlap=0)})
    with database.work() as connection:
        connection.execute("DELETE FROM rag.profile_specs WHERE name = 'static-256'")
    add_spec(database, older)
    seed_specs(database)
    with database.work() as connection:
        assert get_spec(connection, "static-256") == older
        assert get_spec(connection, "static-64") == BUILTIN_PROFILES["static-64"]


def test_what_the_model_that_ships_embeds_is_counted_and_not_kept(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The pump.", "b.md": "The valve."}, profile="static-64")
    (root / "c.md").write_text("The pump.", encoding="utf-8")
    again = ingest(database, "acme", "support", "static-64")
    assert (again.embeddings.embedded, again.embeddings.cache_hits, again.publication.ready) == (1, 0, 1)
    (usage,), kept = usage_of(database, "acme")
    assert (usage.embedded, usage.cache_hits, kept) == (3, 0, [])
