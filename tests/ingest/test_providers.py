"""Ingest deals with whatever provider a profile names, and knows none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import rag_assets.ingest
from rag_assets.embedding.models import MODELS

FILES = sorted(Path(rag_assets.ingest.__file__).parent.rglob("*.py"))


def test_ingest_names_no_provider() -> None:
    named = "|".join(sorted({"google", "gemini", "openai"} | {info.provider for info in MODELS} - {"hash"}))
    assert len(FILES) > 10
    for file in FILES:
        found = re.findall(rf"{named}|embedding\.providers", file.read_text(), re.IGNORECASE)
        assert found == [], file.name


def test_what_deals_with_batch_jobs_loads_no_providers_library() -> None:
    code = (
        "import sys, rag_assets.ingest.run, rag_assets.ingest.batch_api.collect; print('google.genai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
