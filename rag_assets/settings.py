"""Every variable that this product reads from the environment, in one table: `Settings`.

`python -m rag_assets.settings` prints the table as Markdown, which is docs/configuration.md; `rag config` shows the
values. A variable that is blank counts as not set.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from rag_assets.addresses import AddressFault, http_address
from rag_assets.errors import UsageError
from rag_assets.settings_page import Variable, described, page_of, strangers, variable_of
from rag_assets.settings_places import PlaceSettings
from rag_assets.settings_scope import SIGNING, ScopeSettings
from rag_assets.settings_serve import SERVING, ServeSettings
from rag_assets.settings_values import (
    BATCHES,
    OBSERVING,
    PARSING,
    PROVIDERS,
    RUNNING,
    WEB,
    Flag,
    Words,
    address,
    row,
)

_PACKAGE = Path(__file__).resolve().parent


class _Environment(PydanticBaseSettingsSource):
    """The variables under exactly the names of the table."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return read_variable(variable_of(field)), variable_of(field), False

    def __call__(self) -> dict[str, Any]:
        values = (self.get_field_value(field, name) for name, field in self.settings_cls.model_fields.items())
        return {name: value for value, name, _ in values if value is not None}


class Settings(PlaceSettings, ScopeSettings, ServeSettings, BaseSettings):
    """What the environment says, and defaults for the rest. `load_settings` makes one.

    Attributes with a meaning beyond their variable's:
        embedding_pool: None for 16, unless the pool was given other slots on the instance.
        gemini_api_key, google_api_key, openai_api_key: for `rag config`. Who sends a key reads it at that moment, from
            the variable that the profile says (`read_variable`).
    """

    model_config = SettingsConfigDict(frozen=True, populate_by_name=True, hide_input_in_errors=True)

    gemini_api_key: SecretStr | None = row(
        "GEMINI_API_KEY", None, PROVIDERS, "Key for Google's models, unless a profile names another variable"
    )
    google_api_key: SecretStr | None = row(
        "GOOGLE_API_KEY", None, PROVIDERS, "The same, where `GEMINI_API_KEY` is not set"
    )
    google_gemini_base_url: Annotated[str, address(http_address)] = row(
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
        PROVIDERS,
        "Address of Google's API",
        repr=False,
    )
    openai_api_key: SecretStr | None = row(
        "OPENAI_API_KEY",
        None,
        PROVIDERS,
        "Key for OpenAI, or for the server that `OPENAI_BASE_URL` names; never sent to another that a profile names",
    )
    openai_base_url: Annotated[str, address(http_address)] = row(
        "OPENAI_BASE_URL",
        "https://api.openai.com/v1",
        PROVIDERS,
        "Address of an OpenAI-compatible server, with its `/v1`, for profiles that name none",
        repr=False,
    )
    provider_wait_s: float = row(
        "RAG_PROVIDER_WAIT_S",
        600.0,
        PROVIDERS,
        "Seconds that an ingest goes on asking a provider that fails",
        gt=0,
        le=600,
    )
    sensor_provider_wait_s: float = row(
        "RAG_SENSOR_PROVIDER_WAIT_S",
        20.0,
        PROVIDERS,
        "The same for runs that sensors and schedules start",
        gt=0,
        le=600,
    )
    device: str = row(
        "RAG_DEVICE",
        "auto",
        PROVIDERS,
        "Where local models run; `auto` takes a GPU if there is one",
        pattern=r"^(auto|cpu|cuda|mps)(:\d+)?$",
        allowed="auto, cpu, cuda, cuda:N or mps",
    )
    onnx_threads: int | None = row(
        "RAG_ONNX_THREADS", None, PROVIDERS, "Processors for ONNX models in a process", unset="all that it has", ge=1
    )

    batch_min_items: int = row(
        "RAG_BATCH_MIN_ITEMS", 200, BATCHES, "Fewer missing texts than this are embedded at once", ge=1
    )
    batch_job_items: int = row(
        "RAG_BATCH_JOB_ITEMS", 1000, BATCHES, "Texts of one job; in larger ones, results were seen to be mixed up", ge=1
    )
    batch_tokens: int = row(
        "RAG_BATCH_TOKENS",
        500_000,
        BATCHES,
        "Estimated tokens under way in all tenants' jobs of one model and key; Google allows 500,000, five or ten "
        "million, by the account's tier",
        ge=1,
    )

    parse_seconds: float = row(
        "RAG_PARSE_SECONDS", 30.0, PARSING, "Seconds that reading one file may take", gt=0, lt=1e9
    )
    parse_memory_mb: float = row(
        "RAG_PARSE_MEMORY_MB", 1024.0, PARSING, "MiB that reading one file may take; enforced on Linux", gt=0, lt=1e9
    )
    parse_env: Words = row(
        "RAG_PARSE_ENV",
        (),
        PARSING,
        "Further variables that parser processes are to see, such as those of an OCR engine",
        allowed="names, separated by commas",
        unset="none",
    )

    allow_private_urls: Flag = row(
        "RAG_ALLOW_PRIVATE_URLS", False, WEB, "Read pages at private addresses too: those of your own network"
    )
    ignore_robots: Flag = row(
        "RAG_IGNORE_ROBOTS", False, WEB, "Read what a site's robots.txt closes to this program: your own site"
    )
    fetch_seconds: float = row(
        "RAG_FETCH_SECONDS",
        120.0,
        WEB,
        "Seconds that one page, or one file of an object store, may take, from the first packet to the last",
        gt=0,
        lt=1e9,
    )
    scan_seconds: float = row(
        "RAG_SCAN_SECONDS",
        600.0,
        WEB,
        "Seconds that listing one web address or object store may take; what was not reached is kept as it was",
        gt=0,
        lt=1e9,
    )

    otlp_endpoint: Annotated[str | None, address(http_address)] = row(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        None,
        OBSERVING,
        "Collector to which the HTTP service sends spans and metrics (OTLP over HTTP); an application sets up its own",
        unset="none are sent",
        repr=False,
    )
    metrics_tenants: Flag = row("RAG_METRICS_TENANTS", True, OBSERVING, "Tell tenant and bot in metrics")
    search_log: Flag = row(
        "RAG_SEARCH_LOG", False, OBSERVING, "Log each search as a line of JSON, by the logger named rag_assets.search"
    )
    trace_queries: Flag = row(
        "RAG_TRACE_QUERIES", False, OBSERVING, "Tell the text of a query, masked, in spans and lines of the log"
    )
    query_log: Flag = row("RAG_QUERY_LOG", False, OBSERVING, "Write each search, masked, to the query log")
    query_log_days: int = row(
        "RAG_QUERY_LOG_DAYS", 30, OBSERVING, "Days for which the query log is kept", ge=1, le=3650
    )
    query_log_mask: Words = row(
        "RAG_QUERY_LOG_MASK",
        (),
        OBSERVING,
        "Further forms of what is masked in the text of a query, such as `EMP-####`",
        allowed="forms, separated by commas, in which # is any digit, ? any letter, and the rest is itself",
        unset="none; e-mail addresses, numbers of phones, accounts and cards, and long numbers always are",
    )

    reread_days: int = row(
        "RAG_REREAD_DAYS",
        30,
        RUNNING,
        "Days within which each file and page is read again although it looks unchanged; 0 for never",
        ge=0,
        le=3650,
    )
    embedding_pool: int | None = row(
        "RAG_EMBEDDING_POOL",
        None,
        RUNNING,
        "Runs that embed at once, over all tenants",
        unset="16, unless the pool `embedding` was given others in Dagster",
        ge=1,
        le=1000,
    )
    push_file_mb: float = row("RAG_PUSH_FILE_MB", 20.0, RUNNING, "Most megabytes of a pushed document", gt=0, le=200)
    push_documents: int = row("RAG_PUSH_DOCUMENTS", 10_000, RUNNING, "Most documents that are pushed for a bot", ge=1)
    push_total_mb: float = row("RAG_PUSH_TOTAL_MB", 2000.0, RUNNING, "Most megabytes of all of them together", gt=0)
    mcp_token: SecretStr | None = row(
        "RAG_MCP_TOKEN",
        None,
        RUNNING,
        "Bearer token that `rag mcp --http` asks for",
        unset="a new one at each start, which is printed",
        allowed="at least 16 characters",
        min_length=16,
    )
    dev_token: SecretStr | None = row(
        "RAG_DEV_TOKEN",
        None,
        RUNNING,
        "Token that the UI of `rag dev` asks for",
        unset="none on this machine's own address, and a new one at each start where others reach it",
        allowed="at least 16 characters",
        min_length=16,
    )
    dev_hosts: Words = row(
        "RAG_DEV_HOSTS",
        (),
        RUNNING,
        "Further names under which browsers reach `rag dev`, such as that of a proxy",
        allowed="names, separated by commas",
        unset="none",
    )
    actor: str | None = row(
        "RAG_ACTOR",
        None,
        RUNNING,
        "Who is written down in the audit of profiles as having promoted, rolled back or retired one",
        unset="the user of the operating system",
    )
    debug: Flag = row("RAG_DEBUG", False, RUNNING, "Print where an error of `rag` comes from")

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            # Pydantic would take values without their names as options of its own, and say nothing.
            super().__init__(**values)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What the caller gives, else the environment; no file is read."""
        return init_settings, _Environment(settings_cls)

    def __reduce__(self) -> NoReturn:
        raise TypeError("settings hold keys and are not pickled: another process reads its own environment")

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"


def load_settings() -> Settings:
    """What the environment says now.

    Raises:
        UsageError: a variable has a value that it may not have; the text names it and what is allowed.
    """
    try:
        return Settings()
    except ValidationError as error:
        faults = "; ".join(faults_of(error).values())
    raise UsageError(faults)  # here: in the `except` block it would keep pydantic's error, and that one the values


def read_variable(name: str) -> str | None:
    """The text of one variable, be it of the table or one that a profile names for its key; None if blank."""
    return os.environ.get(name, "").strip() or None


def unknown_variables() -> dict[str, str | None]:
    """The variables of the environment that are named like ours and are none of them, each with the one that may have
    been meant."""
    referred = (read_variable("RAG_PARSE_ENV") or "").split(",")
    return strangers(os.environ, [variable.name for variable in variables()], referred)


def faults_of(error: ValidationError) -> dict[str, str]:
    """What is wrong with the environment, by the name of the variable."""
    table = {variable.name: variable for variable in variables()}
    faults = error.errors(include_url=False, include_input=False)
    # One that follows from a wrong value is left out.
    found = {str(fault["loc"][0]): fault for fault in faults if fault["type"] != "default_factory_not_called"}
    return {name: _said(table[name], fault.get("ctx", {}).get("error")) for name, fault in found.items()}


def _said(variable: Variable, reason: object) -> str:
    if isinstance(reason, AddressFault):
        return f"{variable.name} {reason}"
    return f"{_assignment(variable)}: it has to be {variable.allowed}"


def variables() -> list[Variable]:
    """The table, group by group."""
    every = [described(name, field) for name, field in Settings.model_fields.items()]
    parts = ("", SIGNING, SERVING)  # made apart, and the last
    return sorted(every, key=lambda variable: parts.index(variable.group if variable.group in parts else ""))


def markdown() -> str:
    """The table as docs/configuration.md."""
    return page_of(variables())


def bundled(name: str) -> Path:
    """A file or folder that ships beside the package: `sql`, `dagster.yaml`.

    In a checkout it lies at the top of the repository, in an installed wheel inside the package.
    """
    installed = _PACKAGE / "_bundled" / name
    return installed if installed.exists() else _PACKAGE.parent / name


def _assignment(variable: Variable) -> str:
    return variable.name if variable.secret else f"{variable.name}={read_variable(variable.name)}"


if __name__ == "__main__":
    print(markdown(), end="")
