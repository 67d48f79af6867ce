"""Figures: what was measured of each batch size, and which size that speaks for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from pipeline.tuning.unimodal import unimodal

Profile = Literal["bulk", "balanced", "interactive"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
"""What a person wants most: pages a second, both, or a page soon."""

WITHIN = 0.03
"""A batch that reads this much slower than the best is as good as it."""

MEMORY_SHARE = 0.9
"""No more of the device's memory is planned for: pages differ, and allocators lose some between blocks."""

PATIENCE = 1.5
"""An interactive batch may take so many times as long for a page as a batch of one, if nobody sets a bound."""


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """What reading in batches of one size has come to, over `repeats` measurements.

    `pages_per_s` is what a usual repeat came to and `pages_per_s_spread` how far repeats lie from it, in pages a second
    (see `pipeline.tuning.estimate`). `tokens_per_s` counts what a model wrote, or for an engine that writes no tokens
    the pages' lengths. Latency is from giving a batch to the engine until it tells of the page. Memory is at its
    peak, on the GPU and of the engine's process. `idle_ratio` and `padding_ratio` are from 0 to 1. A size that found no
    memory has `out_of_memory`, and zeros for what was not measured.
    """

    batch_size: int
    pages_per_s: float
    pages_per_s_spread: float
    tokens_per_s: float
    latency_median_s: float
    latency_p95_s: float
    memory_allocated_bytes: int | None
    memory_reserved_bytes: int | None
    host_memory_bytes: int
    idle_ratio: float | None
    padding_ratio: float
    repeats: int
    out_of_memory: bool = False

    @property
    def memory_bytes(self) -> int:
        """What it takes of the device's memory: reserved on a GPU, else of the machine's."""
        return self.host_memory_bytes if self.memory_reserved_bytes is None else self.memory_reserved_bytes


@dataclass(frozen=True)
class TunedBucket:
    """The figures for pages of a length up to `bucket`, smallest size first.

    `capacity_bytes` is the memory of the device that was there for the engine.

    Raises:
        ValueError: no size ran, or sizes are not in order.
    """

    bucket: int
    sizes: tuple[SizeFigures, ...]
    capacity_bytes: int

    def __post_init__(self) -> None:
        order = [figures.batch_size for figures in self.sizes]
        if order != sorted(set(order)) or not order or order[0] < 1:
            raise ValueError(f"batch sizes of bucket {self.bucket} are not in order: {order}")
        if not self.ran:
            raise ValueError(f"no batch size of bucket {self.bucket} ran")

    @cached_property
    def ran(self) -> tuple[SizeFigures, ...]:
        """The sizes that found memory each time, up to the smallest that did not."""
        failed = min((figures.batch_size for figures in self.sizes if figures.out_of_memory), default=None)
        return tuple(figures for figures in self.sizes if failed is None or figures.batch_size < failed)

    @property
    def ceiling(self) -> int:
        """The largest size that ran without running out of memory."""
        return self.ran[-1].batch_size

    @property
    def is_bounded_by_memory(self) -> bool:
        """Whether memory ran out at a larger size; otherwise nobody knows how large a batch might be."""
        return self.ran[-1] is not self.sizes[-1]

    @cached_property
    def levels(self) -> dict[int, float]:
        """Pages a second by size with the noise drawn out: rising to one peak, then falling."""
        fitted = unimodal([f.pages_per_s for f in self.ran], [f.repeats for f in self.ran])
        return {figures.batch_size: level for figures, level in zip(self.ran, fitted, strict=True)}

    def best(self) -> SizeFigures:
        """The smallest size at the highest throughput of those that leave some memory free, or else of all that ran."""
        return max(self._roomy() or self.ran, key=lambda f: (self.levels[f.batch_size], -f.batch_size))

    def knee(self, max_latency_s: float | None = None) -> SizeFigures | None:
        """The smallest size within `WITHIN` of the best, among those that leave memory free and keep the bound.

        The bound is for the 95th percentile of a page's latency. None if no size keeps both.
        """
        kept = self.within(max_latency_s)
        if not kept:
            return None
        line = (1 - WITHIN) * max(self.levels[f.batch_size] for f in kept)
        return next(f for f in kept if self.levels[f.batch_size] >= line)

    def size_for(self, profile: Profile, max_latency_s: float | None = None) -> int:
        """The batch size that a profile takes; 1 if no size keeps its bounds.

        `bulk` has the highest throughput, `balanced` is the knee, both within the bound if there is one, and
        `interactive` the knee within a bound, which is `PATIENCE` times the latency of the smallest batch where none
        is given.
        """
        if profile == "bulk" and max_latency_s is None:
            return self.best().batch_size
        if profile == "bulk":
            kept = [f for f in self._roomy() if f.latency_p95_s <= (max_latency_s or 0.0)]
            return max(kept, key=lambda f: (self.levels[f.batch_size], -f.batch_size)).batch_size if kept else 1
        if profile == "interactive" and max_latency_s is None:
            max_latency_s = PATIENCE * self.ran[0].latency_p95_s
        knee = self.knee(max_latency_s)
        return knee.batch_size if knee else 1

    def within(self, max_latency_s: float | None = None) -> list[SizeFigures]:
        """The sizes that leave memory free and keep the bound."""
        return [f for f in self._roomy() if max_latency_s is None or f.latency_p95_s <= max_latency_s]

    def _roomy(self) -> list[SizeFigures]:
        return [figures for figures in self.ran if figures.memory_bytes <= MEMORY_SHARE * self.capacity_bytes]
