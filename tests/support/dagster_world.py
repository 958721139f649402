"""A world for tests of assets and sensors: a real database, tenants with folders, an instance in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets import resources
from rag_assets.automation import new_sources as new_sources_module
from rag_assets.automation.jobs import PAIR_JOB, SOURCES_JOB
from rag_assets.automation.looks import Looks
from rag_assets.automation.new_sources import new_sources
from rag_assets.definitions import defs
from rag_assets.embedding.profiles import make_profile
from rag_assets.ingest.pairs import enable_pair
from rag_assets.partitions import TENANT_TAG, ensure_partitions, pair_key
from rag_assets.resources import Postgres
from rag_assets.store.database import Database, ensure_database
from rag_assets.store.profiles import add_spec
from rag_assets.store.roots import add_root
from rag_assets.store.set_up import prepare
from rag_assets.store.tenants import add_tenant
from tests.support.servers import copy_database, drop_database

PROFILE = make_profile(name="hash-64", provider="hash", model="hash", dimensions=64)
STEPS = {
    SOURCES_JOB: ("sources",),
    PAIR_JOB: ("chunks", "profile_embeddings", "knowledge_chunks", "gin_index", "hnsw_index"),
}


@dataclass
class World:
    """Everything that a test needs to write files, run jobs and let the sensor look."""

    database: Database
    folder: Path
    instance: dg.DagsterInstance
    cursor: str | None = None
    requested: list[dg.RunRequest] = field(default_factory=list)

    def tenant(self, name: str, bot: str = "help", *, profile: str | None = PROFILE.name) -> Path:
        """Create a tenant with a bot, an empty root folder, and the profile enabled; returns the folder."""
        root = self.folder / name / bot
        root.mkdir(parents=True)
        add_tenant(self.database, name, bot)
        add_root(self.database, name, bot, str(root))
        if profile:
            enable_pair(self.database, name, bot, profile)
        ensure_partitions(self.instance, [name], [PROFILE.name])
        return root

    def run(
        self, job: str, key: str, *, bot: str = "", tags: dict[str, str] | None = None
    ) -> dg.ExecuteInProcessResult:
        """Execute a job for one partition, whatever its outcome."""
        return defs.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            partition_key=key,
            run_config={
                "ops": {step: {"config": {"bot": bot}} for step in STEPS[job]},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags=tags,
            raise_on_error=False,
        )

    def ingest(self, tenant: str, profile: str = PROFILE.name, bot: str = "") -> None:
        """Both jobs, which must succeed."""
        assert self.run(SOURCES_JOB, tenant, bot=bot, tags={TENANT_TAG: tenant}).success
        assert self.run(PAIR_JOB, pair_key(tenant, profile), bot=bot).success

    def tick(self) -> list[dg.RunRequest] | str:
        """One tick of the sensor: what it requests, or why it requests nothing."""
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        result: Any = new_sources(context, postgres=Postgres(url=self.database.url))
        if isinstance(result, dg.SkipReason):
            return result.skip_message or ""
        self.cursor = result.cursor
        if not result.run_requests:
            return result.skip_reason.skip_message
        return result.run_requests

    def obey(self, requests: list[dg.RunRequest] | str) -> None:
        """Do what the daemon does with requests: run each once, with its tags and its run key."""
        assert not isinstance(requests, str), requests
        for request in requests:
            assert request.job_name
            tags = {**request.tags, "dagster/run_key": request.run_key or ""}
            self.run(request.job_name, request.partition_key or "", tags=tags)

    def served(self, tenant: str) -> list[str]:
        """The contents that are served of a tenant, sorted."""
        with self.database.work(tenant) as connection:
            rows = connection.execute("SELECT content FROM rag.knowledge_chunks ORDER BY content")
            return [row[0] for row in rows]


def keys(requests: list[dg.RunRequest] | str) -> list[tuple[str, str]]:
    """Job and partition of each request."""
    assert not isinstance(requests, str), requests
    return [(request.job_name or "", str(request.partition_key)) for request in requests]


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """A migrated database to copy: faster than migrating one for each test."""
    database = Database(ensure_database(server_url, "world_template"))
    prepare(database)
    add_spec(database, PROFILE)
    database.close()
    return "world_template"


_numbers = itertools.count()


@contextmanager
def world_of(server_url: str, template: str, folder: Path, roots: Path | None = None) -> Iterator[World]:
    """A world whose database is a copy of `template`; `folder` takes what it writes, `roots` the folders of tenants."""
    name = f"world_{next(_numbers)}"
    database = Database(copy_database(server_url, template, name))
    with pytest.MonkeyPatch.context() as patch, dg.DagsterInstance.ephemeral() as instance:
        patch.setitem(resources._ready, database.url, database)  # whose connections end with the world
        # However slow this machine is, a tick looks at every tenant.
        for name, value in (("_BUDGET_S", 60.0), ("_WAIT_S", 60.0), ("_looks", Looks(rest=0.0))):
            patch.setattr(new_sources_module, name, value)
        patch.setenv("DATABASE_URL", database.url)
        patch.setenv("RAG_STORAGE", str(folder / "storage"))
        patch.setenv("RAG_HOME", str(folder / "home"))
        yield World(database, roots or folder / "roots", instance)
    database.close()
    drop_database(server_url, name)


@pytest.fixture
def world(server_url: str, template: str, tmp_path: Path) -> Iterator[World]:
    with world_of(server_url, template, tmp_path) as made:
        yield made
