"""Tables whose cells run over several lines: their rows, and the cells of each. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from statistics import median

from pipeline.order.box import Box

ROW_HEIGHTS = 0.22
"""By how much more than the lines of a cell the rows of such a table stand apart, in heights of a line."""
CELL_HEIGHTS = 0.7
"""Least room between two cells."""
MAX_CELL_ROWS = 15
"""Lines of the longest cell, over which it is a column rather than a cell."""

Gap = tuple[float, float]


def bands(block: Sequence[Box], height: float, one_in: int = 20) -> list[list[Box]]:
    """The block parted where nothing stands on either side of a gap larger than that between lines of a cell."""
    ordered = sorted(block, key=lambda box: (box.middle, box.x0))
    most = _pitch(ordered, height, one_in) + ROW_HEIGHTS * height
    found = [[ordered[0]]]
    for above, below in pairwise(ordered):
        if below.middle - above.middle > most:
            found.append([])
        found[-1].append(below)
    return found


def _pitch(ordered: Sequence[Box], height: float, one_in: int) -> float:
    """How far apart lines one below the other stand, those of one cell: what one in so many undercuts."""
    middles = [box.middle for box in ordered]
    steps = []
    for index, box in enumerate(ordered):
        start = bisect_left(middles, box.middle + 0.6 * height, index)
        near = (other for other in ordered[start : start + 24] if other.x0 < box.x1 and box.x0 < other.x1)
        below = next(near, None)
        if below is not None and below.middle - box.middle < 4 * height:
            steps.append(below.middle - box.middle)
    least = sorted(steps)[len(steps) // one_in] if steps else height
    return median([step for step in steps if least <= step <= least + ROW_HEIGHTS * height] or [height])


def gaps_of(band: Iterable[Box], height: float) -> list[Gap]:
    """Strips between the boxes of a band that none of them enters, from the left."""
    ordered = sorted(band, key=lambda box: box.x0)
    ends = accumulate((box.x1 for box in ordered), max)
    return [(end, box.x0) for end, box in zip(ends, ordered[1:], strict=False) if box.x0 - end >= CELL_HEIGHTS * height]


def _meet(gap: Gap, other: Gap, height: float) -> bool:
    return min(gap[1], other[1]) - max(gap[0], other[0]) >= CELL_HEIGHTS * height / 2


def _confirmed(gaps: Sequence[Gap], around: Iterable[Sequence[Gap]], height: float) -> list[Gap]:
    """Strips that go on in a neighbouring band."""
    others = [other for band in around for other in band]
    return [gap for gap in gaps if any(_meet(gap, other, height) for other in others)]


def _parts(band: Sequence[Box], gaps: Sequence[Gap]) -> list[list[Box]]:
    edges = [gap[1] for gap in gaps]
    cells: list[list[Box]] = [[] for _ in range(len(edges) + 1)]
    for box in band:
        cells[bisect_left(edges, box.x0 + 1e-6)].append(box)
    return cells


def _num_rows(cell: Sequence[Box], height: float) -> int:
    middles = sorted(box.middle for box in cell)
    return 1 + sum(below - above > height / 2 for above, below in pairwise(middles))


def are_cells(cells: Sequence[Sequence[Box]], height: float) -> bool:
    """Whether groups of boxes side by side begin on one line, or have their middles on one, as cells of a row do."""
    tops = [cell[0].middle for cell in cells]
    centres = [(cell[0].middle + cell[-1].middle) / 2 for cell in cells]
    rows = [_num_rows(cell, height) for cell in cells]
    level = any(max(values) - min(values) < height / 2 for values in (tops, centres))
    return level and 1 < max(rows) <= MAX_CELL_ROWS


def is_table(left: Sequence[Box], right: Sequence[Box], height: float) -> bool:
    """Whether two groups of lines side by side are cells of rows, some of several lines, rather than columns."""
    sides = {id(box): 0 for box in left} | {id(box): 1 for box in right}
    rows = []
    for band in bands([*left, *right], height, one_in=8):
        parts = [[box for box in band if sides[id(box)] == side] for side in (0, 1)]
        if all(parts):
            rows.append(parts)
    tops = [abs(a[0].middle - b[0].middle) < height / 4 for a, b in rows]
    centres = [abs(a[0].middle + a[-1].middle - b[0].middle - b[-1].middle) < height / 2 for a, b in rows]
    lengths = [max(_num_rows(part, height) for part in row) for row in rows]
    level = max(sum(tops), sum(centres))
    uneven = sum(_uneven(row, height) for row in rows)
    return level >= 0.8 * len(rows) and uneven >= max(2, len(rows) / 4) and max(lengths) <= MAX_CELL_ROWS


def cells(block: Sequence[Box]) -> list[list[Box]]:
    """The block parted into what stands between rows of such a table and into their cells, as they are read."""
    height = max(median(box.height for box in block), 1e-9)
    found = bands(block, height)
    gaps = [gaps_of(band, height) for band in found]
    rows = []
    for index, band in enumerate(found):
        around = [*gaps[max(0, index - 1) : index], *gaps[index + 1 : index + 2]]
        row = _parts(band, _confirmed(gaps[index], around, height))
        rows.append(row if are_cells(row, height) else [band])
    several = [row for row in rows if len(row) > 1]
    if not several or 2 * sum(_uneven(row, height) for row in several) < len(several):
        return [list(block)]
    parts: list[list[Box]] = []
    for together, run in groupby(rows, key=lambda row: len(row) == 1):
        group = list(run)
        parts += [[box for row in group for box in row[0]]] if together else [cell for row in group for cell in row]
    return parts


def _uneven(row: Sequence[Sequence[Box]], height: float) -> bool:
    """Whether the cells have different numbers of lines, as single lines that stand close do not."""
    lengths = [_num_rows(cell, height) for cell in row]
    return min(lengths) <= 0.7 * max(lengths)
