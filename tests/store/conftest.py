"""Fixtures of `tests/support/limits_world.py`, under their names."""

from __future__ import annotations

from tests.support.limits_world import tenants

__all__ = ["tenants"]
