"""Reading order: from the boxes of a detector or a text layer, in any order, to rows as a person reads them. Pure.

The page is parted into regions whose lines run one way (`direction`), each is brought to one read from left to right
and levelled (`box`), then cut like an XY-tree (Nagy and Seth, 1984) with gutters taken from the page itself
(`columns`): a strip that no fragment enters parts two columns if what stands on both sides of it is text in columns.
Cells of a table and the label and price of a receipt are not, so they stay together and are read row by row (`rows`),
and where cells run over several lines, cell by cell (`cells`). Nothing after `box` knows what a page looked like
before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.order.box import Box, Frame, joined, levelled
from pipeline.order.cells import cells
from pipeline.order.columns import Effort, cut
from pipeline.order.direction import regions, run_down
from pipeline.order.rows import lines_of, rows_of
from pipeline.order.text import page_text
from pipeline.result import Line

__all__ = ["page_text", "reading_order", "run_down"]

WORD_HEIGHTS = 0.35
"""Fragments on one line nearer than this, in its heights, are read as one: no gutter is that narrow."""
EFFORT = 4_000_000
"""Boxes looked at in search of columns: a page of 300 lines takes some 50,000."""


def reading_order(lines: Sequence[Line]) -> list[list[Line]]:
    """Put fragments into reading order: rows, each with the fragments on one printed line of one column or cell.

    Every line comes back exactly once. The answer depends neither on the order of the input nor on where on
    the page the boxes lie. The text of a line is in logical order, its box in pixels.
    """
    effort = Effort(EFFORT)
    rows = []
    for frame, part in regions(lines):
        for block in _blocks(joined(levelled(part, frame), WORD_HEIGHTS), effort, tiers=frame is Frame.DOWN):
            rows += [lines_of(row, frame) for cell in cells(block) for row in rows_of(cell)]
    return rows


def _blocks(boxes: list[Box], effort: Effort, *, tiers: bool) -> Iterator[list[Box]]:
    """The page cut until no part of it has columns."""
    blocks = [boxes]
    while blocks:
        block = blocks.pop()
        parts = cut(block, effort, tiers=tiers)
        if parts:
            blocks.extend(reversed(parts))
        else:
            yield block
