"""Fragments of one column by the printed line they stand on, and in each line in the order they are read."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median

from pipeline.order.box import Box, Frame, shared
from pipeline.order.direction import leftward
from pipeline.result import Line

CELL_HEIGHTS = 1.5
"""Fragments of a row farther apart than this, in heights of a line, are cells, each with a direction of its own."""


def lines_of(row: Sequence[Box], frame: Frame) -> list[Line]:
    """The fragments of a row as they are read; ones of the other direction keep theirs among themselves (UAX 9)."""
    lines: list[Line] = []
    cell: list[Line] = []
    for before, box in zip([None, *row], row, strict=False):
        if before is not None and box.x0 - before.x1 > CELL_HEIGHTS * min(before.height, box.height):
            lines += _turned(cell, frame)
            cell = []
        cell += box.lines
    return lines + _turned(cell, frame)


def _turned(lines: list[Line], frame: Frame) -> list[Line]:
    """Fragments that stand close, in the order of the frame, as they are read."""
    signs = [leftward(line.text) for line in lines]
    if frame is Frame.DOWN or len(lines) < 2 or (frame is Frame.ACROSS and max(signs) <= 0):
        return lines
    visual = lines[::-1] if frame is Frame.LEFTWARD else lines
    signs = signs[::-1] if frame is Frame.LEFTWARD else signs
    return _logical(visual, signs, from_right=sum(signs) > 0 or (sum(signs) == 0 and frame is Frame.LEFTWARD))


def _logical(lines: Sequence[Line], signs: Sequence[int], *, from_right: bool) -> list[Line]:
    """Fragments that stand from left to right in the order they are read; numbers follow the fragment before them."""
    against = [sign < 0 if from_right else sign > 0 for sign in signs]
    for index in range(1, len(lines)):
        number = signs[index] == 0 and lines[index].text[:1].isdigit()
        against[index] |= from_right and number and against[index - 1]
    found: list[Line] = []
    for turned, run in groupby(zip(against, lines, strict=True), key=lambda pair: pair[0]):
        part = [line for _, line in run]
        if from_right:
            found[:0] = part if turned else part[::-1]
        else:
            found += part[::-1] if turned else part
    return found


def rows_of(block: Sequence[Box]) -> list[list[Box]]:
    """Boxes by the printed line they stand on, rows from the top, each from the left."""
    rows: list[list[Box]] = []
    starts: list[list[float]] = []
    for box in block:
        fitting = [index for index in range(max(0, len(rows) - 4), len(rows)) if _fits(rows[index], starts[index], box)]
        if fitting:
            best = max(fitting, key=lambda index: shared(_beside(rows[index], starts[index], box)[0], box))
            rows[best].insert(bisect_left(starts[best], box.x0), box)
            insort(starts[best], box.x0)
        else:
            rows.append([box])
            starts.append([box.x0])
    size = median(box.height for box in block)
    return sorted(rows, key=lambda row: fmean(min(box.middle, box.y0 + 0.75 * max(size, 0.0)) for box in row))


def _beside(row: Sequence[Box], starts: Sequence[float], box: Box) -> list[Box]:
    """The nearest boxes of a row on either side, the nearest first; a row is sorted by its boxes' left edges."""
    at = bisect_left(starts, box.x0)
    around = row[max(0, at - 2) : at + 1]
    return sorted(around, key=lambda other: max(box.x0 - other.x1, other.x0 - box.x1))


def _fits(row: Sequence[Box], starts: Sequence[float], box: Box) -> bool:
    """Whether the box stands beside, not on, the boxes of the row, and level with the nearest of them."""
    around = _beside(row, starts, box)
    small, large = sorted((around[0].height, box.height))
    free = all(min(box.x1, b.x1) - max(box.x0, b.x0) <= 0.3 * min(box.width, b.width) for b in around)
    return free and shared(around[0], box) >= 0.5 * small and large <= 3 * small
