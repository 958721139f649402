"""Where things are: the two settings that a beginner may need, and what follows from them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Settings:
    """Read from the environment once per process.

    Attributes:
        home: `RAG_HOME`, default `.rag` in the working folder: embedded server, Dagster home, staged Parquet.
        database_url: `DATABASE_URL`, or None for the embedded PostgreSQL under `home`.
        storage: `RAG_STORAGE`, the base of the Parquet files between assets; any fsspec URL.
    """

    home: Path
    database_url: str | None
    storage: str

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"


def load_settings() -> Settings:
    """Read `RAG_HOME`, `DATABASE_URL` and `RAG_STORAGE`."""
    home = Path(os.environ.get("RAG_HOME") or ".rag").expanduser().absolute()
    return Settings(
        home=home,
        database_url=os.environ.get("DATABASE_URL") or None,
        storage=os.environ.get("RAG_STORAGE") or str(home / "storage"),
    )


def bundled(name: str) -> Path:
    """A file or folder that ships beside the package: `sql`, `dagster.yaml`.

    In a checkout it lies at the top of the repository, in an installed wheel inside the package.
    """
    installed = _PACKAGE / "_bundled" / name
    return installed if installed.exists() else _PACKAGE.parent / name
