"""Which crops go through the recognizer together: those of exactly the same padded width. Pure.

A crop's padded width depends on the crop alone, never on what else is read, so what a line says does not depend on
the lines and pages beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

STEP_PX = 16
NARROWEST_PX = 96
"""The recognizer reads the short cells of tables as well at this width as at its usual 320."""


def padded_width_px(width_px: int) -> int:
    """The width that a crop of `width_px` columns is padded to: a multiple of `STEP_PX`, at least `NARROWEST_PX`.

    Raises:
        ValueError: `width_px` is not positive.
    """
    if width_px < 1:
        raise ValueError(f"a crop has at least one column, not {width_px}")
    return max(NARROWEST_PX, -(-width_px // STEP_PX) * STEP_PX)


def groups(widths_px: Sequence[int], *, max_columns: int) -> list[tuple[int, ...]]:
    """Positions of the crops of each call, narrowest first: of one padded width, of up to `max_columns` in all.

    A crop that has more columns by itself is a group of its own. Every position is in exactly one group.
    """
    padded = [padded_width_px(width) for width in widths_px]
    found: list[tuple[int, ...]] = []
    for width, members in groupby(sorted(range(len(padded)), key=lambda i: (padded[i], i)), key=lambda i: padded[i]):
        together, size = list(members), max(1, max_columns // width)
        found += [tuple(together[first : first + size]) for first in range(0, len(together), size)]
    return found
