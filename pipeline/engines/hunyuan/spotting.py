"""Spotting: the lines and boxes in what HunyuanOCR writes when it is asked where the text stands. Pure.

Two notations, after the parsers in Tencent-Hunyuan/HunyuanOCR (``Hunyuan-OCR-master/utils.py`` for 1.0,
``train_verl/reward/task_scorers/spotting.py`` for 1.5): ``text(x1,y1),(x2,y2)text(x1,y1),(x2,y2)``, one line after the
other with nothing between them, or a JSON array of ``{"box": [x1, y1, x2, y2], "text": "..."}``. Coordinates are
whole numbers from 0 to 1000, across and down the page. ``<ref>`` and ``<quad>`` around text and box are special
tokens that a decoder may have kept.

Text can hold brackets and numbers itself. The points that count are those right before the next line's text: of
``P(1,2),(3,4)(10,20),(30,40)`` the text is ``P(1,2),(3,4)``. Points with a space on both sides are text as well, for
the model puts none around its boxes. What has no box is kept as text, so nothing is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pipeline.engines.certainty import Certainty
from pipeline.result import Line

SCALE = 1000
"""A coordinate of so much is the right or the lower edge."""

_POINT = r"\(\d{1,4},\d{1,4}\)"
_POINTS = re.compile(rf"(?:</ref>\s*)?(?:<quad>)?({_POINT}(?:,{_POINT})+)(?:</quad>)?")
_JSON_STARTS = re.compile(r"\s*(?:```\w*\s*)?\[?\s*\{")
_JSON_OF_NOTHING = re.compile(r"\s*(?:```\w*\s*)?\[\s*\]\s*(?:```\s*)?")
"""The array of a page without text. In the other notation a line that says ``[]`` has a box behind it."""
_JSON_BETWEEN = " \t\r\n,[]`"
_JSON_TEXT = re.compile(r'"text"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)

Box = tuple[float, float, float, float]
"""Left, top, right, bottom; from 0 to `SCALE`, or in pixels."""


@dataclass(frozen=True, slots=True)
class Spotted:
    """What stands on a page and where. `note` is one line on what could not be understood; its words are in `text`."""

    text: str
    lines: tuple[Line, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Words at characters `start` to `end` of the answer, and where they stand on the page, if that is known."""

    text: str
    start: int
    end: int
    box: Box | None = None


def read_spotting(answer: str, width_px: int, height_px: int, certainty: Certainty | None = None) -> Spotted:
    """The lines of an answer, in its order, with boxes in pixels of a raster of this size and within it.

    Args:
        answer: All that the model wrote, in either notation, cut off or not.
        width_px: Width of the raster that was read, 1 or more.
        height_px: Its height.
        certainty: That of the answer; without it the lines have no scores.
    """
    if _JSON_OF_NOTHING.fullmatch(answer):
        return Spotted("", ())
    pieces = _in_json(answer) if _JSON_STARTS.match(answer) else None
    if pieces is None:
        pieces = list(_in_words(answer))
    scored = certainty or Certainty((), ())
    lines = tuple(
        Line(piece.text, _in_pixels(piece.box, width_px, height_px), *scored.score(piece.start, piece.end))
        for piece in pieces
        if piece.box
    )
    return Spotted("\n".join(piece.text for piece in pieces), lines, _note(len(pieces) - len(lines), len(pieces)))


def _note(num_without: int, num_pieces: int) -> str | None:
    if not num_without:
        return None
    which = "the answer has no box" if num_pieces == 1 else f"{num_without} of {num_pieces} pieces of text have no box"
    return f"{which}: kept as text without a line"


def _in_words(answer: str) -> Iterator[_Piece]:
    """Pieces of ``text(x1,y1),(x2,y2)``."""
    found = list(_found(answer))
    starts = [match.start() for match, _ in found[1:]]
    begin = 0
    for (match, box), after in zip_longest(found, starts):
        ends_a_line = after is None or answer[match.end() : after].strip()
        if ends_a_line and (piece := _words(answer, begin, match.start(), box)):
            yield piece
            begin = match.end()
    if rest := _words(answer, begin, len(answer)):
        yield rest


def _found(answer: str) -> Iterator[tuple[re.Match[str], Box]]:
    """Whatever may be a box, from left to right."""
    last_end = -1
    for match in _POINTS.finditer(answer):
        start, end = match.span()
        is_quoted = answer[end : end + 1] == " " and (start == last_end or answer[max(0, start - 1) : start] == " ")
        if not is_quoted and (box := _around(match[1])):
            yield match, box
        last_end = end


def _words(answer: str, start: int, end: int, box: Box | None = None) -> _Piece | None:
    """The text between two places, without white space around it and the mark before it; None if there is none."""
    text = answer[start:end]
    text = text.lstrip().removeprefix("<ref>").lstrip()
    start = end - len(text)
    text = text.rstrip()
    return _Piece(text, start, start + len(text), box) if text else None


def _around(points: str) -> Box | None:
    """The upright box around two points, or the four of a polygon; None if they are something else."""
    numbers = [int(digits) for digits in re.findall(r"\d+", points)]
    if len(numbers) not in (4, 8) or max(numbers) > SCALE:
        return None
    across, down = numbers[::2], numbers[1::2]
    return min(across), min(down), max(across), max(down)


def _in_json(answer: str) -> list[_Piece] | None:
    """Pieces of a JSON array, cut off or broken as it may be; None if nothing in it is an object."""
    pieces: list[_Piece | None] = []
    decoder, read, start = json.JSONDecoder(strict=False), 0, answer.find("{")
    while start >= 0:
        try:
            item, end = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            pieces += [_between(answer, read, start), _object(answer, start, end, item)]
            read = end
        start = answer.find("{", end)
    return [piece for piece in (*pieces, _between(answer, read, len(answer))) if piece] if pieces else None


def _between(answer: str, start: int, end: int) -> _Piece | None:
    """What stands beside the objects, if it is more than what holds an array together."""
    return _words(answer, start, end) if answer[start:end].strip(_JSON_BETWEEN).removeprefix("json") else None


def _object(answer: str, start: int, end: int, item: dict[str, Any]) -> _Piece | None:
    """An object as a line; all of it as text where it is something else; None if its text is empty."""
    text, match = item.get("text"), _JSON_TEXT.search(answer, start, end)
    if not isinstance(text, str) or not match:
        return _words(answer, start, end)
    return _Piece(text.strip(), *match.span(1), _box(item.get("box", item.get("bbox")))) if text.strip() else None


def _box(numbers: Any) -> Box | None:
    """Four numbers as a box; those beyond the page are drawn back to its edge."""
    if not isinstance(numbers, list) or len(numbers) != 4:
        return None
    if not all(isinstance(number, int | float) and not math.isnan(number) for number in numbers):
        return None
    x0, y0, x1, y1 = (float(min(max(number, 0), SCALE)) for number in numbers)
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def _in_pixels(box: Box, width_px: int, height_px: int) -> Box:
    """The box on a raster of this size, a pixel wide and high at least."""
    (left, right), (top, bottom) = (
        _stretch(box[axis] * side / SCALE, box[axis + 2] * side / SCALE, side)
        for axis, side in ((0, width_px), (1, height_px))
    )
    return left, top, right, bottom


def _stretch(low: float, high: float, side: int) -> tuple[float, float]:
    low = max(0.0, min(low, side - 1.0))
    return low, min(float(side), max(high, low + 1))
