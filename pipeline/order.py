"""Reading order: from the boxes of a detector, in any order, to rows as a person reads them. Pure.

The page is levelled first (scans lie a degree or two askew), then cut like an XY-tree (Nagy and Seth, 1984),
with gutters taken from the page itself: a strip that no fragment crosses parts two columns if what stands on
both sides of it is text in columns. Cells of a table and the label and price of a receipt are not, so they
stay together and are read row by row.

Boxes are read left to right, top to bottom. Another direction of writing can be brought to this one by
mirroring or transposing the boxes that `_level` makes; nothing after it knows what a page looked like before.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, median

from pipeline.result import Line

# Lengths below are in heights of a line: the median height of the boxes of the block at hand.
GUTTER_HEIGHTS = 0.25
"""Narrowest gutter; the boxes of a detector reach a little beyond the letters, so it is less than it looks."""
COLUMN_HEIGHTS, NARROW_HEIGHTS, ASIDE_HEIGHTS = 10.0, 6.0, 4.0
"""Least width of a column of text: one whose lines stand level with those beside (some 25 letters); the same with
lines all of one width, as the cells of a table seldom are; one with lines not level with those beside (an infobox)."""
COLUMN_ROWS, NARROW_ROWS = 4, 5
"""Fewest lines of a wide column, and of a narrow one or one with lines that are not level with those beside."""
MAX_SLOPE, SLOPE_STEPS = 0.05, 40
"""How far a page may lie askew (0.05 is 2.9 degrees), and in how many steps either way it is tried."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A fragment on the levelled page, measured from the page's leftmost and topmost box."""

    x0: float
    y0: float
    x1: float
    y1: float
    line: Line

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


@dataclass(frozen=True, slots=True)
class _Zone:
    """A run of fragments, top to bottom, with a gutter between `left` and `right`; `tall` is their common height."""

    start: int
    stop: int
    left: list[_Box]
    right: list[_Box]
    tall: float


def reading_order(lines: Sequence[Line]) -> list[list[Line]]:
    """Put fragments into reading order: rows, each with the fragments on one printed line of one column.

    Every line comes back exactly once. The answer depends neither on the order of the input nor on where on
    the page the boxes lie.
    """
    rows: list[list[_Box]] = []
    blocks = [_level(lines)]
    while blocks:
        block = blocks.pop()
        parts = _cut(block)
        if parts:
            blocks.extend(part for part in reversed(parts) if part)
        else:
            rows.extend(_rows(block))
    return [[box.line for box in row] for row in rows]


def page_text(rows: Sequence[Sequence[Line]]) -> str:
    """The text of rows in reading order: one line a row, a blank line where the page shows a gap or a new column."""
    gaps = [_gap(above, below) for above, below in pairwise(rows)]
    usual = median([gap for gap, height in gaps if gap > -height] or [0.0])
    text = ""
    for index, row in enumerate(rows):
        if index:
            gap, height = gaps[index - 1]
            text += "\n\n" if gap < -height or gap > usual + 0.6 * height else "\n"
        text += _row_text(row)
    return text


def _gap(above: Sequence[Line], below: Sequence[Line]) -> tuple[float, float]:
    """Clear height between two rows (negative if `below` starts a new column) and the smaller row's height."""
    middles = [fmean((line.bbox[1] + line.bbox[3]) / 2 for line in row) for row in (above, below)]
    heights = [min(line.bbox[3] - line.bbox[1] for line in row) for row in (above, below)]
    return middles[1] - middles[0] - fmean(heights), min(heights)


def _row_text(row: Sequence[Line]) -> str:
    text = ""
    for line in row:
        part = line.text.strip()
        space = " " if text and part and not (_is_cjk(text[-1]) and _is_cjk(part[0])) else ""
        text += space + part
    return text


def _is_cjk(char: str) -> bool:
    """Whether the character belongs to a script written without spaces; Korean is written with them."""
    wide = unicodedata.east_asian_width(char) in "WF"
    return wide and not unicodedata.name(char, "").startswith(("HANGUL", "HALFWIDTH HANGUL"))


