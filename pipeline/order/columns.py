"""Columns of text: gutters taken from the page itself, and what stands around and between them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

from pipeline.order.box import Box
from pipeline.order.cells import is_table
from pipeline.order.numbered import numbered_cells
from pipeline.order.stories import LARGE, stories_of

# Lengths below are in heights of a line: the median height of the boxes of the block at hand.
GUTTER_HEIGHTS = 0.25
"""Narrowest gutter; the boxes of a detector reach a little beyond the letters, so it is less than it looks."""
COLUMN_HEIGHTS, NARROW_HEIGHTS, ASIDE_HEIGHTS = 10.0, 6.0, 4.0
"""Least width of a column of text: one whose lines stand level with those beside (some 25 letters); the same with
lines all of one width, as the cells of a table seldom are; one with lines not level with those beside (an infobox)."""
COLUMN_ROWS, NARROW_ROWS = 4, 5
"""Fewest lines of a wide column, and of a narrow one or one with lines that are not level with those beside."""
TIER_GUTTER = 1.5
"""Narrowest strip between tiers of lines that run down the page and end where they like."""
ENTRY_ROWS = 8
"""Fewest lines of a column of entries, words and then a number, such as those of an index."""
MAX_EDGES, MAX_ZONES = 160, 48
"""Left edges at which a gutter is looked for, the most frequent ones, and pairs of columns that are looked at."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A run of boxes, top to bottom, with a gutter between `left` and `right`; `tall` is their common height."""

    start: int
    stop: int
    left: list[Box]
    right: list[Box]
    tall: float

    @property
    def gutter(self) -> float:
        """How wide the strip between the two is."""
        return min(box.x0 for box in self.right) - max(box.x1 for box in self.left)


