"""The picture of a tuning: throughput, memory and latency against batch size; the only module that draws charts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import StorageError
from pipeline.tuning.figures import MEMORY_SHARE, TunedBucket

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart with any kind of colour vision (Okabe and Ito)."""

_MARKERS = ("o", "s", "^", "D", "v", "P")
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "pagemill", "font.size": 10, "axes.titlesize": 11}


def draw(buckets: Sequence[TunedBucket], prefix: Path, *, title: str, max_latency_s: float | None = None) -> list[Path]:
    """Write PREFIX.png and PREFIX.svg.

    Raises:
        StorageError: they cannot be written.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(13.5, 4.6), layout="constrained")
        panels = figure.subplots(1, 3, sharex=True)
        unit = _unit(buckets)
        for number, tuned in enumerate(buckets):
            look = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}
            _draw_bucket(panels, tuned, look, _UNITS[unit], max_latency_s)
        _label(panels, buckets, unit, max_latency_s)
        figure.suptitle(f"Batch size for {title}", fontsize=13)
        figure.legend(*_entries(panels[0], buckets), loc="outside lower center", ncols=4, frameon=False)
        paths = [prefix.with_name(prefix.name + ending) for ending in (".png", ".svg")]
        try:
            prefix.parent.mkdir(parents=True, exist_ok=True)
            for path in paths:
                figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise StorageError(f"picture {error.filename or prefix} cannot be written: {error.strerror}") from error
    return paths


def _draw_bucket(panels: Any, tuned: TunedBucket, look: dict[str, Any], unit: int, max_latency_s: float | None) -> None:
    throughput, memory, latency = panels
    sizes = [figures.batch_size for figures in tuned.ran]
    rates = [figures.pages_per_s for figures in tuned.ran]
    spreads = [figures.pages_per_s_spread for figures in tuned.ran]
    used = [figures.memory_bytes / unit for figures in tuned.ran]
    medians = [figures.latency_median_s for figures in tuned.ran]
    p95s = [figures.latency_p95_s for figures in tuned.ran]
    throughput.errorbar(
        sizes, rates, yerr=spreads, label=f"pages up to length {tuned.bucket}", capsize=3, markersize=5, **look
    )
    memory.plot(sizes, used, markersize=5, **look)
    latency.plot(sizes, medians, markersize=5, **look)
    latency.plot(sizes, p95s, markersize=3, linestyle=":", **look)
    knee = tuned.knee(max_latency_s)
    if knee is not None:
        where = sizes.index(knee.batch_size)
        for panel, values in ((throughput, rates), (memory, used), (latency, medians)):
            panel.plot(
                knee.batch_size, values[where], "o", markersize=13, fillstyle="none", color=look["color"], mew=1.8
            )
    for figures in tuned.sizes:
        if figures.out_of_memory:
            for panel in panels[:2]:
                panel.plot(figures.batch_size, 0, "x", markersize=9, mew=2.2, color=look["color"], clip_on=False)


def _label(panels: Any, buckets: Sequence[TunedBucket], memory_unit: str, max_latency_s: float | None) -> None:
    sizes = sorted({figures.batch_size for tuned in buckets for figures in tuned.sizes})
    titles = ("Throughput (bar: spread of repeats)", "Peak memory", "Latency of a page (dotted: 95th percentile)")
    for panel, title, unit in zip(panels, titles, ("pages per second", memory_unit, "seconds"), strict=True):
        panel.set_title(title)
        panel.set_ylabel(unit)
        panel.set_xlabel("pages in a batch")
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    top = max(figures.memory_bytes for tuned in buckets for figures in tuned.ran)
    planned = MEMORY_SHARE * min(tuned.capacity_bytes for tuned in buckets)
    if top > planned / 3:  # else the line would flatten everything below it
        height = planned / _UNITS[memory_unit]
        panels[1].axhline(height, color="0.4", linestyle="--", linewidth=1)
        said = f"{MEMORY_SHARE:.0%} of the device"
        panels[1].annotate(said, (sizes[0], height), (0, 3), textcoords="offset points", color="0.3", fontsize=9)
    if max_latency_s is not None:
        panels[2].axhline(max_latency_s, color="0.4", linestyle="--", linewidth=1)
    for panel in panels:
        panel.set_ylim(0, 1.06 * panel.get_ylim()[1])


def _unit(buckets: Sequence[TunedBucket]) -> str:
    """The one in which the most memory is a handy number."""
    top = max(figures.memory_bytes for tuned in buckets for figures in tuned.ran)
    return "GiB" if top >= _UNITS["GiB"] else "MiB"


def _entries(panel: Any, buckets: Sequence[TunedBucket]) -> tuple[list[Any], list[str]]:
    """What the legend explains: the buckets, and the marks."""
    from matplotlib.lines import Line2D

    handles, labels = panel.get_legend_handles_labels()
    ring = Line2D([], [], marker="o", markersize=12, fillstyle="none", color="0.3", linestyle="none", mew=1.8)
    if not any(tuned.is_bounded_by_memory for tuned in buckets):
        return [*handles, ring], [*labels, "knee"]
    cross = Line2D([], [], marker="x", markersize=8, color="0.3", linestyle="none", mew=2.2)
    return [*handles, ring, cross], [*labels, "knee", "out of memory"]
