"""Gemini's embedding models through Google's SDK.

`gemini-embedding-2` is told in the text what it is for, `gemini-embedding-001` in a field of the request. A text that
is longer than the model reads is embedded in pieces: its vector is their mean, weighted by length.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from google import genai
from google.genai import types
from numpy.typing import NDArray

from rag_assets.embedding.check import check_texts, checked
from rag_assets.embedding.models import MEDIA_PAGES, MEDIA_TOKENS, estimated_tokens
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Embedder, Gate, OpenGate, Usage
from rag_assets.embedding.providers.google_client import client_of
from rag_assets.embedding.providers.google_texts import Cutter, role_of
from rag_assets.embedding.providers.requests import (
    FOR_DOCUMENTS,
    FOR_QUERIES,
    RetryPolicy,
    call_with_retries,
    json_bytes,
    plan_batches,
)
from rag_assets.embedding.providers.windows import Window, mean_of_windows
from rag_assets.errors import EmbeddingError, ProviderRefused, TextRefused
from rag_assets.printing import counted

_ITEM_BYTES = 256  # of JSON around each text of a request
_QUERY_PIECES = 16  # a search text that needs more is none, and could not be answered in time

_SIGNATURES = {"application/pdf": b"%PDF-", "image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


@dataclass(frozen=True)
class _Item:
    """One content of a request, which gives one vector."""

    content: types.Content
    tokens: int
    json_bytes: int


class GoogleEmbedder:
    """Embeds with one of Gemini's embedding models; safe to use from several threads.

    The key is read from the environment by the first call. `documents` and `queries` say how long a call may take.
    """

    def __init__(
        self, profile: EmbeddingProfile, documents: RetryPolicy = FOR_DOCUMENTS, queries: RetryPolicy = FOR_QUERIES
    ) -> None:
        info = profile.model_info
        limit = profile.max_input_tokens or 0
        self.model_key = profile.model_key
        self.batch_items = info.batch_items
        self.dimensions = profile.dimensions
        self._info = info
        self._client = client_of(profile)
        self._policies = {"document": documents, "query": queries}
        self._document_role, self._query_role = role_of(profile, "document"), role_of(profile, "query")
        self._documents, self._queries = Cutter(limit, self._document_role), Cutter(limit, self._query_role)

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_documents`. `usage.items` counts the pieces of long texts; `usage.tokens` is what the
        provider says, and where it says nothing UTF-8 bytes / 4.

        More than `batch_items` texts, or long ones, are several requests; if one fails, those before it were paid for
        in vain.
        """
        check_texts(texts)
        policy = self._policies["document"].within(caller.wait_s, caller.tries)
        groups = [self._documents.pieces(text, partial(self._count_tokens, policy)) for text in texts]
        items = [_text_item(self._document_role.prefix + piece) for group in groups for piece in group]
        vectors, tokens = self._embed(items, self._document_role.task_type, caller.gate, policy)
        usage = Usage(caller.tenant, caller.bot, len(items), tokens, self._info.cost_usd(tokens))
        return Embedded(mean_of_windows(vectors, _windows(groups), self.dimensions), usage)

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        """See `Embedder.embed_query`. It passes the gate without waiting, and tries twice within a few seconds.

        Raises:
            TextRefused: also for a text that is longer than any question.
        """
        check_texts([text])
        pieces = self._queries.pieces(text)
        if len(pieces) > _QUERY_PIECES:
            raise TextRefused(f"a search text of {counted(len(text), 'character')} is too long")
        items = [_text_item(self._query_role.prefix + piece) for piece in pieces]
        vectors, tokens = self._embed(items, self._query_role.task_type, OpenGate(), self._policies["query"])
        usage = Usage(caller.tenant, caller.bot, len(items), tokens, self._info.cost_usd(tokens))
        return Embedded(mean_of_windows(vectors, _windows([pieces]), self.dimensions), usage)

    def embed_media(self, data: bytes, mime_type: str, caller: Caller = NOBODY) -> Embedded:
        """Embed a PDF of at most 6 pages, a PNG or a JPEG image as such; vectors (1, d) in the space of the texts.

        Raises:
            TextRefused: of another type than it says, too large, with too many pages or unreadable; or the model
                embeds only text.
            EmbeddingError: as for a text.
        """
        item = self._media_item(data, mime_type)
        vectors, tokens = self._embed(
            [item], None, caller.gate, self._policies["document"].within(caller.wait_s, caller.tries)
        )
        usage = Usage(caller.tenant, caller.bot, 1, tokens, tokens * self._info.media_price_usd / 1e6)
        return Embedded(vectors, usage)

    def close(self) -> None:
        """Close the connections to the provider."""
        self._client.close()

    def _embed(
        self, items: Sequence[_Item], task_type: str | None, gate: Gate, policy: RetryPolicy
    ) -> tuple[NDArray[np.float32], int]:
        """Unit vectors (n, d) of n items, and the tokens that they cost."""
        sizes = [item.json_bytes for item in items]
        batches = plan_batches(sizes, self._info.batch_items, self._info.batch_bytes)
        rows, tokens = [np.empty((0, self.dimensions), dtype=np.float32)], 0
        for batch in batches:
            vectors, read = self._request(items[batch.start : batch.stop], task_type, gate, policy)
            rows.append(vectors)
            tokens += read
        return np.concatenate(rows), tokens

    def _request(
        self, items: Sequence[_Item], task_type: str | None, gate: Gate, policy: RetryPolicy
    ) -> tuple[NDArray[np.float32], int]:
        # Contents and never bare strings: the SDK merges those into one content, which gets one vector.
        contents: list[types.ContentUnion] = [item.content for item in items]

        def send(client: genai.Client, options: types.HttpOptions) -> types.EmbedContentResponse:
            config = types.EmbedContentConfig(
                output_dimensionality=self.dimensions, task_type=task_type, http_options=options
            )
            return client.models.embed_content(model=self._info.model, contents=contents, config=config)

        estimate = sum(item.tokens for item in items)
        answer = call_with_retries(
            lambda seconds: self._client.call(send, seconds),
            what=self._client.what,
            gate=gate,
            items=len(items),
            tokens=estimate,
            policy=policy,
        )
        vectors = checked(self._values(answer, len(items)), len(items), self.dimensions, self._client.what)
        told = answer.usage_metadata.prompt_token_count if answer.usage_metadata else None
        return vectors, told or estimate

    def _values(self, answer: types.EmbedContentResponse, n: int) -> list[list[float]]:
        rows = [embedding.values or [] for embedding in answer.embeddings or []]
        if len(rows) != n:
            raise EmbeddingError(
                f"{self._client.what} returned {counted(len(rows), 'vector')} for {counted(n, 'text')}"
            )
        for position, row in enumerate(rows):
            if not row:  # also with status 200: for media of a kind that the model does not read
                raise EmbeddingError(f"{self._client.what} returned no vector for text {position} of {n}")
        return rows

    def _count_tokens(self, policy: RetryPolicy, text: str) -> int | None:
        """What the model makes of a text; None where the provider does not say, which is no reason to fail."""

        def send(client: genai.Client, options: types.HttpOptions) -> types.CountTokensResponse:
            contents: list[types.ContentUnion] = [_text_content(text)]
            config = types.CountTokensConfig(http_options=options)
            return client.models.count_tokens(model=self._info.model, contents=contents, config=config)

        try:
            # Counting costs nothing and is limited apart from embedding, so it does not pass the gate.
            return call_with_retries(
                lambda seconds: self._client.call(send, seconds),
                what=self._client.what,
                gate=OpenGate(),
                items=1,
                tokens=0,
                policy=policy,
            ).total_tokens
        except (ProviderRefused, TextRefused):
            return None

    def _media_item(self, data: bytes, mime_type: str) -> _Item:
        if mime_type not in self._info.media:
            raise TextRefused(f"{self._client.what} does not embed {mime_type}")
        if not data.startswith(_SIGNATURES[mime_type]):
            raise TextRefused(f"the bytes are no {mime_type}")
        size = len(base64.b64encode(data)) + _ITEM_BYTES
        if size > self._info.batch_bytes:
            raise TextRefused(
                f"{counted(len(data), 'byte is', 'bytes are')} too many for one request to {self._client.what}"
            )
        pages = _pages(data) if mime_type == "application/pdf" else 1
        content = types.Content(parts=[types.Part.from_bytes(data=data, mime_type=mime_type)])
        return _Item(content, pages * MEDIA_TOKENS, size)


