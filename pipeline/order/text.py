"""The text of a page in reading order: lines as printed, spaces where the page shows them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from pipeline.order.direction import is_wide, runs_down
from pipeline.result import Line

TIGHT, LOOSE = 0.1, 0.8
"""In heights of a line: fragments of a text layer nearer than the first belong to one word; Chinese and Japanese
fragments farther apart than the second are parted by a space."""
JUMP_HEIGHTS = 6.0
"""How far up the next row must stand for it to begin a column rather than another cell of the same row of a table."""


def page_text(rows: Sequence[Sequence[Line]]) -> str:
    """The text of rows in reading order: one line a row, a blank line where the page shows a gap or a new column."""
    gaps = [_gap(above, below) for above, below in pairwise(rows)]
    usual = median([gap for gap, height in gaps if gap > -height] or [0.0])
    text = ""
    for index, row in enumerate(rows):
        if index:
            gap, height = gaps[index - 1]
            text += "\n\n" if gap < -JUMP_HEIGHTS * height or gap > usual + 0.6 * height else "\n"
        text += _row_text(row)
    return text


def _gap(above: Sequence[Line], below: Sequence[Line]) -> tuple[float, float]:
    """Clear height between two rows (negative if `below` starts a new column) and the smaller row's height."""
    down = all(runs_down(row[0]) for row in (above, below))
    spans = [[_across(line, down) for line in row] for row in (above, below)]
    middles = [fmean((low + high) / 2 for low, high in row) for row in spans]
    heights = [min(high - low for low, high in row) for row in spans]
    return middles[1] - middles[0] - fmean(heights), min(heights)


def _across(line: Line, down: bool) -> tuple[float, float]:
    """First and last pixel of a line across the direction it runs in, counted the way lines follow each other."""
    return (-line.bbox[2], -line.bbox[0]) if down else (line.bbox[1], line.bbox[3])


def _row_text(row: Sequence[Line]) -> str:
    text = row[0].text.strip() if row else ""
    for before, line in pairwise(row):
        part = line.text.strip()
        text += (" " if text and part and _spaced(before, line, text[-1], part[0]) else "") + part
    return text


def _spaced(before: Line, line: Line, last: str, first: str) -> bool:
    """Whether the page shows a space between two fragments of a row; the boxes of a detector reach beyond letters."""
    boxes = (before.bbox, line.bbox)
    gaps = [max(box[axis] for box in boxes) - min(box[axis + 2] for box in boxes) for axis in (0, 1)]
    height = (
        min(min(box[2] - box[0], box[3] - box[1]) for box in boxes)
        if runs_down(line)
        else min(box[3] - box[1] for box in boxes)
    )
    if is_wide(last) and is_wide(first):
        return max(gaps) > LOOSE * height
    return before.score is not None or line.score is not None or max(gaps) > TIGHT * height
