"""Bucket: a class of pages of like length, so that a batch drawn from one carries little padding. Pure."""

from __future__ import annotations

import math

SMALLEST_LENGTH = 64
RATIO = 1.25
"""Neighbouring bucket edges stand in this ratio, so no batch of one bucket pads more than 1 - 1/RATIO."""


def bucket_of(length: int) -> int:
    """The bucket of a page: the largest length that belongs to it, which is also its name in the tables.

    Edges are geometric, 64 · 1.25^k rounded up: fine enough to keep padding low, coarse enough to fill.

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
    """Largest length of the bucket number `step`, counted from zero."""
    return math.ceil(SMALLEST_LENGTH * RATIO**step)
