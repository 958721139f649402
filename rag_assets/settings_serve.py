"""The settings of `rag serve`, a part of `Settings`."""

from __future__ import annotations

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from rag_assets.settings_values import Words, row

SERVING = "Serving over HTTP"


class ServeSettings(BaseSettings):
    """What the HTTP door lets in, and how long it waits."""

    serve_rate: float = row(
        "RAG_SERVE_RATE",
        100.0,
        SERVING,
        "Requests a second that one token may make; twice as many at once",
        gt=0,
        le=1e6,
    )
    serve_seconds: float = row(
        "RAG_SERVE_SECONDS",
        30.0,
        SERVING,
        "Seconds that a request may take once its body is there",
        gt=0,
        le=3600,
    )
    serve_concurrent: int = row(
        "RAG_SERVE_CONCURRENT",
        64,
        SERVING,
        "Requests that are answered at a time; more are told to come again",
        ge=1,
        le=10_000,
    )
    serve_hosts: Words = row(
        "RAG_SERVE_HOSTS",
        (),
        SERVING,
        "Names under which `rag serve` may be asked, in the header `Host`",
        allowed="names without ports, separated by commas",
        unset="any",
    )
    serve_origins: Words = row(
        "RAG_SERVE_ORIGINS",
        (),
        SERVING,
        "Pages whose requests are let in, as browsers name them in `Origin`, such as `https://chat.example.com`",
        allowed="origins, separated by commas",
        unset="none",
    )
    serve_metrics_token: SecretStr | None = row(
        "RAG_SERVE_METRICS_TOKEN",
        None,
        SERVING,
        "Bearer token that `GET /metrics` of `rag serve` asks for",
        unset="none: only who asks from this machine, and not through a proxy, is told",
        allowed="at least 16 characters",
        min_length=16,
    )
    serve_proxies: Words = row(
        "RAG_SERVE_PROXIES",
        ("127.0.0.1", "::1"),
        SERVING,
        "Addresses of proxies whose `X-Forwarded-For` is believed",
        allowed="addresses or networks, separated by commas",
        unset="`127.0.0.1,::1`",
    )