def _level(lines: Sequence[Line]) -> list[_Box]:
    """The lines as boxes of a page turned straight, top to bottom, in an order that the input's does not alter."""
    if not lines:
        return []
    left, top = min(line.bbox[0] for line in lines), min(line.bbox[1] for line in lines)
    ordered = sorted(lines, key=lambda line: (line.bbox, line.text, line.score is None, line.score or 0.0))
    shifted = [
        _Box(line.bbox[0] - left, line.bbox[1] - top, line.bbox[2] - left, line.bbox[3] - top, line) for line in ordered
    ]
    slope = _slope(shifted)
    return sorted((_turned(box, slope) for box in shifted), key=lambda box: (box.middle, box.x0))


def _turned(box: _Box, slope: float) -> _Box:
    """The box with the page's slope taken out; the upright box around a slanted line is too high, by its width."""
    if not slope:
        return box
    half = max(box.height - abs(slope) * box.width, box.height / 4) / 2
    middle = box.middle - slope * (box.x0 + box.x1) / 2
    lean = slope * box.middle
    return _Box(box.x0 + lean, middle - half, box.x1 + lean, middle + half, box.line)


def _slope(boxes: Sequence[_Box]) -> float:
    """How far the lines fall per pixel to the right: the slope at which most edges and middles stand in line."""
    near = median(box.height for box in boxes) / 6
    steps = sorted(range(-SLOPE_STEPS, SLOPE_STEPS + 1), key=abs)
    scores = {step: _alignment(boxes, MAX_SLOPE * step / SLOPE_STEPS, near) for step in steps}
    best = max(steps, key=lambda step: scores[step])
    clear = scores[best] > 1.1 * scores[0] + len(boxes) / 2
    return MAX_SLOPE * best / SLOPE_STEPS if clear else 0.0


def _alignment(boxes: Sequence[_Box], slope: float, near: float) -> int:
    """Pairs of boxes whose left edges, right edges or middles agree within `near` on the page turned by `slope`."""
    half = slope / 2
    lefts = sorted(box.x0 + slope * (box.middle - half * box.width) for box in boxes)
    rights = sorted(box.x1 + slope * (box.middle + half * box.width) for box in boxes)
    middles = sorted(box.middle - half * (box.x0 + box.x1) for box in boxes)
    return sum(
        bisect_right(values, value + near, index) - index - 1
        for values in (lefts, rights, middles)
        for index, value in enumerate(values)
    )


def _cut(block: list[_Box]) -> list[list[_Box]]:
    """The parts of a block in reading order, cut around its tallest pair of columns; none if it has no columns."""
    if len(block) < 2 * COLUMN_ROWS:
        return []
    height = median(box.height for box in block)
    for zone in sorted(_zones(block, height), key=lambda zone: -zone.tall):
        if _are_columns(zone.left, zone.right, height):
            return _parts(block, zone, height)
    return []


def _zones(block: list[_Box], height: float) -> Iterator[_Zone]:
    """Every run of fragments with a free strip between some of them; a strip ends where a fragment begins."""
    edges: dict[int, float] = {}
    for x0 in sorted((box.x0 for box in block), reverse=True):
        edges[int(4 * x0 / max(height, 1e-9))] = x0
    for edge in sorted(edges.values()):
        start = 0
        left: list[_Box] = []
        right: list[_Box] = []
        for index, box in enumerate([*block, None]):
            if box is not None and box.x0 >= edge:
                right.append(box)
            elif box is not None and box.x1 <= edge - GUTTER_HEIGHTS * height:
                left.append(box)
            else:
                tall = _common_height(left, right)
                if tall > height:
                    yield _Zone(start, index, left, right, tall)
                start, left, right = index + 1, [], []


def _common_height(left: Sequence[_Box], right: Sequence[_Box]) -> float:
    """How far two groups of fragments stand side by side."""
    if min(len(left), len(right)) < COLUMN_ROWS:
        return 0.0
    bottom = min(max(box.y1 for box in side) for side in (left, right))
    return bottom - max(min(box.y0 for box in side) for side in (left, right))


def _are_columns(left: list[_Box], right: list[_Box], height: float) -> bool:
    """Whether the fragments next to a gutter are text in columns, rather than cells of the same rows."""
    beside_left = _nearest(sorted(left, key=lambda box: -box.x1), height)
    beside_right = _nearest(sorted(right, key=lambda box: box.x0), height)
    few, many = sorted((beside_left, beside_right), key=len)
    beside = sum(any(_overlap(box, other) > height / 4 for other in many) for box in few)
    if len(few) < COLUMN_ROWS or beside < 0.6 * len(few):
        return False
    level = sum(any(abs(box.middle - other.middle) < height / 4 for other in many) for box in few)
    if level < 0.6 * len(few) and len(few) >= NARROW_ROWS:
        return all(_column_width(side) >= ASIDE_HEIGHTS * height for side in (few, many))
    return all(_is_text(side, height) for side in (few, many))


