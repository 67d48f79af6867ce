"""The lines of a page, put in the reading order of the page as it stands upright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.order import page_text, reading_order
from pipeline.result import Line, Recognition


def ordered(lines: Sequence[Line], quarters: int, width_px: int, height_px: int) -> Recognition:
    """Text in the reading order of the upright page, lines in the same order with the boxes they came with."""
    upright = [replace(line, bbox=_turned(line.bbox, quarters, width_px, height_px)) for line in lines]
    rows = reading_order(upright)
    sides = (height_px, width_px) if quarters % 2 else (width_px, height_px)
    in_order = [replace(line, bbox=_turned(line.bbox, 4 - quarters, *sides)) for row in rows for line in row]
    num_letters = sum(len(line.text) for line in in_order)
    total = sum(len(line.text) * (line.score or 0.0) for line in in_order)
    return Recognition(page_text(rows), lines=tuple(in_order), confidence=total / num_letters if in_order else None)


def _turned(
    bbox: tuple[float, float, float, float], quarters: int, width_px: float, height_px: float
) -> tuple[float, float, float, float]:
    """The box after turning the page that many quarters counter-clockwise."""
    for _ in range(quarters % 4):
        bbox = (bbox[1], width_px - bbox[2], bbox[3], width_px - bbox[0])
        width_px, height_px = height_px, width_px
    return bbox
