"""The settings of signed scopes, a part of `Settings`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr
from pydantic_settings import BaseSettings

from rag_assets.settings_values import row
from rag_assets.signing import DEFAULT_SECONDS, KEY_FORM, MAX_SECONDS, parse_key

SIGNING = "Signed scopes"


def _is_key(text: SecretStr | None) -> SecretStr | None:
    if text is not None:
        parse_key(text.get_secret_value())
    return text


class ScopeSettings(BaseSettings):
    """With what scopes are signed, and for how long."""

    scope_key: Annotated[SecretStr | None, AfterValidator(_is_key)] = row(
        "RAG_SCOPE_KEY",
        None,
        SIGNING,
        "Key that the scopes of searches are signed with, where the database takes signed scopes alone",
        unset="scopes are not signed",
        allowed=KEY_FORM,
    )
    scope_seconds: int = row(
        "RAG_SCOPE_SECONDS",
        DEFAULT_SECONDS,
        SIGNING,
        "Seconds for which a signature holds; each request has a new one, so they are for clocks that differ",
        ge=1,
        le=MAX_SECONDS,
    )