def _pages(data: bytes) -> int:
    # pypdf and not PDFium, which may run in one thread of a process only; and not at the top, because most profiles
    # embed only text and its import takes 50 ms.
    from pypdf import PdfReader

    try:
        pages = len(PdfReader(io.BytesIO(data), strict=False).pages)
    # It raises many kinds of errors for damaged files, and none of them is the embedder's.
    except Exception as error:
        raise TextRefused(f"the pages of the PDF cannot be counted: {error}") from error
    if not 1 <= pages <= MEDIA_PAGES:
        raise TextRefused(f"a PDF of {counted(pages, 'page')}: only up to {MEDIA_PAGES} are embedded as such")
    return pages


def _text_content(text: str) -> types.Content:
    return types.Content(parts=[types.Part(text=text)])


def _windows(groups: list[list[str]]) -> list[list[Window]]:
    """The pieces of each text, weighted by their UTF-8 bytes: Google tells no tokens of single texts."""
    return [[Window(piece, len(piece.encode("utf-8"))) for piece in group] for group in groups]


def _text_item(text: str) -> _Item:
    return _Item(_text_content(text), estimated_tokens(text), json_bytes(text) + _ITEM_BYTES)


def build(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile whose provider is `google`."""
    return GoogleEmbedder(profile)
