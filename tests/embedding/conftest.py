"""The stand-in for Google's API, for the tests that want one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.google_server import GoogleServer, google_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleServer]:
    """A stand-in of one test's own, which the environment names."""
    with google_server(monkeypatch) as running:
        yield running
