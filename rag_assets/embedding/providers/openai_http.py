"""One request of OpenAI's embeddings protocol over HTTP: sent, bounded in time and size, and read with suspicion.

No error of this module holds a key, a text, or words of the server, which may repeat either.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.providers.requests import Secret, Transient, seconds_of, status_failure, within
from rag_assets.errors import EmbeddingError, ProviderRefused, ProviderUnavailable, RagError
from rag_assets.printing import counted

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_LARGEST_BODY = 256 * 2**20  # an answer of 256 vectors of 4,000 numbers has 25 MB

# Names of the protocol that may stand in a message. Anything else that a server writes there stays out.
_CODES = {
    "context_length_exceeded", "insufficient_quota", "invalid_api_key", "invalid_request_error", "model_not_found",
    "rate_limit_exceeded", "server_error", "string_above_max_length", "unsupported_parameter", "unsupported_value",
}  # fmt: skip
# A 400 about one of these would be the same for any text.
_PARAMETERS = {"model", "dimensions", "encoding_format", "input_type"}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


@dataclass(frozen=True)
class Address:
    """A server's base URL, up to and with `/v1`, and how to find the key for it when the first request is sent."""

    base_url: str
    find_key: Callable[[], Secret | None]


@dataclass(frozen=True)
class Answer:
    """Rows by position, not yet checked, and the tokens that the server counted, if it did."""

    vectors: list[NDArray[np.float64]]
    tokens: int | None


@dataclass
class Raw:
    """What came back, with any status: kept apart from httpx' response, which refers to the request."""

    status: int
    headers: httpx.Headers
    body: bytes = field(repr=False)


class OpenAIClient:
    """The connections to one server. They are made, and the key read, by the first request; any thread may send."""

    def __init__(self, address: Address, what: str) -> None:
        self.what = f"{what} at {urlsplit(address.base_url).hostname}"
        self._address = address
        self._making = Lock()
        self._http: httpx.Client | None = None
        self._key: Secret | None = None

    def embed(self, body: dict[str, object], items: int, seconds: float) -> Answer:
        """Send one request, which ends within so many seconds whatever the server does.

        Raises:
            Transient: a failure that may pass.
            EmbeddingError: one that will not, as its subclasses say.
        """
        raw = self.post("embeddings", body, seconds)
        if 200 <= raw.status < 300:
            return _answer(self.what, raw.body, items)
        raise _failure(self.what, raw, self._key is not None)

    def post(self, path: str, body: dict[str, object], seconds: float, largest: int = _LARGEST_BODY) -> Raw:
        """What the server answers to one request, which ends within so many seconds, and at so many bytes.

        Raises:
            Transient: a failure that may pass.
            ProviderRefused: it cannot be sent, or the key is missing.
            EmbeddingError: the answer is too large.
        """
        client, key = self._open()
        url = f"{self._address.base_url}/{path}"
        try:
            return within(seconds, lambda: _post(client, url, body, key, seconds, largest))
        except (Transient, RagError):
            raise
        except httpx.HTTPError as error:
            failure: Exception = Transient(f"the connection failed ({type(error).__name__})")
        except Exception as error:  # of a library below httpx, like UnicodeError for a host name
            failure = ProviderRefused(f"{self.what}: the request cannot be sent ({type(error).__name__})")
        # Not in the `except` block: there the error would keep the one before, and with it the request, as context.
        raise failure

    def close(self) -> None:
        """Close the connections. The next request makes new ones."""
        with self._making:
            if self._http is not None:
                self._http.close()
            self._http = None

    def _open(self) -> tuple[httpx.Client, Secret | None]:
        with self._making:
            if self._http is None:
                self._key = self._address.find_key()
                # A proxy of the environment serves the way out; one between two processes of this machine gets the
                # key for nothing. A redirect would take the texts to a server that nobody named.
                outside = urlsplit(self._address.base_url).hostname not in _LOOPBACK
                self._http = httpx.Client(follow_redirects=False, trust_env=outside)
            return self._http, self._key


def _post(
    client: httpx.Client, url: str, body: dict[str, object], key: Secret | None, seconds: float, largest: int
) -> Raw:
    deadline = time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    with client.stream("POST", url, json=body, headers=headers, timeout=seconds) as response:
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > largest:
                raise EmbeddingError(f"an answer of more than {counted(largest, 'byte')} is no answer")
            # The timeout of httpx is for one read; without this the thread of a request that was given up would read
            # for as long as the server sends a byte now and then.
            if time.monotonic() > deadline:
                raise Transient(f"no complete answer within {seconds:.3g} s")
            parts.append(part)
        return Raw(response.status_code, response.headers, b"".join(parts))


