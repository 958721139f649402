"""What every chat model offers. It is asked for judgements, such as a better query or whether passages answer it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from rag_assets.errors import InvalidArgument, shown

Role = Literal["system", "user", "assistant"]
MAX_TOKENS = 32_768
MAX_LIMIT_S = 600.0
MAX_TURNS = 20


@dataclass(frozen=True)
class ChatMessage:
    """One turn: of the `system` that says how to answer, of the `user`, or of the `assistant` that answered.

    Raises:
        InvalidArgument: another role, or no text.
    """

    role: Role
    text: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InvalidArgument(f"role must be one of {', '.join(get_args(Role))}, got {shown(self.role)}", "role")
        if not isinstance(self.text, str):
            raise InvalidArgument(f"text must be a string, got {type(self.text).__name__}", "text")


@dataclass(frozen=True)
class ChatAnswer:
    """What a model said. `data` is the object that was read from it, where a schema was given; `tokens` what was read
    and written, as the server counts, else estimated; `written` what of these was written, thoughts included, where the
    server tells them apart."""

    text: str
    data: Any = None
    tokens: int = 0
    written: int | None = None


class ChatModel(Protocol):
    """Anything that completes a conversation. Safe to use from many threads.

    With `async def acomplete` beside `complete`, of the same arguments, an event loop awaits that instead of using a
    thread.
    """

    @property
    def name(self) -> str:
        """Which model it is, as traces and errors name it; no key and no password."""
        ...

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        limit_s: float = 30.0,
    ) -> ChatAnswer:
        """The assistant's next turn, of at most `max_tokens` tokens (a model's thoughts count), within `limit_s`
        seconds, whatever the server does.

        With a `schema` (JSON schema of an object) the server is told to keep to it, where it can; `data` is the JSON
        object of the answer. It is not compared with the schema: `read_form` does that. Every property should be
        required and no others allowed, else strict servers refuse the schema and only the text asks for it.

        Raises:
            InvalidArgument: no message, or a limit out of bounds.
            ModelUnavailable: no answer in time, or a quota is used up.
            ModelRefused: the key, the model, the request or the contents are refused.
            ModelNonsense: an empty answer, one that was cut off, or no JSON object where one was asked for.
        """
        ...


def check_chat(value: object, name: str = "chat") -> ChatModel:
    """`value` if it is a chat model.

    Raises:
        InvalidArgument: it is none.
    """
    if not callable(getattr(value, "complete", None)) or not isinstance(getattr(value, "name", None), str):
        kind = type(value).__name__
        raise InvalidArgument(f"{name} must be a chat model, with `name` and `complete`, got {kind}", name)
    chat: ChatModel = value  # type: ignore[assignment]
    return chat


def check_max_tokens(value: object) -> int:
    """`value` if it is a whole number from 1 to `MAX_TOKENS`.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TOKENS:
        raise InvalidArgument(
            f"max_tokens must be a whole number from 1 to {MAX_TOKENS}, got {shown(value)}", "max_tokens"
        )
    return value


def check_limit_s(value: object) -> float:
    """`value` if it is a number of seconds above 0, at most `MAX_LIMIT_S`.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_LIMIT_S:
        most = f"{MAX_LIMIT_S:g}"
        raise InvalidArgument(
            f"limit_s must be a number of seconds above 0, at most {most}, got {shown(value)}", "limit_s"
        )
    return float(value)


def check_messages(messages: object) -> tuple[ChatMessage, ...]:
    """The messages of a request.

    Raises:
        InvalidArgument: other things than messages, or only such as say how to answer.
    """
    told = tuple(messages) if isinstance(messages, Sequence) and not isinstance(messages, str | bytes) else ()
    if not all(isinstance(one, ChatMessage) for one in told) or all(one.role == "system" for one in told):
        raise InvalidArgument("messages must be a list of ChatMessage, one of the user at least", "messages")
    return told


def check_history(history: object) -> tuple[ChatMessage, ...]:
    """The last 20 of a conversation's turns.

    Raises:
        InvalidArgument: other things than messages of the user and the assistant.
    """
    turns = tuple(history) if isinstance(history, Sequence) and not isinstance(history, str | bytes) else (None,)
    if not all(isinstance(turn, ChatMessage) and turn.role != "system" for turn in turns):
        raise InvalidArgument("history must be a list of ChatMessage of the user and the assistant", "history")
    return turns[-MAX_TURNS:]


def estimated_tokens(*texts: str) -> int:
    """Tokens of texts where no server counts them: UTF-8 bytes / 4, never 0."""
    return max(1, math.ceil(sum(len(text.encode("utf-8", "replace")) for text in texts) / 4))
