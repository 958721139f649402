"""Google's chat models, asked through its SDK."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from rag_assets.chat.served import (
    Request,
    Said,
    ServedChat,
    Settings,
    check_effort,
    check_model,
    check_temperature,
    check_variable,
)

if TYPE_CHECKING:
    from rag_assets.chat.google_sdk import GoogleChatClient

LEVELS = ("minimal", "low", "medium", "high", "xhigh")
MAX_THOUGHTS = 32_768


class GoogleChat(ServedChat):
    """One of Google's models; safe to use from many threads. The SDK is loaded and the key read by the first request.

    Raises:
        InvalidArgument: names the argument of the wrong kind.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key_env: str | None = None,
        temperature: float | None = None,
        thinking: int | str | None = None,
    ) -> None:
        """`api_key_env` names the environment variable that holds the key; None: `GEMINI_API_KEY`, else
        `GOOGLE_API_KEY`. `temperature`, from 0 to 2, and `thinking` are sent where they are given; None: as the model
        does without. `thinking` is a budget in tokens (0: none, -1: the model's own choice) as models of the family 2.5
        take it, or a level (minimal, low, medium, high or xhigh) for later ones."""
        super().__init__()
        self._settings = Settings(check_temperature(temperature), _thinking(thinking))
        self._model = check_model(model)
        self._variable = check_variable(api_key_env)
        self.name = f"google/{model}"
        self._making = Lock()
        self._client: GoogleChatClient | None = None

    def send(self, request: Request, seconds: float) -> Said:
        """See `ServedChat.send`."""
        return self._made().send(request, seconds)

    def close(self) -> None:
        """Close the connections. The next request makes new ones."""
        with self._making:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _made(self) -> GoogleChatClient:
        from rag_assets.chat.google_sdk import GoogleChatClient  # 0.3 s of whoever only describes a retriever

        with self._making:
            if self._client is None:
                self._client = GoogleChatClient(self._model, self._variable, self._settings)
            return self._client


def _thinking(value: object) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= MAX_THOUGHTS:
        return value
    return check_effort(value, LEVELS, f", or a number of tokens up to {MAX_THOUGHTS:,} (-1: the model's own choice)")