def _answer(what: str, body: bytes, items: int) -> Answer:
    parsed = json_object(body)
    if parsed is None:
        raise Transient("the answer is no JSON")
    error = parsed.get("error")
    if isinstance(error, dict) and isinstance(error.get("code"), int):  # some gateways report a failure with status 200
        raise status_failure(what, error["code"])
    data = parsed.get("data")
    if not isinstance(data, list):
        raise EmbeddingError(f"{what} sent an answer of a form that embeddings do not have")
    return Answer([_vector(what, entry) for entry in _by_index(what, data, items)], _tokens(parsed.get("usage")))


def json_object(body: bytes) -> dict[str, Any] | None:
    """What a body says; None if it is no JSON, and empty if it is no object."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else {}


def _by_index(what: str, data: list[Any], items: int) -> list[dict[str, Any]]:
    """The entries in the order of the texts. Without any index they are taken as they come."""
    if len(data) != items:
        raise EmbeddingError(f"{what} returned {counted(len(data), 'vector')} for {counted(items, 'text')}")
    entries = [entry if isinstance(entry, dict) else {} for entry in data]
    indices = [entry.get("index") for entry in entries]
    if all(index is None for index in indices):
        return entries
    placed: dict[int, dict[str, Any]] = {}
    for index, entry in zip(indices, entries, strict=True):
        if type(index) is not int or not 0 <= index < items:
            raise EmbeddingError(f"{what} returned a vector for no text: its index is not one of 0 to {items - 1}")
        if index in placed:
            raise EmbeddingError(f"{what} returned two vectors for text {index}")
        placed[index] = entry
    return [placed[index] for index in range(items)]


def _vector(what: str, entry: dict[str, Any]) -> NDArray[np.float64]:
    """One vector, as numbers or as base64 of little-endian float32, whichever the server sent."""
    value = entry.get("embedding")
    numbers = _decoded(value) if isinstance(value, str) else _floats(value)
    if numbers is None:
        raise EmbeddingError(f"{what} returned a vector that is neither numbers nor base64 of float32")
    return numbers


def _decoded(value: str) -> NDArray[np.float64] | None:
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
    except (binascii.Error, ValueError):
        return None


def _floats(value: object) -> NDArray[np.float64] | None:
    if not isinstance(value, list) or not all(type(number) in (float, int) for number in value):
        return None
    try:
        return np.array(value, dtype=np.float64)
    except OverflowError:
        return None


def _tokens(usage: object) -> int | None:
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and tokens >= 0 else None


def _failure(what: str, raw: Raw, with_key: bool) -> Exception:
    error = (json_object(raw.body) or {}).get("error")
    fields = error if isinstance(error, dict) else {}
    code = code_of(fields)
    if raw.status == 429 and "insufficient_quota" in (fields.get("code"), fields.get("type")):
        return ProviderUnavailable(
            f"{what}: the quota of this key is used up (insufficient_quota), and waiting does not renew it; "
            "what was embedded so far is kept, so run it again when there is credit"
        )
    if raw.status == 400 and (fields.get("param") in _PARAMETERS or code in ("invalid_api_key", "model_not_found")):
        named = fields["param"] if fields.get("param") in _PARAMETERS else code
        return ProviderRefused(f"{what} refuses the request for its {named}: HTTP 400")
    if raw.status in (401, 403) and not with_key:
        return ProviderRefused(f"{what} wants a key and was sent none: name its variable in the profile's key_env")
    return status_failure(what, raw.status, retry_after(raw.headers), code)


def code_of(error: dict[str, Any]) -> str:
    """The name that the protocol has for a failure; empty for anything else that stands there."""
    return next(
        (name for name in (error.get("code"), error.get("type")) if isinstance(name, str) and name in _CODES), ""
    )


def retry_after(headers: httpx.Headers) -> float | None:
    """The pause that the server asks for, in seconds: by the standard's header or by OpenAI's own."""
    if (milliseconds := seconds_of(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (told := seconds_of(headers.get("retry-after"))) is not None:
        return told
    used_up = (kind for kind in ("requests", "tokens") if headers.get(f"x-ratelimit-remaining-{kind}") == "0")
    resets = [_duration(headers.get(f"x-ratelimit-reset-{kind}", "")) for kind in used_up]
    return max((seconds for seconds in resets if seconds is not None), default=None)


def _duration(value: str) -> float | None:
    """Seconds of `1h2m3.5s` or `20ms`."""
    match = _DURATION.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
