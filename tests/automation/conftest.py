"""Fixtures of `tests/dagster_world.py`, under their names."""

from __future__ import annotations

from tests.support.dagster_world import template, world

__all__ = ["template", "world"]
