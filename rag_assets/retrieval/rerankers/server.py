"""A reranker behind a server, in the words of Cohere, Jina or text-embeddings-inference (TEI).

Where requests go and how long they may take is as for embeddings: no redirect is followed, no answer is without an end,
and no error holds a key, a text, or words of the server.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rag_assets.addresses import AddressFault, plain_http_address
from rag_assets.chat.served import check_model, check_variable
from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.openai_http import Address, OpenAIClient, Raw, retry_after
from rag_assets.embedding.providers.requests import Transient, api_key, status_failure
from rag_assets.errors import EmbeddingError, InvalidArgument, ProviderUnavailable, shown
from rag_assets.retrieval.rerankers.protocol import Scores

Shape = Literal["cohere", "jina", "tei"]

_LARGEST_BODY = 16 * 2**20  # some servers send the passages back
_TRIES = 2  # somebody waits
_PAUSE_S = 0.2
_LONGEST_S = 60.0


@dataclass(frozen=True)
class _Form:
    """How one kind of server is asked, at most `batch` passages at a time, and what it calls a score."""

    batch: int
    score: str
    texts: str = "documents"
    home: str | None = None


_FORMS: Mapping[Shape, _Form] = {
    "cohere": _Form(1000, "relevance_score", home="https://api.cohere.com/v2"),
    "jina": _Form(1000, "relevance_score", home="https://api.jina.ai/v1"),
    "tei": _Form(32, "score", texts="texts"),  # its default limit; above it the whole request is refused
}


class ServerReranker:
    """Scores of one model of one server."""

    def __init__(
        self,
        shape: Shape,
        *,
        base_url: str | None = None,
        model: str | None = None,
        api_key_env: str | None = None,
        logits: bool = False,
    ) -> None:
        """`base_url`: the server's address up to `/rerank`, which is put behind it; of `cohere` and `jina` their own if
        left out, and then `api_key_env` is needed: the environment variable that holds the key. `model`: needed by
        `cohere` and `jina`; a `tei` server has one. `logits`: the server's scores are no shares yet (llama.cpp), and
        their sigmoid is taken.

        Raises:
            InvalidArgument: names the argument that is missing or of the wrong kind.
        """
        if shape not in get_args(Shape):
            raise InvalidArgument(f"shape must be one of {', '.join(get_args(Shape))}, got {shown(shape)}", "shape")
        if not isinstance(logits, bool):
            raise InvalidArgument(f"logits must be True or False, got {shown(logits)}", "logits")
        if (model is None) != (shape == "tei"):
            raise InvalidArgument("model is named of 'cohere' and 'jina', and of no 'tei' server", "model")
        self._form = _FORMS[shape]
        address = _address(base_url, self._form)
        key_name = check_variable(api_key_env)
        if base_url is None and key_name is None:
            raise InvalidArgument(f"api_key_env must name the variable that holds the key of {address}", "api_key_env")
        self._model = None if model is None else check_model(model)
        self._logits = logits
        what = f"rerank_server/{shape}" + (f"/{model}" if model else "")
        self._client = OpenAIClient(Address(address, lambda: api_key(what, [key_name]) if key_name else None), what)

    @property
    def name(self) -> str:
        """See `Reranker.name`."""
        return self._client.what

    def score(self, query: str, texts: Sequence[str], caller: Caller) -> Scores:
        """See `Reranker.score`. What fails for a reason that may pass is sent a second time.

        Raises:
            ProviderUnavailable: no answer in time.
            ProviderRefused, TextRefused: the key, the model or the request is refused.
            EmbeddingError: the answer is of another form.
        """
        deadline = time.monotonic() + (_LONGEST_S if caller.wait_s is None else caller.wait_s)
        pairs: list[tuple[object, object]] = []
        for start in range(0, len(texts), self._form.batch):
            part = texts[start : start + self._form.batch]
            for index, score in self._pairs(self._answer(query, part, deadline)):
                # What is none of this part's must not become another part's.
                own = type(index) is int and 0 <= index < len(part)
                pairs.append((start + index if own else None, score))  # type: ignore[operator]
        return Scores(pairs)

    def close(self) -> None:
        """Close the connections. The next request makes new ones."""
        self._client.close()

    def _answer(self, query: str, texts: Sequence[str], deadline: float) -> Any:
        body: dict[str, object] = {"query": query, self._form.texts: list(texts)}
        if self._model is None:
            body |= {"raw_scores": self._logits, "truncate": True}
        else:
            body |= {"model": self._model, "top_n": len(texts)}
        number = 1
        while True:
            try:
                return self._sent(body, max(0.001, deadline - time.monotonic()))
            except Transient as failure:
                reason, pause = failure.reason, failure.retry_after or _PAUSE_S
            if number == _TRIES or time.monotonic() + pause >= deadline:
                raise ProviderUnavailable(f"{self.name} gave no answer: {reason}")
            number += 1
            time.sleep(pause)

    def _sent(self, body: dict[str, object], seconds: float) -> Any:
        raw: Raw = self._client.post("rerank", body, seconds, _LARGEST_BODY)
        if not 200 <= raw.status < 300:
            raise status_failure(self.name, raw.status, retry_after(raw.headers))
        try:
            return json.loads(raw.body)
        except (ValueError, RecursionError):
            pass  # here: an error raised in this block would keep the answer as its context
        raise Transient("the answer is no JSON")

    def _pairs(self, answer: Any) -> list[tuple[object, object]]:
        entries = answer.get("results") if isinstance(answer, dict) else answer
        if not isinstance(entries, list):
            raise EmbeddingError(f"{self.name} sent an answer of a form that rerankers do not have")
        known = [entry for entry in entries if isinstance(entry, dict)]
        return [(entry.get("index"), self._share(entry.get(self._form.score))) for entry in known]

    def _share(self, score: object) -> object:
        if not self._logits or isinstance(score, bool) or not isinstance(score, int | float):
            return score
        try:
            return 0.5 * (1 + math.tanh(score / 2))  # the sigmoid, without an overflow
        except OverflowError:
            return None


def _address(base_url: object, form: _Form) -> str:
    given = form.home if base_url is None else base_url
    try:
        return plain_http_address(given if isinstance(given, str) else "")
    except AddressFault as fault:
        raise InvalidArgument(f"base_url {fault}", "base_url") from None
