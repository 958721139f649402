"""What all chat models behind a server share: tries, deadlines, and answers that are read with suspicion.

No error holds a key, a message, or words of the server, which may repeat either.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_assets.chat.forms import json_object_in, with_schema
from rag_assets.chat.protocol import (
    ChatAnswer,
    ChatMessage,
    check_limit_s,
    check_max_tokens,
    check_messages,
    estimated_tokens,
)
from rag_assets.embedding.providers.requests import Transient
from rag_assets.errors import (
    ChatError,
    EmbeddingError,
    InvalidArgument,
    ModelNonsense,
    ModelRefused,
    ModelUnavailable,
    ProviderRefused,
    shown,
)
from rag_assets.printing import counted

LARGEST_BODY = 4 * 2**20  # 32,768 tokens have some 200 KB
MAX_TEMPERATURE = 2.0
_TRIES = 2  # somebody waits
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Request:
    """What is sent: the schema only where the server is to keep to it."""

    messages: tuple[ChatMessage, ...]
    schema: Mapping[str, Any] | None
    max_tokens: int


@dataclass(frozen=True)
class Said:
    """What came back: the text, the server's count of tokens, if it has one, whether it stopped at the limit, and how
    many tokens were written."""

    text: str
    tokens: int | None
    is_cut: bool
    written: int | None = None


@dataclass(frozen=True)
class Settings:
    """How a model answers: `thinking` is a budget in tokens or a level. None: as it does by itself."""

    temperature: float | None
    thinking: int | str | None


class ServedChat:
    """A chat model behind a server; subclasses send one request."""

    name: str

    def __init__(self) -> None:
        self._keeps_schemas = True  # until the server has refused one that it took without

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        limit_s: float = 30.0,
    ) -> ChatAnswer:
        """See `ChatModel.complete`. What fails for a reason that may pass is sent a second time."""
        told, deadline = check_messages(messages), time.monotonic() + check_limit_s(limit_s)
        if schema is not None:
            told = with_schema(told, schema)
        request = Request(told, schema if self._keeps_schemas else None, check_max_tokens(max_tokens))
        try:
            said = self._tries(request, deadline)
        except ModelRefused as refusal:
            if request.schema is None or not refusal.is_bad_request:
                raise
            said = self._tries(Request(told, None, max_tokens), deadline)
            self._keeps_schemas = False
        tokens = said.tokens or estimated_tokens(said.text, *(one.text for one in told))
        try:
            return ChatAnswer(said.text, self._read(said, schema is not None, max_tokens), tokens, said.written)
        except ModelNonsense as nonsense:  # it is paid for as well
            raise ModelNonsense(str(nonsense), tokens, said.written) from None

    def send(self, request: Request, seconds: float) -> Said:
        """What the server says to one request, within so many seconds.

        Raises:
            Transient: a failure that may pass.
            ChatError, EmbeddingError: one that will not.
        """
        raise NotImplementedError

    def _read(self, said: Said, as_object: bool, max_tokens: int) -> Any:
        """The object that an answer holds, where one was asked for."""
        if said.is_cut:
            raise ModelNonsense(f"{self.name}: the answer was cut off at {counted(max_tokens, 'token')}")
        if not said.text.strip():
            raise ModelNonsense(f"{self.name}: the answer is empty")
        return json_object_in(said.text) if as_object else None

    def _tries(self, request: Request, deadline: float) -> Said:
        number = 1
        while True:
            try:
                return self.send(request, max(0.001, deadline - time.monotonic()))
            except Transient as failure:
                reason, pause = failure.reason, failure.retry_after or _PAUSE_S
            except EmbeddingError as failure:  # of what reads keys and sends, which is shared with embedders
                error = _as_chat_error(failure)
                break
            if number == _TRIES or time.monotonic() + pause >= deadline:
                error = ModelUnavailable(f"{self.name} gave no answer: {reason}")
                break
            number += 1
            time.sleep(pause)
        raise error


def _as_chat_error(error: EmbeddingError) -> ChatError:
    if isinstance(error, ProviderRefused):
        return ModelRefused(str(error))
    return ModelNonsense(str(error))


def status_failure(what: str, status: int, retry_after: float | None = None, detail: str = "") -> Exception:
    """The error that an HTTP status means. `detail` must be a name from the protocol, never words of the server."""
    told = f"HTTP {status}{f' ({detail})' if detail else ''}"
    if status in (400, 413, 422):
        return ModelRefused(f"{what} refuses the request: {told}", is_bad_request=True)
    if status in (401, 403):
        return ModelRefused(f"{what} does not accept the key: {told}; check that it is valid for this model")
    if 300 <= status < 500 and status not in (408, 425, 429):
        return ModelRefused(f"{what} refuses the request: {told}; check the model's name and the server's address")
    return Transient(told, retry_after, is_limit=status == 429)


def check_temperature(value: object) -> float | None:
    """`value` if it is a number from 0 to 2; None stays.

    Raises:
        InvalidArgument: it is none.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TEMPERATURE:
        raise InvalidArgument(
            f"temperature must be a number from 0 to {MAX_TEMPERATURE:g}, got {value!r}", "temperature"
        )
    return float(value)


def check_effort(value: object, efforts: Sequence[str], or_else: str = "") -> str | None:
    """`value` if it is one of the provider's words for how much a model thinks; None stays. `or_else` is what else the
    provider would take, for the message.

    Raises:
        InvalidArgument: it is none.
    """
    if value is None or (isinstance(value, str) and value in efforts):
        return value
    raise InvalidArgument(f"thinking must be one of {', '.join(efforts)}{or_else}, got {value!r}", "thinking")


def check_model(model: object) -> str:
    """`model` if it can be the name of one.

    Raises:
        InvalidArgument: it cannot.
    """
    if not isinstance(model, str) or not re.fullmatch(r"[\w./:@+-]{1,200}", model, re.ASCII):
        raise InvalidArgument(f"model must be a model's name, got {shown(model)}", "model")
    return model


def check_variable(name: object) -> str | None:
    """`name` if it can be that of an environment variable; None stays.

    Raises:
        InvalidArgument: it cannot, and may be the key itself; it is not repeated.
    """
    if name is None:
        return None
    if not isinstance(name, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
        raise InvalidArgument(
            "api_key_env must be the NAME of the environment variable that holds the key", "api_key_env"
        )
    return name
