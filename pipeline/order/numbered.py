"""Numbered cells: what is numbered across the page is read across it, though it stands in columns. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.order.box import Box

_NUMBER = re.compile(r"[(\[]?(?:No\. ?|#)?(\d{1,3})[.):\]](?!\d)")


def numbered_cells(left: Sequence[Box], right: Sequence[Box], height: float) -> list[list[Box]]:
    """The cells of two columns in the order of their numbers, where that runs across: 1 and 2, 3 and 4, and so on.

    Args:
        left: The boxes left of a gutter, from top to bottom.
        right: Those right of it.
        height: A line's height.

    Returns:
        What stands above the numbers, then the cells; nothing where the numbers, if any, run down the columns.
    """
    firsts, seconds = _numbered(left), _numbered(right)
    if len(firsts) < 2 or not 0 <= len(firsts) - len(seconds) <= 1:
        return []
    pairs = list(zip(firsts, seconds, strict=False))
    if any(abs(one.middle - other.middle) > height for (_, one), (_, other) in pairs):
        return []
    read = [number for pair in pairs for number, _ in pair] + [number for number, _ in firsts[len(seconds) :]]
    if read != list(range(read[0], read[0] + len(read))):
        return []
    tops = [box.y0 for _, box in firsts]
    cells = [[box for box in (*left, *right) if box.middle < tops[0]]]
    for top, bottom in zip(tops, [*tops[1:], float("inf")], strict=True):
        cells += [[box for box in side if top <= box.middle < bottom] for side in (left, right)]
    return [sorted(cell, key=lambda box: (box.middle, box.x0)) for cell in cells]


def _numbered(side: Sequence[Box]) -> list[tuple[int, Box]]:
    """Boxes that begin with a number of their own, at the left edge of their column or nearly so."""
    edge = min(box.x0 for box in side)
    found = [(_NUMBER.match(box.lines[0].text.strip()), box) for box in side if box.x0 - edge < 2 * box.height]
    return [(int(match[1]), box) for match, box in found if match]