class Effort:
    """What may be spent on a page, in boxes looked at: a page made to take forever is read in rows from then on."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, amount: int) -> bool:
        """Whether there was as much left."""
        self.left -= amount
        return self.left >= 0


def cut(block: list[Box], effort: Effort, *, tiers: bool = False) -> list[list[Box]]:
    """The parts of a block in reading order, cut around its tallest pair of columns; none if it has no columns.

    With `tiers` lines run down the page, which they do in text but hardly ever in tables, so that lines of a poem,
    each of its own length, are told from cells.
    """
    if len(block) < 2 * COLUMN_ROWS:
        return []
    height = max(median(box.height for box in block), 1e-9)
    stories = stories_of(block, height)
    if len(stories) > 1:
        return stories
    edges = _edges(block, height)
    if not effort.spend(len(block) * len(edges)):
        return []
    zones = sorted(_zones(block, edges, height), key=lambda zone: (-zone.tall, zone.start - zone.stop))
    tables: list[tuple[int, int]] = []
    for zone in zones[:MAX_ZONES]:
        if not effort.spend(20 * (len(zone.left) + len(zone.right))):
            return []
        if any(start <= zone.start and zone.stop <= stop for start, stop in tables):
            continue
        is_tier = tiers and _are_tiers(zone, height)
        if not is_tier and is_table(zone.left, zone.right, height):
            tables.append((zone.start, zone.stop))
        elif is_tier or _are_columns(zone, height):
            above, left, right, below = _parts(block, zone, height)
            inside = numbered_cells(left, right, height) or [left, right]
            return [part for part in (above, *inside, below) if part]
    return []


def _edges(block: Sequence[Box], height: float) -> list[float]:
    """Left edges of boxes, those within a quarter of a height as one, the most frequent if there are very many."""
    edges: dict[int, float] = {}
    counts: Counter[int] = Counter()
    for x0 in sorted((box.x0 for box in block), reverse=True):
        edges[int(4 * x0 / height)] = x0
        counts[int(4 * x0 / height)] += 1
    kept = sorted(edges, key=lambda key: (-counts[key], key))[:MAX_EDGES]
    return sorted(edges[key] for key in kept)


def _zones(block: list[Box], edges: Sequence[float], height: float) -> Iterator[Zone]:
    """Every run of boxes with a free strip between some of them; a strip ends where a box enters it."""
    sides = [(box.x0, box.x1) for box in block]
    for edge in edges:
        limit = edge - GUTTER_HEIGHTS * height
        walls = [-1, *(i for i, (x0, x1) in enumerate(sides) if x0 < edge and x1 > limit), len(block)]
        for above, below in pairwise(walls):
            if below - above > 2 * COLUMN_ROWS:
                run = block[above + 1 : below]
                left, right = [box for box in run if box.x0 < edge], [box for box in run if box.x0 >= edge]
                tall = _common_height(left, right)
                if tall > height:
                    yield Zone(above + 1, below, left, right, tall)


def _common_height(left: Sequence[Box], right: Sequence[Box]) -> float:
    """How far two groups of boxes stand side by side."""
    if min(len(left), len(right)) < COLUMN_ROWS:
        return 0.0
    bottom = min(max(box.y1 for box in side) for side in (left, right))
    return bottom - max(min(box.y0 for box in side) for side in (left, right))


def _are_columns(zone: Zone, height: float) -> bool:
    """Whether the boxes next to a gutter are text in columns, rather than cells of the same rows."""
    reach = min(max(0.8 * zone.gutter, 0.9 * height), 2 * height)
    mirrored = [Box(-box.x1, box.y0, -box.x0, box.y1, box.lines) for box in zone.left]
    few, many = sorted((_nearest(side, reach, height) for side in (mirrored, zone.right)), key=len)
    beside, level = _side_by_side(few, many, height)
    if len(few) < COLUMN_ROWS or beside < 0.6 * len(few):
        return False
    if level < 0.6 * len(few) and len(few) >= NARROW_ROWS:
        return all(_column_width(side) >= ASIDE_HEIGHTS * height for side in (few, many))
    return all(_is_text(side, height) for side in (few, many)) or all(map(_are_entries, (few, many)))


def _are_tiers(zone: Zone, height: float) -> bool:
    """Whether there are lines of letters on both sides of a wide strip, most of them longer than a label."""
    return zone.gutter >= TIER_GUTTER * height and all(
        sum(box.width >= NARROW_HEIGHTS * height and _is_wordy(box) for box in side) >= max(COLUMN_ROWS, len(side) / 2)
        for side in (zone.left, zone.right)
    )


def _are_entries(column: Sequence[Box]) -> bool:
    """Whether most lines of a column are words and then a number: an index, in which no line need be full."""
    texts = ["".join(line.text for line in box.lines).strip(" .,;") for box in column]
    both = sum(text[-1:].isdigit() and text[:1].isalpha() for text in texts)
    return len(texts) >= ENTRY_ROWS and both >= 0.5 * len(texts)


def _side_by_side(few: Sequence[Box], many: Sequence[Box], height: float) -> tuple[int, int]:
    """How many boxes of one side stand beside one of the other, and how many level with one."""
    bands: dict[int, list[Box]] = {}
    for box in many:
        bands.setdefault(int(box.middle // height), []).append(box)
    beside = level = 0
    for box in few:
        near = [other for band in (-2, -1, 0, 1, 2) for other in bands.get(int(box.middle // height) + band, [])]
        beside += any(abs(box.middle - other.middle) < 1.25 * height for other in near)
        level += any(abs(box.middle - other.middle) < height / 6 for other in near)
    return beside, level


def _nearest(side: Sequence[Box], reach: float, height: float) -> list[Box]:
    """The text next to a gutter to the left of `side`, line by line: boxes on one line less than `reach` apart."""
    found: dict[int, Box] = {}
    for box in sorted(side, key=lambda box: (box.x0, box.middle)):
        band = int(box.middle // height)
        around = [near for near in (band - 1, band, band + 1) if near in found]
        level = [near for near in around if abs(box.middle - found[near].middle) < height / 2]
        if not level:
            found.setdefault(band, box)
            continue
        first = found[level[0]]
        if box.x0 - first.x1 <= reach:
            found[level[0]] = Box(first.x0, first.y0, max(first.x1, box.x1), first.y1, first.lines + box.lines)
    return list(found.values())


def _is_text(column: Sequence[Box], height: float) -> bool:
    """Whether fragments one below the other are lines of text: words, and most of them as wide as the column."""
    width = _column_width(column)
    full = sum(box.width >= 0.7 * width for box in column) / len(column)
    wordy = sum(_is_wordy(box) for box in column) / len(column)
    narrow = width >= NARROW_HEIGHTS * height and full >= 0.9 and len(column) >= NARROW_ROWS
    return wordy > 0.5 and (narrow or (width >= COLUMN_HEIGHTS * height and full >= 0.6))


def _is_wordy(box: Box) -> bool:
    text = "".join(line.text for line in box.lines)
    return 2 * sum(map(str.isalpha, text)) > len(text)


def _column_width(column: Sequence[Box]) -> float:
    """The width that three quarters of the boxes do not exceed: headings across columns do not count."""
    return sorted(box.width for box in column)[3 * (len(column) - 1) // 4]


def _parts(block: list[Box], zone: Zone, height: float) -> list[list[Box]]:
    """What stands above the columns, the left ones, the right ones, and what stands below."""
    inside = block[zone.start : zone.stop]
    full = {id(box.lines) for side in (zone.left, zone.right) for box in _full(side, height)}
    head = _margin(inside, full, height)
    foot = _margin([Box(b.x0, -b.y1, b.x1, -b.y0, b.lines) for b in inside[::-1]], full, height)
    kept = {id(box) for box in inside[head : len(inside) - foot]}
    left = [box for box in zone.left if id(box) in kept]
    right = [box for box in zone.right if id(box) in kept]
    return [block[: zone.start + head], left, right, block[zone.stop - foot :]]


def _full(side: Sequence[Box], height: float) -> list[Box]:
    """Boxes that are lines of a column or headings in large type, and so belong to no running head or foot."""
    width = median(box.width for box in side)
    return [box for box in side if box.width >= 0.8 * width or box.height > LARGE * height]


def _margin(boxes: Sequence[Box], full: set[int], height: float) -> int:
    """How many of the topmost boxes are a running head: up to five rows of short ones, and a gap below them."""
    bottoms = list(accumulate((box.y1 for box in boxes), max))
    gaps = [box.y0 - bottom for box, bottom in zip(boxes[1:], bottoms, strict=False)]
    usual = max(0.0, sorted(gaps)[4 * (len(gaps) - 1) // 5])
    most = next((index for index, box in enumerate(boxes) if id(box.lines) in full), len(boxes))
    starts = [index for index, gap in enumerate(gaps, start=1) if gap > -boxes[index].height / 2][:5]
    starts = [start for start in starts if start <= most]
    least = [usual + (0.8 if row == 0 else 1.5) * height for row in range(len(starts))]
    return max((start for start, gap in zip(starts, least, strict=True) if gaps[start - 1] > gap), default=0)
