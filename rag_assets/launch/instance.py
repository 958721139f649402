"""The project's Dagster instance: its home, its storage, and what a tenant leaves there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef
from psycopg import conninfo

from rag_assets.errors import DatabaseRefused
from rag_assets.io_managers import is_local, staging_folder
from rag_assets.private import close_to_others, make_private
from rag_assets.runs.pools import prepare_pool
from rag_assets.runs.purge import purge_tenant
from rag_assets.runs.storage import STORAGE
from rag_assets.settings import Settings, bundled
from rag_assets.store.database import ensure_database, sqlalchemy_url
from rag_assets.store.server import start_server


def dagster_environment(settings: Settings) -> dict[str, str]:
    """The environment in which Dagster finds this project's instance; makes its home and storage database.

    The storage is `DAGSTER_PG_URL` if that is set; else the database `dagster` of the embedded server, or
    `<name>_dagster` beside the one that `DATABASE_URL` names.

    Raises:
        DatabaseUnavailable, DatabaseRefused: the storage database can be neither reached nor created.
    """
    home = settings.dagster_home
    make_private(home)
    if Path(settings.storage) == settings.home / "storage" and Path(settings.storage).is_dir():
        close_to_others(Path(settings.storage))
    refresh(home / "dagster.yaml", bundled("dagster.yaml").read_text())
    environment = {
        "DAGSTER_HOME": str(home),
        "DAGSTER_PG_URL": settings.dagster_pg_url or sqlalchemy_url(_storage_url(settings)),
        "RAG_HOME": str(settings.home),
        "RAG_STORAGE": settings.storage,
    }
    if settings.database_url:
        environment["DATABASE_URL"] = settings.database_url
    return environment


def refresh(path: Path, text: str) -> None:
    """Write a file that is not as it should be; a reader finds the old one or the new one."""
    if path.exists() and path.read_text() == text:
        return
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    os.replace(part, path)


def _storage_url(settings: Settings) -> str:
    if not settings.database_url:
        return ensure_database(start_server(settings.home), "dagster")
    url = settings.database_url
    parts = conninfo.conninfo_to_dict(url)
    name = f"{parts.get('dbname') or parts.get('user') or 'rag'}_dagster"
    try:
        return ensure_database(url, name)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRefused(
            f"Dagster needs a database of its own, and the user of DATABASE_URL may not create {name!r}. "
            "Create it, or set DAGSTER_PG_URL=postgresql+psycopg2://..."
        ) from error


@contextmanager
def dagster_instance(settings: Settings) -> Iterator[DagsterInstance]:
    """The project's Dagster instance. The environment of this process, which other threads read too, stays as it is."""
    environment = dagster_environment(settings)
    ref = InstanceRef.from_dir(
        environment["DAGSTER_HOME"],
        overrides={
            "storage": {"custom": {**STORAGE, "config": {"postgres_url": environment["DAGSTER_PG_URL"]}}},
            # Capturing starts processes that copy stdout and stderr, which are the person's terminal here.
            "compute_logs": {
                "module": "dagster._core.storage.noop_compute_log_manager",
                "class": "NoOpComputeLogManager",
            },
        },
    )
    with DagsterInstance.from_ref(ref) as instance:
        prepare_pool(instance)
        yield instance


def remove_staged(settings: Settings, tenant: str) -> int:
    """Remove the Parquet files of a tenant, which hold its chunks as text; returns how many there were."""
    folder = staging_folder(tenant, settings.storage)
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    for path in files:
        path.unlink()
    if files and is_local(folder):
        shutil.rmtree(folder.path, ignore_errors=True)
    return len(files)


def has_history(settings: Settings) -> bool:
    """Whether there may be runs: those in a storage outside RAG_HOME may be another machine's."""
    elsewhere = settings.database_url or settings.dagster_pg_url
    return bool(elsewhere) or settings.dagster_home.exists()


def purge_dagster(settings: Settings, tenant: str, *, keep_partition: bool = False) -> int:
    """Delete the tenant's runs, with their events and logs, and its partition; returns the number of runs.

    Metadata of runs holds previews of chunks. `keep_partition` is for a tenant that stays when one of its
    bots goes.
    """
    with dagster_instance(settings) as instance:
        counts = purge_tenant(instance, tenant, settings.dagster_home, keep_partition=keep_partition)
    return counts["runs"]
