"""Texts of made-up words that are as uneven as real ones."""

from __future__ import annotations

import random


def skewed_texts(seed: int, chunks: int) -> list[str]:
    """Word frequencies as in real text: a few words are in most chunks, most are in a few."""
    draw = random.Random(seed)
    vocabulary = [f"w{n}" for n in range(120)]
    weights = [1 / rank**1.3 for rank in range(1, 121)]
    return [" ".join(draw.choices(vocabulary, weights, k=draw.randint(1, 30))) for _ in range(chunks)]
