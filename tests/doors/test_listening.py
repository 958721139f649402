"""A door that cannot listen says which option to change."""

from __future__ import annotations

import pytest

from rag_assets.doors.listening import listening
from rag_assets.errors import UsageError


def test_a_port_that_is_taken_is_told_with_the_option_that_names_another() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port}: .*; choose another --http$"):
            listening("127.0.0.1", port, option="--http")


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host", "a" * 70])
def test_a_host_that_is_none_of_this_machines_is_told_as_such(host: str) -> None:
    with pytest.raises(UsageError, match=r"--host takes an address of this machine$"):
        listening(host, 0)
