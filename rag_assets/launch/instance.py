"""Everything that starts Dagster for a person: one ingest in this process, or the UI with its daemon."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import conninfo

from rag_assets.errors import DatabaseRefused, UsageError
from rag_assets.settings import Settings, bundled
from rag_assets.store.database import Database, ensure_database, sqlalchemy_url
from rag_assets.store.server import start_server

if TYPE_CHECKING:
    import dagster as dg

_STOP_TIMEOUT_S = 30.0
_WORKSPACE = """\
load_from:
  - python_module: {{module_name: rag_assets.definitions, location_name: rag, executable_path: {python!r}}}
"""


@dataclass(frozen=True)
class IngestOutcome:
    """What one ingest did for one bot and profile.

    Attributes:
        sources: number of sources `ready` (published now), `unchanged` (served as they were), `failed`,
            `no_text` and `deleted`.
        seconds: time of the assets' own work, Parquet included; `startup_seconds` is what Dagster needed around it.
        failures: one dict of `bot`, `source` and `error` each, at most 50 of each stage.
        activated: whether this profile became the bot's active one.
        pending_chunks: chunks of sources that wait for a batch job; `batch_jobs` is how many of those go on.
    """

    sources: Mapping[str, int]
    chunks_written: int
    embedded: int
    cache_hits: int
    seconds: float
    startup_seconds: float
    run_ids: tuple[str, ...]
    failures: tuple[Mapping[str, str], ...] = field(default_factory=tuple)
    activated: bool = False
    pending_chunks: int = 0
    batch_jobs: int = 0


def dagster_environment(settings: Settings) -> dict[str, str]:
    """The environment in which Dagster finds this project's instance; makes its home and storage database.

    The storage is `DAGSTER_PG_URL` if that is set; else the database `dagster` of the embedded server, or
    `<name>_dagster` beside the one that `DATABASE_URL` names.

    Raises:
        DatabaseUnavailable, DatabaseRefused: the storage database can be neither reached nor created.
    """
    home = settings.dagster_home
    home.mkdir(parents=True, exist_ok=True)
    _refresh(home / "dagster.yaml", bundled("dagster.yaml").read_text())
    environment = {
        "DAGSTER_HOME": str(home),
        "DAGSTER_PG_URL": settings.dagster_pg_url or sqlalchemy_url(_storage_url(settings)),
        "RAG_HOME": str(settings.home),
        "RAG_STORAGE": settings.storage,
    }
    if settings.database_url:
        environment["DATABASE_URL"] = settings.database_url
    return environment


def _refresh(path: Path, text: str) -> None:
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
def dagster_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The project's Dagster instance, with the environment that its runs need while it is open."""
    from dagster import DagsterInstance
    from dagster._core.instance.ref import InstanceRef

    from rag_assets.runs.pools import prepare_pool

    with _environment(dagster_environment(settings)):
        ref = InstanceRef.from_dir(
            str(settings.dagster_home),
            # Capturing starts processes that copy stdout and stderr, which are the person's terminal here.
            overrides={
                "compute_logs": {
                    "module": "dagster._core.storage.noop_compute_log_manager",
                    "class": "NoOpComputeLogManager",
                }
            },
        )
        with DagsterInstance.from_ref(ref) as instance:
            prepare_pool(instance)
            yield instance


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def materialize_ingest(
    database: Database, settings: Settings, tenant: str, bot: str, profile: str, batch: bool = False
) -> IngestOutcome:
    """Materialize the assets for one bot and profile: a run for its sources, and one for the pair.

    Both runs happen in this process and are recorded on the project's Dagster instance. Nothing is printed.

    Raises:
        UsageError: tenant, bot or profile is unknown; no run was started.
        RagError: a run failed, with the reason of its failed step.
    """
    from rag_assets.ingest.pairs import enable_pair

    began = time.monotonic()
    enable_pair(database, tenant, bot, profile)
    from rag_assets.launch.ingest import outcome_of, run_both
    from rag_assets.resources import share

    share(database)
    with dagster_instance(settings) as instance:
        results = run_both(instance, tenant, bot, profile, batch)
    return outcome_of(results, bot, time.monotonic() - began)


def dev(settings: Settings, host: str, port: int) -> int:
    """Run the Dagster UI and daemon until they end or this process is told to; returns their exit code.

    Raises:
        UsageError: the port is taken; Dagster would quietly serve on another one.
    """
    _require_port(host, port)
    with dagster_instance(settings):  # the daemon's runs find the pool's limit set
        environment = dict(os.environ)
    workspace = settings.dagster_home / "workspace.yaml"
    _refresh(workspace, _WORKSPACE.format(python=sys.executable))
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", host, "-p", str(port)]
    return run_child(command, environment)


def _require_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"cannot serve on {host}:{port}: {error.strerror}. Choose another: rag dev --port {port + 1}"
            ) from error


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a process to its end, pass SIGINT and SIGTERM on to it, and return its exit code.

    One that does not end within 30 s of being told to is killed with all that it started.
    """
    told: list[tuple[float, int]] = []
    # Handlers first: a child started while a signal is ignored, as by `&` in a script, would ignore it too.
    before = {
        number: signal.signal(number, lambda signum, _frame: told.append((time.monotonic(), signum)))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        # A group of its own: the terminal's Ctrl-C reaches the child once, through us, and not twice.
        child = subprocess.Popen(command, env=environment, start_new_session=True)
        passed = 0
        while True:
            try:
                return child.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                for _, signum in told[passed:]:
                    child.send_signal(signum)
                passed = len(told)
                if told and time.monotonic() - told[0][0] > _STOP_TIMEOUT_S:
                    os.killpg(child.pid, signal.SIGKILL)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def remove_staged(settings: Settings, tenant: str) -> int:
    """Remove the Parquet files of a tenant, which hold its chunks as text; returns how many there were."""
    from rag_assets.io_managers import staging_folder

    folder = staging_folder(tenant, settings.storage)
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    for path in files:
        path.unlink()
    if files and folder.protocol in ("", "file", "local"):
        shutil.rmtree(folder.path, ignore_errors=True)
    return len(files)


def purge_dagster(settings: Settings, tenant: str, *, keep_partition: bool = False) -> int:
    """Delete the tenant's runs, with their events and logs, and its partition; returns the number of runs.

    Metadata of runs holds previews of chunks. `keep_partition` is for a tenant that stays when one of its
    bots goes.
    """
    from rag_assets.runs.purge import purge_tenant

    with dagster_instance(settings) as instance:
        counts = purge_tenant(instance, tenant, settings.dagster_home, keep_partition=keep_partition)
    return counts["runs"]
