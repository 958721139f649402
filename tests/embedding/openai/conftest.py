"""Fixtures of `tests/support/openai_world.py`, under their names."""

from __future__ import annotations

from tests.support.openai_world import embedder, server

__all__ = ["embedder", "server"]
