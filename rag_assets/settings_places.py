"""The settings of where things are, a part of `Settings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic_settings import BaseSettings

from rag_assets.addresses import database_address, sqlalchemy_address, storage_address
from rag_assets.homes import usable_home, usual_home
from rag_assets.settings_values import PLACES, address, beside_database, row, storage_under_home


class PlaceSettings(BaseSettings):
    """The home, the databases and the storage.

    Attributes with a meaning beyond their variable's:
        database_url: None for the embedded PostgreSQL under `home`.
    """

    home: Annotated[Path, AfterValidator(usable_home)] = row(
        "RAG_HOME",
        usual_home,
        PLACES,
        "Where the embedded PostgreSQL server and Dagster's home lie; relative to the working folder",
        allowed="a folder",
        unset="`.rag` in the working folder or the nearest one above it that has one, else the user's home",
    )
    database_url: Annotated[str | None, address(database_address)] = row(
        "DATABASE_URL",
        None,
        PLACES,
        "PostgreSQL server with pgvector, as `postgresql://user:password@host/database`",
        unset="an embedded server under `RAG_HOME`",
        repr=False,
    )
    app_database_url: Annotated[str | None, address(database_address), AfterValidator(beside_database)] = row(
        "RAG_APP_DATABASE_URL",
        None,
        PLACES,
        "Login of its own for searches on the server of `DATABASE_URL`, which an application needs: with the role "
        "`rag_app` and nothing else",
        unset="`DATABASE_URL`; commands and Dagster search with it, and a library's search is refused where its "
        "login may do more",
        repr=False,
    )
    search_database_url: Annotated[str | None, address(database_address), AfterValidator(beside_database)] = row(
        "RAG_SEARCH_DATABASE_URL",
        None,
        PLACES,
        "Read replica of the server of `DATABASE_URL` that searches are sent to, with a login as of "
        "`RAG_APP_DATABASE_URL`; several hosts as libpq takes them",
        unset="searches go where `RAG_APP_DATABASE_URL` says",
        repr=False,
    )
    ingest_database_url: Annotated[str | None, address(database_address), AfterValidator(beside_database)] = row(
        "RAG_INGEST_DATABASE_URL",
        None,
        PLACES,
        "Login of its own for what ingest reads and writes on the server of `DATABASE_URL`: with the role `rag_ingest` "
        "and nothing else",
        unset="`DATABASE_URL`",
        repr=False,
    )
    storage: Annotated[str, address(storage_address)] = row(
        "RAG_STORAGE",
        storage_under_home,
        PLACES,
        "Base of the Parquet files between assets; a folder or any fsspec URL, such as `s3://bucket/rag`",
        unset="`storage` under `RAG_HOME`",
        repr=False,
    )
    dagster_pg_url: Annotated[str | None, address(sqlalchemy_address)] = row(
        "DAGSTER_PG_URL",
        None,
        PLACES,
        "Database of Dagster's own records, as `postgresql+psycopg2://…`",
        unset="`<name>_dagster` beside `DATABASE_URL`, or `dagster` on the embedded server",
        repr=False,
    )
