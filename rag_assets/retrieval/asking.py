"""A chat model asked within a retrieval: what it says is a form or nothing, in time, whatever the model is and does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from rag_assets.chat.forms import read_form, schema_of
from rag_assets.chat.protocol import ChatAnswer, ChatMessage, ChatModel, estimated_tokens
from rag_assets.errors import ModelNonsense, RagError, TimeLimitReached
from rag_assets.retrieval.steps import Branch, Steps, call, together

_log = logging.getLogger(__name__)
_Form = TypeVar("_Form", bound=BaseModel)


@dataclass(frozen=True)
class Heard(Generic[_Form]):
    """The form that a model filled in, or why there is none; and the tokens that it took, estimated where it failed."""

    form: _Form | None
    tokens: int
    error: str | None = None


def prompt_tokens(messages: Sequence[ChatMessage], form: type[BaseModel]) -> int:
    """An estimate of what a model reads, rather too high: a budget is not to be exceeded by it."""
    schema = str(schema_of(form))  # told to the server and in the text
    return round(4 / 3 * estimated_tokens(*(one.text for one in messages), schema, schema))


def ask_chat(
    chat: ChatModel, messages: Sequence[ChatMessage], form: type[_Form], max_tokens: int, limit_s: float
) -> Steps[Heard[_Form]]:
    """What a model makes of the messages. It raises nothing: a model is an aid, and who asks goes on without it."""
    schema = schema_of(form)

    arguments: dict[str, Any] = {"schema": schema, "max_tokens": max_tokens, "limit_s": limit_s}
    awaited: Any = getattr(chat, "acomplete", None)
    work, later = lambda: chat.complete(messages, **arguments), awaited and (lambda: awaited(messages, **arguments))
    asking = call(work, later, "chat", chat.name)
    (outcome,) = yield from together(Branch(asking, limit_s))
    spent = prompt_tokens(messages, form) + max_tokens
    try:
        answer = outcome.get()
        if not isinstance(answer, ChatAnswer):
            raise ModelNonsense(f"{chat.name} returned a {type(answer).__name__} and no ChatAnswer")
        spent = answer.tokens
        return Heard(read_form(answer, form), spent)
    except TimeLimitReached as error:
        return Heard(None, spent, f"{chat.name} gave {error}")
    except RagError as error:
        told = str(error)
        return Heard(None, spent, told if chat.name in told else f"{chat.name}: {told}")
    except Exception as error:  # of a model of somebody else's, whose words may hold its key
        _log.warning("chat model %s failed: %s", chat.name, type(error).__name__)
        return Heard(None, spent, f"{chat.name} failed ({type(error).__name__})")
