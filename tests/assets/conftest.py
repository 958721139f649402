"""Fixtures of `tests/dagster_world.py`, under their names."""

from __future__ import annotations

from dagster_world import server_url, template, world

__all__ = ["server_url", "template", "world"]
