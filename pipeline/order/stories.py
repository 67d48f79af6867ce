"""Stories: where one ends and others begin below it, told from headings; of newspapers and of sections. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from pipeline.order.box import Box
from pipeline.order.cells import gaps_of

# Lengths below are in heights of a line: the median height of the boxes of the block at hand.
STRIP_HEIGHTS, LARGE, HEADING = 0.2, 1.35, 1.2
"""Free height above headings, and how high they are themselves: where stories begin side by side, where alone."""
MAX_STRIPS = 32
"""Strips between stories that are followed down the page, the widest ones."""


def stories_of(block: Sequence[Box], height: float) -> list[list[Box]]:
    """The block parted above stories that begin side by side, and around a heading that has a strip to itself."""
    groups: list[list[Box]] = []
    bottom = 0.0
    for box in sorted(block, key=lambda box: box.y0):
        if not groups or box.y0 - bottom > STRIP_HEIGHTS * height:
            groups.append([])
        groups[-1].append(box)
        bottom = max(bottom, box.y1) if len(groups[-1]) > 1 else box.y1
    wide = max(box.x1 for box in block) - min(box.x0 for box in block)
    parts: list[list[Box]] = [[]]
    heads: list[list[Box]] = [[]]
    alone = heading = False
    for group, width in zip(groups, _widths_below(groups), strict=True):
        first = [box for box in group if box.y0 < group[0].y0 + height / 2]
        large = [box for box in first if box.height > LARGE * height]
        was, goes_on, heading = alone, heading, all(box.height > HEADING * height for box in group)
        alone = heading and width > 0.7 * wide and not gaps_of(group, height)
        beside = len(large) == len(first) > 1 and sum(box.width for box in large) > 0.4 * wide and not goes_on
        if parts[-1] and (beside or alone or was):
            parts.append([])
            heads.append([])
        if beside and not parts[-1]:
            heads[-1] = large
        parts[-1] += group
    return [sorted(part, key=lambda box: (box.middle, box.x0)) for part in _one_below_the_other(parts, heads)]


def _one_below_the_other(parts: list[list[Box]], heads: list[list[Box]]) -> Iterator[list[Box]]:
    """Tiers of stories as one part where a strip between the stories goes through them: their columns go on below."""
    last: list[Box] = []
    strips: list[tuple[float, float]] = []
    for part, first in zip(parts, heads, strict=True):
        through = _left_free(strips, part)
        if through:
            last, strips = last + part, through
            continue
        if last:
            yield last
        last, strips = part, _left_free(list(_strips_between(first)), part)
    yield last


def _strips_between(heads: Sequence[Box]) -> Iterator[tuple[float, float]]:
    """The strips between headings that stand side by side."""
    ordered = sorted(heads, key=lambda box: box.x0)
    edges = accumulate((head.x1 for head in ordered), max)
    for edge, head in zip(edges, ordered[1:], strict=False):
        if head.x0 > edge:
            yield edge, head.x0


def _left_free(strips: list[tuple[float, float]], boxes: Sequence[Box]) -> list[tuple[float, float]]:
    """What is left of strips where no box enters them; the widest if there are very many."""
    for box in boxes:
        if not strips:
            break
        if any(left < box.x1 and box.x0 < right for left, right in strips):
            pieces = [
                piece
                for left, right in strips
                for piece in ((left, min(right, box.x0)), (max(left, box.x1), right))
                if piece[0] < piece[1]
            ]
            strips = sorted(set(pieces), key=lambda piece: (piece[0] - piece[1], piece))[:MAX_STRIPS]
    return strips


def _widths_below(groups: Sequence[Sequence[Box]]) -> list[float]:
    """How wide what stands below each group is."""
    left = right = 0.0
    widths: list[float] = []
    for group in reversed(groups):
        widths.append(right - left)
        left = min(*(box.x0 for box in group), left if widths[1:] else group[0].x0)
        right = max(*(box.x1 for box in group), right)
    return widths[::-1]
