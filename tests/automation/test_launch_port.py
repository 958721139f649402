"""`rag dev` serves where it was told to, or says that it cannot."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rag_assets.errors import UsageError
from rag_assets.launch.dev import serve
from rag_assets.settings import Settings


def test_a_port_that_is_taken_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port + 1}"):
            serve(Settings(home=tmp_path, database_url=None, storage=""), "127.0.0.1", port, None)
