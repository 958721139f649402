"""What the peers share: the model that ships inside the wordllama wheel, the input file, and peak memory."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import wordllama
from numpy.typing import NDArray

DIMENSIONS = 256


class StaticModel:
    """The l2_supercat model, 256 dimensions, not normalised; `seconds` is the wall-clock time spent inside it."""

    def __init__(self) -> None:
        # The plain load() looks in the home directory and then downloads; the weights are in the package.
        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=folder, dim=DIMENSIONS, disable_download=True)
        self.seconds = 0.0

    def embed(self, texts: list[str], batch_size: int = 64) -> NDArray[np.float32]:
        """A vector (d,) float32 for each text; 64 a batch is the model's own default."""
        started = time.perf_counter()
        vectors: NDArray[np.float32] = self._model.embed(texts, batch_size=batch_size)
        self.seconds += time.perf_counter() - started
        return vectors


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def text_of(row: dict[str, Any]) -> str:
    """The text of a row in BEIR layout, under its title."""
    return f"{row['title']}\n\n{row['text']}" if row.get("title") else str(row["text"])


def peak_rss_mb() -> float:
    """The highest resident set of this process so far, in MiB (Linux gives KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
