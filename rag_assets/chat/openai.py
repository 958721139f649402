"""Chat models behind any server that speaks OpenAI's `/chat/completions`: OpenAI itself, vLLM, Ollama, llama.cpp.

Where requests go, and which key goes there, is as for embeddings: a server of one's own is sent no key unless a
variable is named for it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from rag_assets.addresses import AddressFault, plain_http_address
from rag_assets.chat.served import (
    LARGEST_BODY,
    Request,
    Said,
    ServedChat,
    check_effort,
    check_model,
    check_temperature,
    check_variable,
    status_failure,
)
from rag_assets.embedding.providers.openai import OPENAI_HOST, server_address
from rag_assets.embedding.providers.openai_http import OpenAIClient, Raw, code_of, json_object, retry_after
from rag_assets.embedding.providers.requests import Transient
from rag_assets.errors import InvalidArgument, ModelNonsense, ModelRefused, ModelUnavailable

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")  # of OpenAI's models; each knows some of them


class OpenAIChat(ServedChat):
    """One model of one server; safe to use from many threads. The key is read by the first request.

    Raises:
        InvalidArgument: names the argument of the wrong kind.
        ProviderRefused: `OPENAI_BASE_URL` is no plain http or https address.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        temperature: float | None = None,
        thinking: str | None = None,
    ) -> None:
        """`base_url` goes up to and with `/v1`; None: `OPENAI_BASE_URL` of the environment, else OpenAI's.
        `api_key_env` names the environment variable that holds the key. `temperature`, from 0 to 2, and `thinking`, how
        much a model thinks (`reasoning_effort`: none, minimal, low, medium, high or xhigh), are sent where they are
        given; None: as the server does without."""
        super().__init__()
        self._temperature = check_temperature(temperature)
        self._effort = check_effort(thinking, EFFORTS)
        self._model = check_model(model)
        address = server_address(f"openai/{model}", _checked(base_url), check_variable(api_key_env))
        self._client = OpenAIClient(address, f"openai/{model}")
        self._is_openai = urlsplit(address.base_url).hostname == OPENAI_HOST
        self.name = self._client.what

    def send(self, request: Request, seconds: float) -> Said:
        """See `ServedChat.send`."""
        raw = self._client.post("chat/completions", self._body(request), seconds, LARGEST_BODY)
        if 200 <= raw.status < 300:
            return _said(self.name, raw)
        raise _failure(self.name, raw)

    def close(self) -> None:
        """Close the connections. The next request makes new ones."""
        self._client.close()

    def _body(self, request: Request) -> dict[str, object]:
        # OpenAI's newer models know only the new name of the limit, and most other servers only the old one.
        limit = "max_completion_tokens" if self._is_openai else "max_tokens"
        body: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": one.role, "content": one.text} for one in request.messages],
            limit: request.max_tokens,
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if self._effort is not None:
            body["reasoning_effort"] = self._effort
        if request.schema is not None:
            form = {"name": "answer", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body


def _checked(base_url: object) -> str | None:
    if base_url is None:
        return None
    try:
        return plain_http_address(base_url if isinstance(base_url, str) else "")
    except AddressFault as fault:
        raise InvalidArgument(f"base_url {fault}", "base_url") from None


def _said(what: str, raw: Raw) -> Said:
    parsed = json_object(raw.body)
    if parsed is None:
        raise Transient("the answer is no JSON")
    error = parsed.get("error")
    if isinstance(error, dict) and isinstance(error.get("code"), int):  # some gateways report a failure with status 200
        raise status_failure(what, error["code"])
    choices = parsed.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ModelNonsense(f"{what} sent an answer of a form that chat models do not have")
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise ModelRefused(f"{what} refuses to answer this")
    usage, is_cut = parsed.get("usage"), choice.get("finish_reason") == "length"
    return Said(_text(message.get("content")), _tokens(usage), is_cut, _tokens(usage, "completion_tokens"))


def _text(content: Any) -> str:
    """A text, or a list of parts of which some are text."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _tokens(usage: Any, name: str = "total_tokens") -> int | None:
    counted = usage.get(name) if isinstance(usage, dict) else None
    return counted if type(counted) is int and counted > 0 else None


def _failure(what: str, raw: Raw) -> Exception:
    error = (json_object(raw.body) or {}).get("error")
    fields = error if isinstance(error, dict) else {}
    if raw.status == 429 and "insufficient_quota" in (fields.get("code"), fields.get("type")):
        return ModelUnavailable(f"{what}: the quota of this key is used up (insufficient_quota)")
    return status_failure(what, raw.status, retry_after(raw.headers), code_of(fields))
