"""One request to a chat model of Google's, by the SDK as `google_client` tames it."""

from __future__ import annotations

import httpx2
import pydantic
from google import genai
from google.genai import errors, types

from rag_assets.chat.protocol import ChatMessage
from rag_assets.chat.served import LARGEST_BODY, Request, Said, Settings, status_failure
from rag_assets.embedding.providers.google_client import (
    KEY_NAMES,
    AnswerTooLarge,
    GoogleClient,
    is_about_the_key,
    is_used_up,
    retry_after,
    status_name,
)
from rag_assets.embedding.providers.requests import Transient
from rag_assets.errors import ModelNonsense, ModelRefused, ModelUnavailable, RagError
from rag_assets.printing import counted

_WHOLE = {types.FinishReason.STOP, types.FinishReason.FINISH_REASON_UNSPECIFIED, None}
# What says nothing against the question: the model stumbled.
_STUMBLED = {
    types.FinishReason.OTHER,
    types.FinishReason.MALFORMED_FUNCTION_CALL,
}


class GoogleChatClient:
    """The connections for one model."""

    def __init__(self, model: str, variable: str | None, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._client = GoogleClient(
            f"google/{model}", [variable] if variable else KEY_NAMES, _failure_of, largest=LARGEST_BODY
        )

    def send(self, request: Request, seconds: float) -> Said:
        """See `ServedChat.send`."""

        def generate(client: genai.Client, options: types.HttpOptions) -> types.GenerateContentResponse:
            return client.models.generate_content(
                model=self._model,
                contents=[_content(one) for one in request.messages if one.role != "system"],
                config=_config(request, options, self._settings),
            )

        return _said(self._client.what, self._client.call(generate, seconds))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _config(request: Request, options: types.HttpOptions, settings: Settings) -> types.GenerateContentConfig:
    rules = "\n\n".join(one.text for one in request.messages if one.role == "system")
    config = types.GenerateContentConfig(
        http_options=options,
        system_instruction=rules or None,
        max_output_tokens=request.max_tokens,
        temperature=settings.temperature,
        thinking_config=_thinking(settings.thinking),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    if request.schema is not None:
        config.response_mime_type = "application/json"
        config.response_json_schema = dict(request.schema)
    return config


def _thinking(wanted: int | str | None) -> types.ThinkingConfig | None:
    if isinstance(wanted, str):
        return types.ThinkingConfig(thinking_level=types.ThinkingLevel(wanted.upper()))
    return None if wanted is None else types.ThinkingConfig(thinking_budget=wanted)


def _content(message: ChatMessage) -> types.Content:
    role = "model" if message.role == "assistant" else "user"
    return types.Content(role=role, parts=[types.Part(text=message.text)])


def _said(what: str, response: types.GenerateContentResponse) -> Said:
    if response.prompt_feedback is not None and response.prompt_feedback.block_reason is not None:
        raise ModelRefused(f"{what} refuses to answer this")
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None or candidate.finish_reason in _STUMBLED:
        raise ModelNonsense(f"{what} sent no answer")
    is_cut = candidate.finish_reason == types.FinishReason.MAX_TOKENS
    if not is_cut and candidate.finish_reason not in _WHOLE:
        raise ModelRefused(f"{what} refuses to answer this")
    # Not `response.text`, which warns of every part that is no text.
    parts = candidate.content.parts if candidate.content is not None else None
    text = "".join(part.text for part in parts or () if part.text and not part.thought)
    usage = response.usage_metadata
    if usage is None:
        return Said(text, None, is_cut)
    counts = (usage.candidates_token_count, usage.thoughts_token_count)
    written = sum(count or 0 for count in counts) if counts != (None, None) else None
    return Said(text, usage.total_token_count, is_cut, written)


def _failure_of(what: str, error: Exception) -> Exception:
    """Our own error for one of the SDK's, with nothing of the request or of the server's words."""
    if isinstance(error, (RagError, Transient)):
        return error
    if isinstance(error, errors.APIError):
        return _api_failure(what, error)
    if isinstance(error, pydantic.ValidationError | RecursionError):  # of what the SDK reads beside the text
        return ModelNonsense(f"{what} sent an answer of a form that chat models do not have")
    if isinstance(error, AnswerTooLarge):
        return ModelNonsense(f"{what}: an answer of more than {counted(LARGEST_BODY, 'byte')} is no answer")
    if isinstance(error, httpx2.RequestError):
        return Transient(f"the connection failed ({type(error).__name__})")
    if isinstance(error, ValueError):
        return Transient("the answer is no JSON")
    return Transient(f"the answer could not be read ({type(error).__name__})")


def _api_failure(what: str, error: errors.APIError) -> Exception:
    if is_used_up(error):
        return ModelUnavailable(
            f"{what}: the quota of this day is used up, and Google renews it at midnight Pacific time"
        )
    status = status_name(error)
    if is_about_the_key(error):
        told = f"HTTP 400{f' ({status})' if status else ''}"
        return ModelRefused(f"{what} does not accept the key: {told}; check it, and where its project may be used from")
    return status_failure(what, error.code, retry_after(error), status)
