"""Google's SDK as this package uses it: one client for each profile, and its errors turned into ours.

What the SDK does by itself is switched off: its retries, which ignore the pause that the server asks for; its
redirects, which take the key along to another host; and every choice that it makes by an environment variable.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import pydantic
from google import genai
from google.genai import errors, types
from google.genai.client import DebugConfig

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.providers.requests import (
    Transient,
    api_key,
    key_names,
    provider_and_model,
    seconds_of,
    status_failure,
    within,
)
from rag_assets.errors import EmbeddingError, ProviderRefused, ProviderUnavailable, RagError
from rag_assets.printing import counted
from rag_assets.settings import load_settings

KEY_NAMES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
API_VERSION = "v1beta"  # the only one that Google's pages show with embeddings by batch; the SDK's default changes

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_STATUS_NAME = re.compile(r"[A-Z][A-Z_]{2,40}")

_Answer = TypeVar("_Answer")
# A call of the SDK's client; the options carry the timeout, and belong into the call's `config`.
Send = Callable[[genai.Client, types.HttpOptions], _Answer]


def client_of(profile: EmbeddingProfile) -> GoogleClient:
    """The client of one profile."""
    return GoogleClient(provider_and_model(profile), key_names(profile, KEY_NAMES), failure_of)


class GoogleClient:
    """The SDK's client of one model. It is made, and the key read, by the first call; any thread may call.

    `names` are the variables that may hold the key. `failure` makes our own error of one of the SDK's: nothing of the
    request or of the server's words may be in it. An answer of more than `largest` bytes is broken off.
    """

    def __init__(
        self,
        what: str,
        names: Sequence[str],
        failure: Callable[[str, Exception], Exception],
        largest: int | None = None,
    ) -> None:
        self.what = what
        self._names, self._failure, self._largest = names, failure, largest
        self._making = Lock()
        # Kept, because a client that nobody refers to closes its connections; and so does the SDK's own HTTP client,
        # but not one that was given to it.
        self._sdk: genai.Client | None = None
        self._http: httpx2.Client | None = None

    def call(self, send: Send[_Answer], seconds: float) -> _Answer:
        """Make one call that ends within so many seconds, whatever the server does.

        Raises:
            Transient: a failure that may pass.
            RagError: one that will not, as `failure` makes it; without a key a `ProviderRefused`.
        """
        client = self._client()
        options = types.HttpOptions(timeout=max(1, round(seconds * 1000)))
        try:
            return within(seconds, lambda: send(client, options))
        except Exception as error:
            failure = self._failure(self.what, error)
        # Here and not above: an error raised in an `except` block keeps the one before as its context, and that one
        # holds the request with the key and the texts.
        raise failure

    def close(self) -> None:
        """Close the connections. The next call makes new ones."""
        with self._making:
            if self._sdk is not None:
                self._sdk.close()
            if self._http is not None:
                self._http.close()
            self._sdk = self._http = None

    def _client(self) -> genai.Client:
        with self._making:
            if self._sdk is None:
                key = api_key(self.what, self._names)
                base_url = _base_url(self.what)
                self._http = _http_client(base_url, self._largest)
                self._sdk = genai.Client(
                    api_key=key.reveal(),
                    vertexai=False,
                    debug_config=DebugConfig(client_mode=None),  # the environment could have it record all requests
                    http_options=types.HttpOptions(
                        base_url=base_url,
                        api_version=API_VERSION,
                        retry_options=types.HttpRetryOptions(attempts=1),
                        httpx_client=self._http,
                        async_client_args={"verify": _tls(), "ssl": _tls()},  # else it reads them twice, for nothing
                    ),
                )
            return self._sdk


def _base_url(what: str) -> str:
    address = load_settings().google_gemini_base_url
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ProviderRefused(f"{what}: GOOGLE_GEMINI_BASE_URL is no http or https address")
    return address


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """What this process trusts: reading the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


def _http_client(base_url: str, largest: int | None) -> httpx2.Client:
    return httpx2.Client(
        verify=_tls(),
        follow_redirects=False,
        # A proxy of the environment serves the way out; one between two processes of this machine gets the key for
        # nothing.
        trust_env=urlsplit(base_url).hostname not in _LOOPBACK,
        event_hooks={"response": [partial(_bound_body, largest)]},
    )


