"""Small worlds for tests: tenants with documents, ingested for real."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database
from rag_assets.store.tenants import add_root, add_tenant


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write text files, named by paths relative to `folder`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
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
    add_tenant(database, tenant, bot)
    add_root(database, tenant, bot, str(write_files(folder, files)))
    return ingest(database, tenant, bot, profile)
