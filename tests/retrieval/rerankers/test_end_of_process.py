"""A process may end while a reranker that nobody waits for any more still computes."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.small_models import small_cross_encoder

SCRIPT = """
import sys, threading, time
from rag_assets.embedding.protocol import NOBODY
from rag_assets.retrieval.rerankers.bi_encoder import BiEncoderReranker
from rag_assets.retrieval.rerankers.cross_encoder import CrossEncoderReranker

kind, model = sys.argv[1:]
profile = {"provider": "sentence-transformers", "model": model, "dimensions": 32}
reranker = CrossEncoderReranker(model) if kind == "cross" else BiEncoderReranker(profile)
texts = ["pump valve warranty " * 15] * 64
reranker.score("five", texts, NOBODY)

def work():
    while True:
        reranker.score("five", texts, NOBODY)

threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("the answer")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="not installed: make install-local")
@pytest.mark.parametrize("kind", ["cross", "bi"])
def test_a_process_ends_with_its_own_exit_code_while_a_model_still_runs(tmp_path: Path, kind: str) -> None:
    folder = str(small_cross_encoder(tmp_path / "tiny"))
    if kind == "bi":
        from sentence_transformers import SentenceTransformer

        SentenceTransformer(folder, device="cpu").save(folder)
    run = [sys.executable, "-W", "ignore", "-c", SCRIPT, kind, folder]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stdout) == (0, "the answer\n"), ended.stderr
