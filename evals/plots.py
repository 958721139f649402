"""Plots of the report as small PNG files, drawn without a display and without matplotlib's global state."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assets.printing import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Interval = tuple[float, float]

# Two colours of the Okabe-Ito palette that stay apart for every kind of colour blindness and in grey.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "//", "..", "xx")  # and a second sign beside the colour
_DPI = 60
_MAX_BARS = 400  # more bars than pixels would only blur


def metric_bars(
    means: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, Interval]] | None = None,
) -> bytes:
    """Bars of each metric's mean (0 to 1) by profile, with confidence intervals; PNG."""
    metrics = list(dict.fromkeys(metric for values in means.values() for metric in values))

    def draw(axes: Axes) -> None:
        width = 0.8 / max(1, len(means))
        for number, (name, values) in enumerate(means.items()):
            heights = np.nan_to_num([values.get(metric, np.nan) for metric in metrics])
            positions = np.arange(len(metrics)) + (number - (len(means) - 1) / 2) * width
            known = (intervals or {}).get(name, {})
            errors = np.array([_errors(height, known.get(m)) for m, height in zip(metrics, heights, strict=True)])
            axes.bar(positions, heights, width, yerr=errors.reshape(-1, 2).T, capsize=2, label=name, **_style(number))
        axes.set_xticks(range(len(metrics)), metrics, rotation=30, ha="right")
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("metric")
        axes.set_ylabel("mean over queries")
        if means:
            axes.legend()

    return _png("Metrics with 95% confidence intervals", draw)


def gains_and_losses(differences: Sequence[float], metric: str) -> bytes:
    """Difference of every query that changed, best first (candidate minus baseline, -1 to 1); PNG."""
    values = np.sort(np.asarray(differences, dtype=np.float64))[::-1]
    changed = values[values != 0]
    shown = changed
    if changed.size > _MAX_BARS:
        shown = changed[np.linspace(0, changed.size - 1, _MAX_BARS).astype(int)]

    def draw(axes: Axes) -> None:
        colours = np.where(shown > 0, _COLOURS[0], _COLOURS[1]).tolist()
        places = np.linspace(1, max(1, changed.size), shown.size)
        axes.bar(places, shown, width=max(1.0, changed.size / _MAX_BARS), color=colours)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_ylim(-1.05, 1.05)
        axes.set_xlabel(f"queries that changed, of {values.size}")
        axes.set_ylabel(f"difference in {metric}")

    won, lost = int((changed > 0).sum()), int((changed < 0).sum())
    return _png(f"{counted(won, 'query')} better, {lost} worse", draw)


def similarity_histogram(relevant: Sequence[float], irrelevant: Sequence[float]) -> bytes:
    """Shares of the scores of relevant and of other returned documents; PNG."""

    def draw(axes: Axes) -> None:
        both = np.concatenate([np.asarray(relevant, dtype=np.float64), np.asarray(irrelevant, dtype=np.float64)])
        bins = np.histogram_bin_edges(both, bins=30)
        for number, (name, values) in enumerate({"relevant": relevant, "not labelled": irrelevant}.items()):
            weights = np.full(len(values), 1 / max(1, len(values)))
            axes.hist(
                values, bins.tolist(), weights=weights, alpha=0.7, label=f"{name} ({len(values)})", **_style(number)
            )
        axes.set_xlabel("score")
        axes.set_ylabel("share of documents")
        axes.legend()

    return _png("Scores of returned documents", draw)


def latency_plot(latencies_ms: Mapping[str, Mapping[str, Sequence[float]]]) -> bytes:
    """p50 as bars and p95 as lines above them, in milliseconds, by stage and profile; PNG."""
    stages = list(dict.fromkeys(stage for values in latencies_ms.values() for stage in values))

    def draw(axes: Axes) -> None:
        width = 0.8 / max(1, len(latencies_ms))
        for number, (name, values) in enumerate(latencies_ms.items()):
            pairs = np.array([_percentiles(values.get(stage, ())) for stage in stages]).reshape(-1, 2)
            positions = np.arange(len(stages)) + (number - (len(latencies_ms) - 1) / 2) * width
            errors = [np.zeros(len(stages)), pairs[:, 1] - pairs[:, 0]]
            axes.bar(positions, pairs[:, 0], width, yerr=errors, capsize=4, label=name, **_style(number))
        axes.set_xticks(range(len(stages)), stages)
        axes.set_xlabel("stage")
        axes.set_ylabel("milliseconds: p50, line to p95")
        if latencies_ms:
            axes.legend()

    return _png("Latency", draw)


def _style(number: int) -> dict[str, Any]:
    place = number % len(_COLOURS)
    return {"color": _COLOURS[place], "hatch": _HATCHES[place], "edgecolor": "white"}


def _errors(height: float, interval: Interval | None) -> tuple[float, float]:
    if interval is None or not np.isfinite(interval).all():
        return 0.0, 0.0
    return max(0.0, height - interval[0]), max(0.0, interval[1] - height)


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    if not len(values):
        return 0.0, 0.0
    low, high = np.quantile(values, (0.5, 0.95), method="inverted_cdf")
    return float(low), float(high)


def _png(title: str, draw: Callable[[Axes], None]) -> bytes:
    # Imported here: only who draws pays for it. A Figure of its own needs neither pyplot nor a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw(axes)
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
