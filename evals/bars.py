"""Bars drawn with characters, which every reader of Markdown shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_WIDTH = 30  # characters of the longest bar
_BINS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bar:
    """A line: what it is of, how long it is, and the value in words."""

    label: str
    length: float
    value: str


def chart(bars: Sequence[Bar], longest: float | None = None) -> str:
    """A block of bars under each other; `longest` is the length that fills the width, by default the longest one's."""
    full = longest or max((bar.length for bar in bars), default=0.0)
    column = max((len(bar.label) for bar in bars), default=0)
    lines = (f"{bar.label:<{column}} {_bar(bar.length, full):<{_WIDTH}} {bar.value}".rstrip() for bar in bars)
    return "\n".join(("```text", *lines, "```"))


def gains(differences: Sequence[float]) -> list[Bar]:
    """How many queries got worse, stayed and got better, the worst first; a query's difference is from -1 to 1."""
    values = np.asarray(differences, dtype=np.float64)
    names = ("worse by .5 or more", "worse by less", "equal", "better by less", "better by .5 or more")
    counts = [
        int((values <= -0.5).sum()),
        int(((values > -0.5) & (values < 0)).sum()),
        int((values == 0).sum()),
        int(((values > 0) & (values < 0.5)).sum()),
        int((values >= 0.5).sum()),
    ]
    return [Bar(name, count, str(count)) for name, count in zip(names, counts, strict=True)]


def shares(relevant: Sequence[float], others: Sequence[float]) -> list[Bar]:
    """By score, the share of the relevant documents above that of all others."""
    both = np.concatenate([np.asarray(relevant, dtype=np.float64), np.asarray(others, dtype=np.float64)])
    edges = np.histogram_bin_edges(both, bins=_BINS)
    found = [np.histogram(values, edges)[0] / max(1, len(values)) for values in (relevant, others)]
    lines = []
    for place in range(_BINS):
        for name, share in zip(("relevant", "not labelled"), found, strict=True):
            from_to = f"{edges[place]:.2f} to {edges[place + 1]:.2f}" if name == "relevant" else ""
            lines.append(Bar(f"{from_to:<16}{name}", float(share[place]), f"{share[place]:.1%}"))
    return lines


def _bar(length: float, full: float) -> str:
    share = min(1.0, max(0.0, length / full)) if full > 0 and np.isfinite(length) else 0.0
    whole, rest = divmod(round(share * _WIDTH * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")
