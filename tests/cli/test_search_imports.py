"""What `rag search` loads before it asks: every module counts in a shell."""

from __future__ import annotations

import subprocess
import sys


def test_a_search_loads_neither_dagster_nor_what_reads_sources_nor_chat_models() -> None:
    code = "import sys, rag_assets.commands.search; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    unwanted = {"dagster", "lxml", "httpx", "fsspec", "pandas", "pyarrow", "rag_assets.sources.scan"}
    assert "psycopg" in loaded
    assert unwanted.isdisjoint(loaded), sorted(unwanted & set(loaded))
