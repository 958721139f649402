"""The settings of embedding providers, a part of `Settings`."""

from __future__ import annotations

from typing import Annotated

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from rag_assets.addresses import http_address
from rag_assets.settings_values import BATCHES, PROVIDERS, address, row


class ProviderSettings(BaseSettings):
    """Where embedding providers are, and how much is asked of them and of this machine.

    Attributes with a meaning beyond their variable's:
        gemini_api_key, google_api_key, openai_api_key: for `rag config`. Who sends a key reads it at that moment, from
            the variable that the profile says (`read_variable`).
    """

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
        "RAG_ONNX_THREADS",
        None,
        PROVIDERS,
        "Processors that models of the provider `onnx` use in one process",
        unset="those that the process may run on",
        ge=1,
        le=256,
    )

    batch_min_items: int = row(
        "RAG_BATCH_MIN_ITEMS", 200, BATCHES, "Fewer missing texts than this are embedded at once", ge=1
    )
    batch_job_items: int = row(
        "RAG_BATCH_JOB_ITEMS",
        1000,
        BATCHES,
        "Texts of one job; in larger ones, results were seen to be mixed up",
        ge=1,
    )
    batch_tokens: int = row(
        "RAG_BATCH_TOKENS",
        500_000,
        BATCHES,
        "Estimated tokens under way in all tenants' jobs of one model and key; Google allows 500,000, five or ten "
        "million, by the account's tier",
        ge=1,
    )
