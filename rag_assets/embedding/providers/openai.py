"""Any server that speaks OpenAI's embeddings protocol: OpenAI itself, vLLM, Ollama, text-embeddings-inference.

The address is the profile's `base_url`, else `OPENAI_BASE_URL`, else OpenAI's. A key is sent only where whoever set it
meant it to go: that of the profile's `key_env` to the profile's address, `OPENAI_API_KEY` to the address of the
environment or OpenAI's own, and never to one that a profile names.

What such servers do with a text that is too long differs: some refuse it, some cut it without a word. Where the limit
is known, from the registry or from `max_input_tokens`, texts are cut into windows of at most as many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from urllib.parse import urlsplit

import numpy as np

from rag_assets.embedding.check import check_texts, checked
from rag_assets.embedding.models import estimated_tokens
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Gate, OpenGate, Usage
from rag_assets.embedding.providers.families import Prefixes, Role, prefixes_of
from rag_assets.embedding.providers.openai_http import Address, Answer, OpenAIClient
from rag_assets.embedding.providers.requests import (
    FOR_DOCUMENTS,
    FOR_QUERIES,
    RetryPolicy,
    api_key,
    call_with_retries,
    find_key,
    json_bytes,
    plan_batches,
    provider_and_model,
)
from rag_assets.embedding.providers.windows import Window, byte_windows, mean_of_windows
from rag_assets.errors import InvalidProfile, ProviderRefused, TextRefused
from rag_assets.printing import counted
from rag_assets.settings import load_settings

KEY_NAME = "OPENAI_API_KEY"
OPENAI_HOST = "api.openai.com"

_ITEM_BYTES = 8  # of JSON around each text of a request
_RESERVE = 8  # tokens of a window that are not in its text: begin, end, and a tokenizer's own leading blank
_LEAST_ROOM = 8  # bytes beside the prefix: below that nothing sensible is embedded
_QUERY_WINDOWS = 16  # a search text that needs more is none, and could not be answered in time


class OpenAICompatibleEmbedder:
    """Embeds through one server; safe to use from several threads.

    The key is read from the environment by the first call. `documents` and `queries` say how long a call may take.
    """

    def __init__(
        self, profile: EmbeddingProfile, documents: RetryPolicy = FOR_DOCUMENTS, queries: RetryPolicy = FOR_QUERIES
    ) -> None:
        self.model_key = profile.model_key
        self.batch_items = profile.model_info.batch_items
        self.dimensions = profile.dimensions
        self._profile = profile
        self._info = profile.model_info
        self._policies: dict[Role, RetryPolicy] = {"document": documents, "query": queries}
        self._prefixes = _prefixes(profile)
        self._room = _room(profile, self._prefixes)
        self._client = OpenAIClient(address_of(profile), provider_and_model(profile))

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_documents`. `usage.items` counts the windows of long texts; `usage.tokens` is what the
        server says, and where it says nothing UTF-8 bytes / 4.

        More than one request is sent only for long texts; if one is refused, those before it are paid for in vain.
        """
        check_texts(texts)
        policy = self._policies["document"].within(caller.wait_s, caller.tries)
        return self._embed([self._windows(text) for text in texts], "document", caller, caller.gate, policy)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_query`. It passes the gate without waiting, and tries twice within a few seconds.

        Raises:
            TextRefused: also for a text that is longer than any question.
        """
        check_texts([text])
        windows = self._windows(text)
        if len(windows) > _QUERY_WINDOWS:
            raise TextRefused(f"a search text of {counted(len(text), 'character')} is too long for {self._client.what}")
        return self._embed([windows], "query", caller, OpenGate(), self._policies["query"])

    def close(self) -> None:
        """Close the connections. The next call makes new ones."""
        self._client.close()

    def _windows(self, text: str) -> list[Window]:
        if self._room is None:
            return [Window(text, 1)]
        return byte_windows(text, self._room)

    def _embed(
        self, windows: list[list[Window]], role: Role, caller: Caller, gate: Gate, policy: RetryPolicy
    ) -> Embedded:
        prefix = self._prefixes.query if role == "query" else self._prefixes.document
        inputs = [prefix + window.text for window in chain.from_iterable(windows)]
        sizes = [json_bytes(text) + _ITEM_BYTES for text in inputs]
        vectors = np.empty((len(inputs), self.dimensions), dtype=np.float32)
        tokens = 0
        # No tokenizer makes more tokens than bytes, and what one makes of digits, code or Thai comes close to that.
        most = [len(text.encode("utf-8")) for text in inputs]
        info = self._info
        for batch in plan_batches(sizes, info.batch_items, info.batch_bytes, most, info.batch_tokens):
            sent = inputs[batch.start : batch.stop]
            answer = self._request(sent, role, gate, policy)
            vectors[batch.start : batch.stop] = checked(answer.vectors, len(sent), self.dimensions, self._client.what)
            tokens += answer.tokens if answer.tokens is not None else sum(map(estimated_tokens, sent))
        usage = Usage(caller.tenant, caller.bot, len(inputs), tokens, self._info.cost_usd(tokens))
        return Embedded(mean_of_windows(vectors, windows, self.dimensions), usage)

    def _request(self, inputs: list[str], role: Role, gate: Gate, policy: RetryPolicy) -> Answer:
        body: dict[str, object] = {
            "model": self._profile.model,
            "input": inputs,
            "encoding_format": self._profile.options.encoding_format,
        }
        if self._profile.options.send_dimensions or self._profile.model.startswith("text-embedding-3-"):
            body["dimensions"] = self.dimensions
        if told := self._profile.options.input_type.get(role):
            body["input_type"] = told
        return call_with_retries(
            lambda seconds: self._client.embed(body, len(inputs), seconds),
            what=self._client.what,
            gate=gate,
            items=len(inputs),
            tokens=sum(map(estimated_tokens, inputs)),
            policy=policy,
        )


def _prefixes(profile: EmbeddingProfile) -> Prefixes:
    # A server that is told the role in a field puts the prefix there itself; only an explicit one goes before that.
    own, told = prefixes_of(profile), profile.options.input_type
    given = profile.task_instruction
    return Prefixes(
        query=given.get("query", "") if "query" in told else own.query,
        document=given.get("document", "") if "document" in told else own.document,
    )


def _room(profile: EmbeddingProfile, prefixes: Prefixes) -> int | None:
    """Bytes of a text in one window: no tokenizer makes more tokens than bytes, but for a few of its own."""
    limit = profile.max_input_tokens
    if limit is None:
        return None
    room = limit - _RESERVE - max(len(text.encode("utf-8")) for text in (prefixes.query, prefixes.document))
    if room < _LEAST_ROOM:
        raise InvalidProfile(f"profile {profile.name!r}: max_input_tokens {limit} leaves no room beside the prefix")
    return room


def address_of(profile: EmbeddingProfile) -> Address:
    """Where a profile's requests go; see `server_address`."""
    return server_address(provider_and_model(profile), profile.options.base_url, profile.options.key_env)


def server_address(what: str, own: str | None, key_env: str | None) -> Address:
    """Where requests go, and how to find the key for there. `own`: the address that a profile names, `key_env`: the
    variable of its key.

    Raises:
        ProviderRefused: `OPENAI_BASE_URL` is no plain http or https address.
    """
    base_url = own or load_settings().openai_base_url.rstrip("/")
    url = urlsplit(base_url)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password or url.query:
        raise ProviderRefused("OPENAI_BASE_URL is no plain http or https address")
    is_openai = url.hostname == OPENAI_HOST
    # A key that is named never falls back to another's: that would put one tenant's work on the bill of another.
    names = [key_env] if key_env else [] if own and not is_openai else [KEY_NAME]
    # Many servers of one's own want no key. Whoever names a variable wants it used, though.
    find = api_key if is_openai or key_env else find_key
    return Address(base_url, lambda: find(what, names))


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `openai-compatible`."""
    return OpenAICompatibleEmbedder(profile)