def _nearest(side: Sequence[_Box], height: float) -> list[_Box]:
    """The first fragment at each level of the page, of fragments that are sorted by their distance to a gutter."""
    found: dict[int, _Box] = {}
    for box in side:
        band = int(box.middle // max(height, 1e-9))
        around = [found[near] for near in (band - 1, band, band + 1) if near in found]
        if all(abs(box.middle - other.middle) >= height / 2 for other in around):
            found.setdefault(band, box)
    return list(found.values())


def _is_text(column: Sequence[_Box], height: float) -> bool:
    """Whether fragments one below the other are lines of text: words, and most of them as wide as the column."""
    width = _column_width(column)
    full = sum(box.width >= 0.7 * width for box in column) / len(column)
    wordy = sum(2 * sum(map(str.isalpha, box.line.text)) > len(box.line.text) for box in column) / len(column)
    narrow = width >= NARROW_HEIGHTS * height and full >= 0.9 and len(column) >= NARROW_ROWS
    return wordy > 0.5 and (narrow or (width >= COLUMN_HEIGHTS * height and full >= 0.6))


def _column_width(column: Sequence[_Box]) -> float:
    """The width that three quarters of the fragments do not exceed: headings across columns do not count."""
    return sorted(box.width for box in column)[3 * (len(column) - 1) // 4]


def _parts(block: list[_Box], zone: _Zone, height: float) -> list[list[_Box]]:
    """What stands above the columns, the left ones, the right ones, and what stands below."""
    inside = block[zone.start : zone.stop]
    head = _margin(inside, height)
    foot = _margin([_Box(b.x0, -b.y1, b.x1, -b.y0, b.line) for b in inside[::-1]], height)
    if head + foot >= len(inside):
        head = foot = 0
    kept = {id(box) for box in inside[head : len(inside) - foot]}
    left = [box for box in zone.left if id(box) in kept]
    right = [box for box in zone.right if id(box) in kept]
    return [block[: zone.start + head], left, right, block[zone.stop - foot :]]


def _margin(boxes: Sequence[_Box], height: float) -> int:
    """How many of the topmost fragments are a running head or a heading: up to five rows, and a gap below them."""
    bottoms = list(accumulate((box.y1 for box in boxes), max))
    gaps = [box.y0 - bottom for box, bottom in zip(boxes[1:], bottoms, strict=False)]
    usual = max(0.0, sorted(gaps)[4 * (len(gaps) - 1) // 5])
    starts = [index for index, gap in enumerate(gaps, start=1) if gap > -boxes[index].height / 2][:5]
    least = [usual + (0.8 if row == 0 else 1.5) * height for row in range(len(starts))]
    return max((start for start, gap in zip(starts, least, strict=True) if gaps[start - 1] > gap), default=0)


def _rows(block: list[_Box]) -> list[list[_Box]]:
    """Fragments by the printed line they stand on, rows from the top, each from the left."""
    rows: list[list[_Box]] = []
    for box in block:
        fitting = [row for row in rows[-4:] if _fits(row, box)]
        if fitting:
            max(fitting, key=lambda row: _overlap(_neighbour(row, box), box)).append(box)
        else:
            rows.append([box])
    rows.sort(key=lambda row: fmean(box.middle for box in row))
    return [sorted(row, key=lambda box: (box.x0, box.middle)) for row in rows]


def _fits(row: Sequence[_Box], box: _Box) -> bool:
    """Whether the box stands beside, not on, the boxes of the row, and level with the nearest of them."""
    near = _neighbour(row, box)
    free = all(min(box.x1, b.x1) - max(box.x0, b.x0) <= 0.3 * min(box.width, b.width) for b in row)
    return free and _overlap(near, box) >= 0.5 * min(near.height, box.height)


def _neighbour(row: Sequence[_Box], box: _Box) -> _Box:
    return min(row, key=lambda other: max(box.x0 - other.x1, other.x0 - box.x1))


def _overlap(a: _Box, b: _Box) -> float:
    """How much of their heights two boxes share; negative if they do not."""
    return min(a.y1, b.y1) - max(a.y0, b.y0)
