"""The chat model that a few words name, as a profile has them."""

from __future__ import annotations

from rag_assets.chat.google import GoogleChat
from rag_assets.chat.openai import OpenAIChat
from rag_assets.embedding.profiles import TripleOptions
from rag_assets.embedding.providers.openai import server_address


def chat_of(options: TripleOptions) -> GoogleChat | OpenAIChat:
    """The model that finds triples for a profile; whoever asked it closes it.

    Raises:
        InvalidArgument: an address that none can be.
        ProviderRefused: there is no key for it.
    """
    if options.provider == "google":
        return GoogleChat(options.model, api_key_env=options.key_env)
    return OpenAIChat(options.model, base_url=options.base_url, api_key_env=options.key_env)


def server_of(options: TripleOptions) -> str:
    """The address that the model is asked at, where it has one of its own, else ""."""
    if options.provider == "google":
        return ""
    return server_address(options.model, options.base_url, options.key_env).base_url
