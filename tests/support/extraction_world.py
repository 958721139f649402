"""A bot whose profile has a chat model find triples, which the stand-in says by a rule."""

from __future__ import annotations

from typing import Any

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.ingest.publication import PublishReport
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from rag_assets.store.tenants import spaces_of
from rag_assets.store.triples import StoredTriple, list_triples
from tests.support.chat_server import Asked, ChatServer

SAID = (
    ("Brimble valve", "is made by", "Corrin Works"),
    ("Corrin Works", "has its seat in", "Harrowfen"),
    ("Harrowfen", "lies on the river", "Osk"),
    ("Tamsin Orle", "is mayor of", "Harrowfen"),
)


def thinks(asked: Asked) -> dict[str, Any]:
    """Finds what is said in the passage, and claims something that is not."""
    passage = asked.data[-1]
    found = [
        {"subject": s, "predicate": p, "object": o, "confidence": 0.8}
        for s, p, o in SAID
        if s in passage and o in passage
    ]
    invented = {"subject": "Zorp", "predicate": "rules", "object": "Zarp", "confidence": 1.0}
    return {"triples": [*found, invented] if found else []}


def profile_of(server: ChatServer, name: str = "with-graph", **graph: Any) -> EmbeddingProfile:
    options = {"provider": "openai-compatible", "model": "reader", "base_url": server.url, **graph}
    chunking = ChunkingSpec(size=300, overlap=30)
    return make_profile(
        name=name, provider="hash", model="hash", dimensions=64, chunking=chunking, options={"graph": options}
    )


def ingested(database: Database, profile: EmbeddingProfile) -> PublishReport:
    return ingest(database, "acme", "support", profile).publication


def stored(database: Database) -> list[StoredTriple]:
    with database.work("acme") as connection:
        return list_triples(connection, spaces_of(connection, "acme", "support")[0])


def said(database: Database) -> set[tuple[str, str, str]]:
    return {(one.subject, one.predicate, one.object) for one in stored(database)}
