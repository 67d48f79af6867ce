"""Trial: one measurement of one batch size. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """Measure batches of so many pages of a bucket. `number` counts from zero how often that was asked before."""

    bucket: int
    batch_size: int
    number: int


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
