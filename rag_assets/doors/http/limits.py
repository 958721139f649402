"""What the HTTP door lets in at once, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from rag_assets.settings import Settings

MAX_BODY_BYTES = 1_000_000
BODY_SECONDS, PUSH_SECONDS = 10.0, 60.0  # from the head of a request to the end of its body
HEAD_SECONDS = 10.0  # for the head of a request
IDLE_SECONDS = 30.0  # between two requests of a connection
MAX_HEAD_BYTES = 65_536
MAX_CONNECTIONS = 1_000


@dataclass(frozen=True)
class Intake:
    """What a request may bring: so many bytes, of one of these types (empty: of any), within so many seconds.
    `is_whole`: it is read before the route is asked; else the route reads it as it comes."""

    max_bytes: int = MAX_BODY_BYTES
    types: tuple[str, ...] = ("application/json",)
    seconds: float = BODY_SECONDS
    is_whole: bool = True


ASKED = Intake()


@dataclass(frozen=True)
class Limits:
    """What an operator may set.

    Attributes:
        rate: requests a second of one token; twice as many at once.
        seconds: that a request may take once its body is there.
        concurrent: requests that are answered at a time; more are sent away.
        hosts: names that a request may be sent to, in lower case and without port; empty for any.
        origins: pages whose requests are let in, as browsers name them in `Origin`.
        metrics_token: what a scrape of metrics has to bring; None: it has to come from this machine.
        proxies: addresses of proxies whose `X-Forwarded-For` is believed.
        push_bytes: that one pushed document may have.
    """

    rate: float = 100.0
    seconds: float = 30.0
    concurrent: int = 64
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    metrics_token: str | None = field(default=None, repr=False)
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    push_bytes: int = 20 * 2**20

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """What the environment says."""
        return cls(
            rate=settings.serve_rate,
            seconds=settings.serve_seconds,
            concurrent=settings.serve_concurrent,
            hosts=tuple(name.lower() for name in settings.serve_hosts),
            origins=settings.serve_origins,
            metrics_token=settings.serve_metrics_token.get_secret_value() if settings.serve_metrics_token else None,
            proxies=settings.serve_proxies,
            push_bytes=int(settings.push_file_mb * 2**20),
        )

    def intake(self, method: str, path: str) -> Intake:
        """What a request to this path may bring."""
        if method == "PUT" and path.startswith("/sources/"):
            # The route reads it, after it was seen whether the token may push.
            return Intake(self.push_bytes + MAX_BODY_BYTES, (), PUSH_SECONDS, is_whole=False)
        return ASKED
