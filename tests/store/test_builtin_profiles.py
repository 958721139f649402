from __future__ import annotations

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import BUILTIN_PROFILES
from rag_assets.store.database import Database
from rag_assets.store.profiles import add_spec, get_spec, seed_specs


def test_a_built_in_profile_keeps_the_meaning_that_it_had_when_the_database_was_made(database: Database) -> None:
    older = BUILTIN_PROFILES["static-256"].model_copy(update={"chunking": ChunkingSpec(size=1000, overlap=0)})
    with database.work() as connection:
        connection.execute("DELETE FROM rag.profile_specs WHERE name = 'static-256'")
    add_spec(database, older)
    seed_specs(database)
    with database.work() as connection:
        assert get_spec(connection, "static-256") == older
        assert get_spec(connection, "static-64") == BUILTIN_PROFILES["static-64"]
