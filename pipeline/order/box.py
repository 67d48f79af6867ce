"""A fragment on a page turned straight, and the turning: scans lie a degree or two askew."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from pipeline.result import Line

MAX_SLOPE, SLOPE_STEPS = 0.05, 40
"""How far a page may lie askew (0.05 is 2.9 degrees), and in how many steps either way it is tried."""
SLOPE_SAMPLE = 240
"""The slope is found from so many boxes, the widest, so that it costs no more on a page of thousands."""


class Frame(Enum):
    """How a page is brought to one that is read from left to right and from the top: as it is, mirrored, turned."""

    ACROSS = "lines from left to right"
    LEFTWARD = "lines from right to left"
    DOWN = "lines down the page, the first of them on the right"


@dataclass(frozen=True, slots=True)
class Box:
    """One or more fragments that stand close on one line, in the frame's pixels from its leftmost, topmost box."""

    x0: float
    y0: float
    x1: float
    y1: float
    lines: tuple[Line, ...]

    @property
    def width(self) -> float:
        """Length along the line."""
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        """Size across the line."""
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        """Where the line stands."""
        return (self.y0 + self.y1) / 2


def shared(a: Box, b: Box) -> float:
    """How much of their heights two boxes share; negative if they do not."""
    return min(a.y1, b.y1) - max(a.y0, b.y0)


def levelled(lines: Sequence[Line], frame: Frame) -> list[Box]:
    """The lines as boxes of a page turned straight, top to bottom, in an order that the input's does not alter."""
    ordered = sorted(lines, key=lambda line: (line.bbox, line.text, line.score is None, line.score or 0.0))
    framed = [_framed(line.bbox, frame) for line in ordered]
    left, top = min(bbox[0] for bbox in framed), min(bbox[1] for bbox in framed)
    shifted = [
        Box(x0 - left, y0 - top, x1 - left, y1 - top, (line,))
        for (x0, y0, x1, y1), line in zip(framed, ordered, strict=True)
    ]
    slope = _slope(shifted)
    return sorted((_turned(box, slope) for box in shifted), key=lambda box: (box.middle, box.x0))


def _framed(bbox: tuple[float, float, float, float], frame: Frame) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = bbox
    if frame is Frame.LEFTWARD:
        return -x1, y0, -x0, y1
    return (y0, -x1, y1, -x0) if frame is Frame.DOWN else bbox


def _turned(box: Box, slope: float) -> Box:
    """The box with the page's slope taken out; the upright box around a slanted line is too high, by its width."""
    if not slope:
        return box
    half = max(box.height - abs(slope) * box.width, box.height / 4) / 2
    middle = box.middle - slope * (box.x0 + box.x1) / 2
    lean = slope * box.middle
    return Box(box.x0 + lean, middle - half, box.x1 + lean, middle + half, box.lines)


def _slope(boxes: Sequence[Box]) -> float:
    """How far the lines fall per pixel to the right: the slope at which most edges and middles stand in line."""
    near = median(box.height for box in boxes) / 6
    sample = sorted(boxes, key=lambda box: -box.width)[:SLOPE_SAMPLE]
    level = _alignment(sample, 0.0, near)
    coarse = max(range(-SLOPE_STEPS, SLOPE_STEPS + 1, 2), key=lambda step: (_aligned(sample, step, near), -abs(step)))
    best = max(range(coarse - 1, coarse + 2), key=lambda step: (_aligned(sample, step, near), -abs(step)))
    clear = _aligned(sample, best, near) > 1.1 * level + len(sample) / 2
    return MAX_SLOPE * best / SLOPE_STEPS if clear else 0.0


def _aligned(boxes: Sequence[Box], step: int, near: float) -> int:
    return _alignment(boxes, MAX_SLOPE * step / SLOPE_STEPS, near)


def _alignment(boxes: Sequence[Box], slope: float, near: float) -> int:
    """Pairs of boxes whose left edges, right edges or middles agree within `near` on the page turned by `slope`."""
    half = slope / 2
    lefts = sorted([box[0] + slope * (box[1] - half * box[2]) for box in _sides(boxes)])
    rights = sorted([box[0] + box[2] + slope * (box[1] + half * box[2]) for box in _sides(boxes)])
    middles = sorted([box[1] - half * (2 * box[0] + box[2]) for box in _sides(boxes)])
    return sum(
        bisect_right(values, value + near, index) - index - 1
        for values in (lefts, rights, middles)
        for index, value in enumerate(values)
    )


def _sides(boxes: Sequence[Box]) -> list[tuple[float, float, float]]:
    return [(box.x0, (box.y0 + box.y1) / 2, box.x1 - box.x0) for box in boxes]


def joined(boxes: Sequence[Box], near: float) -> list[Box]:
    """Fragments that stand on one line less than `near` of its height apart made one box, top to bottom.

    A text layer may come word by word; columns are found from what stands in lines.
    """
    bands: dict[int, list[Box]] = {}
    size = max(median(box.height for box in boxes), 1e-9)
    for box in sorted(boxes, key=lambda box: (box.x0, box.middle)):
        bands.setdefault(int(box.middle // size), []).append(box)
    starts = {number: [box.x0 for box in band] for number, band in bands.items()}
    links = []
    for box in boxes:
        reach = near * box.height
        for number in range(int(box.middle // size) - 1, int(box.middle // size) + 2):
            band = bands.get(number, [])
            first = bisect_right(starts.get(number, []), box.x1 - min(0.3 * box.height, box.width / 2))
            for other in band[first : first + 4]:
                small, large = sorted((box.height, other.height))
                if other.x0 - box.x1 <= reach and shared(box, other) >= 0.6 * small and large <= 1.8 * small:
                    links.append((other.x0 - box.x1, abs(other.middle - box.middle), box, other))
                    break
    return _chained(boxes, links)


def _chained(boxes: Sequence[Box], links: list[tuple[float, float, Box, Box]]) -> list[Box]:
    """Boxes strung together along the closest links, each with one neighbour on either side at most."""
    after: dict[int, Box] = {}
    before: set[int] = set()
    for _, _, box, other in sorted(links, key=lambda link: (link[0], link[1], link[2].x0, link[2].y0)):
        if id(box) not in after and id(other) not in before and box is not other:
            after[id(box)] = other
            before.add(id(other))
    found = []
    for box in boxes:
        if id(box) not in before:
            chain = [box]
            while id(chain[-1]) in after:
                chain.append(after[id(chain[-1])])
            found.append(_one(chain))
    return sorted(found, key=lambda box: (box.middle, box.x0))


def _one(chain: Sequence[Box]) -> Box:
    if len(chain) == 1:
        return chain[0]
    middle, half = median(box.middle for box in chain), median(box.height for box in chain) / 2
    lines = tuple(line for box in chain for line in box.lines)
    return Box(chain[0].x0, middle - half, max(box.x1 for box in chain), middle + half, lines)
