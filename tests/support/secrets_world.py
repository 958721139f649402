"""A full run of two tenants whose words are nowhere else, and everything that it leaves behind."""

from __future__ import annotations

import json
import os
import random
import string
import subprocess
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg import sql

from rag_assets.automation.jobs import PAIR_JOB
from rag_assets.embedding.refused import PROBE
from rag_assets.store.database import with_database
from rag_assets.store.server import running_url, stop_server
from tests.support.google_server import (
    Behaviour,
    Reply,
    close_in_the_body,
    embed,
    error,
    google_server,
    retry_info,
    rows,
)

BOT, PROFILE = "help", "gemini"
WORKER = Path(__file__).parents[1] / "support/workers/secrets_worker.py"
_random = random.SystemRandom()


def unique_word() -> str:
    """Letters only, with an ending that no stemmer takes off, so that it is the same word everywhere."""
    return "zq" + "".join(_random.choices(string.ascii_lowercase, k=14)) + "k"


@dataclass(frozen=True)
class Tenant:
    """`words` are in its documents, `refused` is in a text that the provider refuses, `broken` in files that cannot be
    read, and `name` in the names of a good and of a broken file."""

    key: str
    words: tuple[str, str] = field(default_factory=lambda: (unique_word(), unique_word()))
    name: str = field(default_factory=unique_word)
    refused: str = field(default_factory=unique_word)
    broken: str = field(default_factory=unique_word)

    @property
    def contents(self) -> tuple[str, ...]:
        """What is inside its files."""
        return (*self.words, self.refused, self.broken)

    def write(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        pump, valve = self.words
        (root / f"{self.name}.md").write_text(f"# About {pump}\n\nThe pump {pump} is dry.\n\n## Then\n\nFill {pump}.\n")
        (root / "valve.jsonl").write_text(json.dumps({"_id": "v", "title": valve, "text": f"Valve {valve} is shut."}))
        (root / "refused.txt").write_text(f"No provider likes {self.refused}.")
        (root / f"{self.name}.pdf").write_bytes(f"%PDF-1.7 this is none, says {self.broken}".encode())
        (root / "broken.jsonl").write_text(f'{{"_id": "1", "text": "{self.broken}"')
        (root / "broken.xlsx").write_bytes(f"PK\x03\x04 {self.broken}".encode())

    def change(self, root: Path) -> None:
        (root / "more.txt").write_text(f"Both {self.words[0]} and {self.words[1]} are new.")


@dataclass(frozen=True)
class Cell:
    """A value in a database, as text. `tenant`: what the column `tenant_id` of its row says."""

    table: str
    column: str
    tenant: str | None
    text: str


@dataclass
class Remains:
    """All that a run has left: on disk, in the databases, and on the terminal."""

    home: Path
    url: str
    key: str
    tenants: tuple[Tenant, Tenant]
    said: dict[tuple[str, str], str] = field(default_factory=dict)  # by tenant and command

    def product(self) -> Iterator[Cell]:
        return cells(with_database(self.url, "rag"))

    def dagster(self) -> Iterator[Cell]:
        return cells(with_database(self.url, "dagster"))

    def tenant_of_runs(self) -> dict[str, str]:
        """Which tenant each of Dagster's runs was for."""
        with psycopg.connect(with_database(self.url, "dagster")) as connection:
            tags = connection.execute("SELECT run_id, value FROM run_tags WHERE key LIKE 'dagster/partition%'")
            keys = {tenant.key for tenant in self.tenants}
            return {run: value for run, value in tags if value in keys}

    def files(self) -> dict[Path, bytes]:
        """Every file under RAG_HOME; Parquet files as their contents, because they are compressed."""
        return {path: _content(path) for path in self.home.rglob("*") if path.is_file()}


def _content(path: Path) -> bytes:
    return str(pq.read_table(path).to_pylist()).encode() if path.suffix == ".parquet" else path.read_bytes()


def cells(url: str) -> Iterator[Cell]:
    """Every value of every table, whatever its schema; partitions as a part of their table."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p', 'm') AND NOT c.relispartition "
            "AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
        ).fetchall()
        for schema, table in tables:
            cursor = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table)))
            names = [column.name for column in cursor.description or []]
            for row in cursor:
                values = dict(zip(names, row, strict=True))
                for name, value in values.items():
                    yield Cell(table, name, values.get("tenant_id"), _text(value))


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    with suppress(zlib.error):
        value = zlib.decompress(value)  # as Dagster keeps its snapshots
    return value.decode("latin-1")


class Moody:
    """Answers the requests of each tenant by a script of its own, then rightly; refuses what nobody likes. What holds
    no tenant's words, but asks whether anything is embedded, has the script of nobody."""

    def __init__(self, tenants: tuple[Tenant, Tenant]) -> None:
        self._tenants = tenants
        self.scripts: dict[str, deque[Behaviour]] = {key: deque() for key in ("", *(tenant.key for tenant in tenants))}

    def __call__(self, reply: Reply) -> None:
        texts = " ".join(reply.arrived.texts)
        for tenant in self._tenants:
            if any(word in texts for word in tenant.contents) and self.scripts[tenant.key]:
                return self.scripts[tenant.key].popleft()(reply)
        if texts.endswith(PROBE) and self.scripts[""]:
            return self.scripts[""].popleft()(reply)
        refused = any(tenant.refused in texts for tenant in self._tenants)
        (error(400, "INVALID_ARGUMENT") if refused else embed)(reply)


def words_for_vectors(reply: Reply) -> None:
    """Status 200, and the key and the texts where numbers ought to be."""
    rows(lambda right: [[reply.arrived.headers["x-goog-api-key"], text] for text in reply.arrived.texts])(reply)


THROTTLED = error(429, "RESOURCE_EXHAUSTED", retry_info("0.2s"))


@contextmanager
def full_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remains]:
    """Two tenants are ingested by commands and by Dagster's jobs; files, texts, requests and runs fail."""
    tenants = Tenant("acme"), Tenant("globex")
    key = "AIza" + "".join(_random.choices(string.ascii_letters + string.digits, k=35))
    moody = Moody(tenants)
    home = folder / "home"
    with google_server(monkeypatch, ("POST", r".*:batchEmbedContents", moody)) as google:
        for name in ("DATABASE_URL", "RAG_APP_DATABASE_URL", "RAG_STORAGE", "DAGSTER_HOME", "DAGSTER_PG_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("GEMINI_API_KEY", key)
        monkeypatch.setenv("RAG_HOME", str(home))
        monkeypatch.setenv("RAG_DEBUG", "1")
        remains = Remains(home, "", key, tenants)
        try:
            _run_all(remains, folder, moody)
            assert all(arrived.headers["x-goog-api-key"] == key for arrived in google.embeds)
            remains.url = running_url(home) or ""
            yield remains
        finally:
            stop_server(home)


def _run_all(remains: Remains, folder: Path, moody: Moody) -> None:
    first, second = remains.tenants

    def rag(tenant: str, command: str, *more: str, code: int = 0) -> None:
        remains.said[tenant, command] = run(
            [sys.executable, "-m", "rag_assets.cli", *command.split(), *more, "--json"], code
        )

    model = ("--provider", "google", "--model", "gemini-embedding-2", "--dimensions", "128")
    rag("", "profile add", PROFILE, *model)
    for tenant in remains.tenants:
        tenant.write(folder / tenant.key)
    moody.scripts[first.key] += [error(503), THROTTLED]
    rag(first.key, "ingest", str(folder / first.key), *scope(first), "--profile", PROFILE)
    rag(first.key, "tenant limit", first.key, "--provider", "google", "--items-per-minute", "100000")
    moody.scripts[second.key] += [words_for_vectors]
    moody.scripts[""] += [words_for_vectors]
    rag(second.key, "ingest", str(folder / second.key), *scope(second), "--profile", PROFILE, code=1)
    for tenant in remains.tenants:
        tenant.change(folder / tenant.key)
    moody.scripts[first.key] += [close_in_the_body, error(500)]
    moody.scripts[second.key] += [THROTTLED, words_for_vectors]
    moody.scripts[""] += [words_for_vectors]
    worker = [sys.executable, str(WORKER), BOT, PROFILE, first.key, second.key]
    remains.said["", "first jobs"] = run(worker)
    assert remains.said["", "first jobs"].startswith(json.dumps([[second.key, PAIR_JOB]]))
    remains.said["", "second jobs"] = run(worker)
    assert remains.said["", "second jobs"].startswith("[]")
    for tenant in remains.tenants:
        rag(tenant.key, "search", "which pump is dry?", *scope(tenant))
        rag(tenant.key, "sources", *scope(tenant))
        rag(tenant.key, "usage", *scope(tenant))
        rag(tenant.key, "plan", *scope(tenant), "--profile", PROFILE)


def scope(tenant: Tenant) -> tuple[str, ...]:
    return ("--tenant", tenant.key, "--bot", BOT)


def run(words: list[str], code: int = 0) -> str:
    """What a process says on stdout and stderr; it must end with `code`."""
    done = subprocess.run(words, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + "\n" + done.stderr
