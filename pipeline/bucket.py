"""Bucket: a class of pages of like length, so that a batch drawn from one carries little padding. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

SMALLEST_LENGTH = 64
RATIO = 1.25
"""Neighbouring geometric edges stand in this ratio, so no batch of one bucket pads more than 1 - 1/RATIO."""

LITTLE_PADDING = 0.015
"""Share of padding that buckets may carry for the sake of a wider choice of pages."""

MOST_CANDIDATES = 512
"""Lengths among which edges are sought, at most; of more, those that part the pages most evenly."""

MOST_LENGTHS = 4096
"""Different lengths that are counted apart, at most; HunyuanOCR's pages have no more."""


def bucket_of(length: int) -> int:
    """The geometric bucket of a page: the largest length that belongs to it, which is also its name in the tables.

    Edges are 64 · 1.25^k rounded up: fine enough to keep padding low, coarse enough to fill.

    Raises:
        ValueError: `length` is negative.
    """
    if length < 0:
        raise ValueError(f"a length cannot be negative: {length}")
    step = max(0, math.ceil(math.log(max(length, 1) / SMALLEST_LENGTH, RATIO)) - 1)
    while edge(step) < length:
        step += 1
    return edge(step)


def edge(step: int) -> int:
    """Largest length of the geometric bucket number `step`, counted from zero."""
    return math.ceil(SMALLEST_LENGTH * RATIO**step)


@dataclass(frozen=True, slots=True)
class Edges:
    """Where buckets end: at the lengths `rising`, and for pages longer than the last of these at geometric edges."""

    rising: tuple[int, ...] = ()

    def bucket_of(self, length: int) -> int:
        """The largest length that belongs to the bucket of a page of this one."""
        position = bisect_left(self.rising, length)
        return self.rising[position] if position < len(self.rising) else bucket_of(length)


@dataclass(slots=True)
class Lengths:
    """How often each length was seen. Past `MOST_LENGTHS` different ones they are counted in steps, rounded up."""

    num_pages: int = 0
    _counts: dict[int, int] = field(default_factory=dict)
    _step: int = 1

    def add(self, length: int) -> None:
        """Count one page."""
        self.num_pages += 1
        self._count(length, 1)
        while len(self._counts) > MOST_LENGTHS:
            self._step *= 2
            counted, self._counts = self._counts, {}
            for known, count in counted.items():
                self._count(known, count)

    def edges(self, num_buckets: int) -> Edges:
        """The buckets for what was seen so far: as few as pad `LITTLE_PADDING`, and no more than `num_buckets`."""
        return Edges(best_edges(self._counts, num_buckets, LITTLE_PADDING))

    def _count(self, length: int, count: int) -> None:
        rounded = -(-length // self._step) * self._step
        self._counts[rounded] = self._counts.get(rounded, 0) + count


def best_edges(counts: Mapping[int, int], num_buckets: int, good_enough: float = 0.0) -> tuple[int, ...]:
    """At most so many edges, rising, under which pages padded to the edge above them carry the least padding.

    Wider buckets give more choice among their pages, so that there are no more than it takes to pad `good_enough`.

    Dynamic programming over the lengths in order: the cost of a bucket is what its longest page makes of the others,
    and where the last bucket begins moves one way only, which lets each bucket more be found by halving
    (O(buckets · lengths · log lengths)).

    Args:
        counts: Pages by length; those of more than `MOST_CANDIDATES` lengths are joined to the next candidate.
        num_buckets: At least one.
        good_enough: Padding's share of the padded whole, 0 to 1.
    """
    padding = _Padding.of(counts)
    if not padding.lengths:
        return ()
    size = len(padding.lengths)
    costs: list[float] = [padding.between(0, stop) for stop in range(1, size + 1)]
    chosen = [[0] * size]
    most = padding.tokens[-1] * good_enough / (1 - good_enough)
    while len(chosen) < min(num_buckets, size) and costs[-1] > most:
        costs, starts = _one_bucket_more(costs, padding.between)
        chosen.append(starts)
    edges, stop = list[int](), size
    for starts in reversed(chosen):  # each bucket more has padded less, so that none of them is empty
        edges.append(padding.lengths[stop - 1])
        stop = starts[stop - 1]
    return tuple(reversed(edges))


@dataclass(frozen=True, slots=True)
class _Padding:
    """Lengths that may be edges, and sums over the pages up to each: what a bucket of any of them pads, at once."""

    lengths: Sequence[int]
    pages: Sequence[int]
    tokens: Sequence[int]

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> _Padding:
        lengths = sorted(counts)
        pages = [0, *accumulate(counts[length] for length in lengths)]
        tokens = [0, *accumulate(length * counts[length] for length in lengths)]
        ends = list(range(1, len(lengths) + 1))
        if len(lengths) > MOST_CANDIDATES:
            share = pages[-1] / MOST_CANDIDATES
            ends = [n for n in ends if n == len(lengths) or pages[n] // share < pages[n + 1] // share]
        return cls([lengths[n - 1] for n in ends], [0, *(pages[n] for n in ends)], [0, *(tokens[n] for n in ends)])

    def between(self, start: int, stop: int) -> int:
        """Padding of a bucket that ends with candidate `stop` - 1 and begins after candidate `start` - 1."""
        pages = self.pages[stop] - self.pages[start]
        return self.lengths[stop - 1] * pages - (self.tokens[stop] - self.tokens[start])


def _one_bucket_more(costs: Sequence[float], cost: Callable[[int, int], int]) -> tuple[list[float], list[int]]:
    """From the least cost up to each candidate that with one bucket more, and where the last bucket begins."""
    best, starts = [math.inf] * len(costs), [0] * len(costs)
    waiting = [(0, len(costs) - 1, 0, len(costs) - 1)]
    while waiting:
        first, last, low, high = waiting.pop()
        if first > last:
            continue
        middle = (first + last) // 2
        for start in range(low, min(middle, high) + 1):
            before = costs[start - 1] if start else 0
            if (total := before + cost(start, middle + 1)) < best[middle]:
                best[middle], starts[middle] = total, start
        waiting += [(first, middle - 1, low, starts[middle]), (middle + 1, last, starts[middle], high)]
    return best, starts
