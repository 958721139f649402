"""Small worlds for tests: tenants with documents, ingested for real."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant

HASH_PROFILE = make_profile(
    name="hash-64",
    provider="hash",
    model="hash",
    dimensions=64,
    chunking=ChunkingSpec(size=300, overlap=30),
)


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write text files, named by paths relative to `folder`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def rooted(database: Database, folder: Path, tenant: str, files: Mapping[str, str], bot: str = "support") -> Path:
    """The folder with these files, as the root of a tenant's one bot; nothing is ingested yet."""
    add_tenant(database, tenant, bot)
    add_root(database, tenant, bot, str(write_files(folder, files)))
    return folder


def ingested(
    database: Database,
    folder: Path,
    tenant: str,
    files: Mapping[str, str],
    bot: str = "support",
    profile: str = "hash-64",
) -> IngestReport:
    """A tenant with one bot whose root holds these files, ingested with `profile`."""
    rooted(database, folder, tenant, files, bot)
    return ingest(database, tenant, bot, profile)


def rewrite(path: Path, text: str | bytes) -> None:
    """Write a file so that its time differs from the last one's, however fast the test is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, ns=(before + 10**9, before + 10**9)) if before else None
