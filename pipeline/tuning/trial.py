"""Trial: one measurement of one batch size. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """Measure batches of so many pages of a bucket. `number` counts from zero how often that was asked before."""

    bucket: int
    batch_size: int
    number: int

    def batches(self, pages: Sequence[int], *, num_pages: int, at_once: int = 1) -> tuple[tuple[int, ...], ...]:
        """The batches to read: full ones, of about `num_pages` pages in all, or `at_once` batches if that is more.

        The pages of the bucket come one after the other and over again. Each trial begins where the one before it
        has ended, so that no page counts more than the others in the long run.
        """
        num_batches = max(math.ceil(num_pages / self.batch_size), at_once)
        total = num_batches * self.batch_size
        taken = [pages[(self.number * total + place) % len(pages)] for place in range(total)]
        return tuple(tuple(taken[n : n + self.batch_size]) for n in range(0, total, self.batch_size))


@dataclass(frozen=True, slots=True)
class Trial:
    """What it came to. Pages that the engine failed on are not among `num_pages`.

    `num_tokens` are those that a model wrote, or else the pages' lengths; `latencies_s` has one entry a page. Memory is
    the peak during the trial, in bytes. With `out_of_memory` nothing else has to be true.
    """

    ask: Ask
    num_pages: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    latencies_s: tuple[float, ...] = ()
    memory_allocated_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    host_memory_bytes: int = 0
    idle_ratio: float | None = None
    padding_ratio: float = 0.0
    out_of_memory: bool = False

    @property
    def pages_per_s(self) -> float:
        """Throughput; 0 if nothing was read."""
        return self.num_pages / self.seconds if self.seconds > 0 else 0.0