def _bound_body(largest: int | None, response: httpx2.Response) -> None:
    seconds = response.request.extensions.get("timeout", {}).get("read")
    if isinstance(response.stream, httpx2.SyncByteStream):
        deadline = None if seconds is None else time.monotonic() + seconds
        response.stream = _BoundedStream(response.stream, deadline, largest)


class AnswerTooLarge(httpx2.ReadError):
    """More bytes than an answer may have; the rest was not read."""


class _BoundedStream(httpx2.SyncByteStream):
    """A body that has to be complete in time, and end. Without it the thread of a call that was given up would read
    for as long as the server sends a byte now and then."""

    def __init__(self, stream: httpx2.SyncByteStream, deadline: float | None, largest: int | None) -> None:
        self._stream = stream
        self._deadline = deadline
        self._largest = largest

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if self._largest is not None and size > self._largest:
                raise AnswerTooLarge(f"more than {counted(self._largest, 'byte')}")
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the answer is not complete in time")
            yield part

    def close(self) -> None:
        self._stream.close()


def failure_of(what: str, error: Exception) -> Exception:
    """Our own error for one of the SDK's. Nothing of the request or of the server's words is in it: both may hold a
    key or a tenant's text, and the SDK's error holds both even when it is pickled."""
    if isinstance(error, (RagError, Transient)):
        return error
    if isinstance(error, errors.APIError):
        return _api_failure(what, error)
    if isinstance(error, pydantic.ValidationError):
        return EmbeddingError(f"{what} sent an answer of a form that embeddings do not have")
    if isinstance(error, httpx2.RequestError):
        return Transient(f"the connection failed ({type(error).__name__})")
    if isinstance(error, ValueError):
        return Transient("the answer is no JSON")
    return Transient(f"the answer could not be read ({type(error).__name__})")


def _api_failure(what: str, error: errors.APIError) -> Exception:
    status = status_name(error)
    if is_used_up(error):
        return ProviderUnavailable(
            f"{what}: the quota of this day is used up, and Google renews it at midnight Pacific time; "
            "what was embedded so far is kept, so run it again then"
        )
    if is_about_the_key(error):
        return ProviderRefused(
            f"{what} does not accept the key: HTTP 400{f' ({status})' if status else ''}; "
            f"check the value of {' or '.join(KEY_NAMES)} and where its project may be used from"
        )
    return status_failure(what, error.code, retry_after(error), status)


def status_name(error: errors.APIError) -> str:
    """The name that Google has for the failure, such as `RESOURCE_EXHAUSTED`; empty for anything else that stands
    there."""
    return error.status if isinstance(error.status, str) and _STATUS_NAME.fullmatch(error.status) else ""


def is_used_up(error: errors.APIError) -> bool:
    """Whether the quota of this day is used up: no pause helps."""
    return error.code == 429 and any("PerDay" in quota for quota in _quotas(error))


def is_about_the_key(error: errors.APIError) -> bool:
    """Whether the key or its project is refused: Google answers that with 400, like a wrong text."""
    if error.code != 400:
        return False
    if status_name(error) == "FAILED_PRECONDITION":
        return True
    reasons = [detail.get("reason") for detail in _details(error, "ErrorInfo")]
    return "API_KEY_INVALID" in reasons or "API key" in str(error.message)


def retry_after(error: errors.APIError) -> float | None:
    """The pause that Google asks for, in seconds."""
    told = [seconds_of(str(detail.get("retryDelay"))) for detail in _details(error, "RetryInfo")]
    headers: Any = getattr(error.response, "headers", {})
    pauses = [seconds for seconds in (*told, seconds_of(headers.get("retry-after"))) if seconds is not None]
    return max(pauses, default=None)


def _quotas(error: errors.APIError) -> list[str]:
    failures = _details(error, "QuotaFailure")
    violations = [violation for failure in failures for violation in _dicts(failure.get("violations"))]
    return [str(violation.get("quotaId")) for violation in violations]


def _details(error: errors.APIError, kind: str) -> list[dict[str, Any]]:
    body = error.details if isinstance(error.details, dict) else {}
    inner = body.get("error")
    entries = _dicts(inner.get("details")) if isinstance(inner, dict) else []
    return [entry for entry in entries if str(entry.get("@type")).endswith(kind)]


def _dicts(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
