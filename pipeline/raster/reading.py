"""Reading: single lines of print read with small models that come in wheels, to check what a page shows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

LINE_PX = 48
"""Height of a line as the recognizer wants it."""
MAX_ASPECT = 24
"""Longest line that is read, in heights: more would cost time and memory and say no more."""

_STRIP_PX = 400
_MIN_LINE_PX, _MAX_LINE_PX = 8, 120


@cache
def session(package: str, pattern: str) -> Any:
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


def read_line(line: NDArray[Any]) -> tuple[str, float]:
    """What RapidOCR's recognizer sees in a line of print, and the mean probability of its characters but for dots.

    Args:
        line: Gray, shape (height, width), uint8, dark on light.
    """
    recognizer = session("rapidocr", "*_rec_*.onnx")
    line = np.ascontiguousarray(line[:, : MAX_ASPECT * line.shape[0]])
    width = max(LINE_PX, round(line.shape[1] * LINE_PX / line.shape[0]))
    image = Image.fromarray(line).resize((width, LINE_PX), Image.Resampling.BILINEAR)
    values = np.asarray(image).astype(np.float32) / 127.5 - 1
    given = np.ascontiguousarray(np.broadcast_to(values, (1, 3, LINE_PX, width)))
    answer = recognizer.run(None, {recognizer.get_inputs()[0].name: given})[0][0]
    best = answer.argmax(axis=1)
    seen = best > 0  # 0 is no character
    if not seen.any():
        return "", 0.0
    begins = seen & (best != np.concatenate([[0], best[:-1]]))
    characters = _characters()
    text = "".join(characters[index - 1] for index in best[begins] if index <= len(characters))
    solid = seen & ~np.isin(best, _dots())
    return text, float(answer.max(axis=1)[solid if solid.any() else seen].mean())


@cache
def _dots() -> list[int]:
    """The recognizer's classes of dots and dashes: a row of them is a leader, of which nobody knows the number."""
    return [index for index, character in enumerate(_characters(), start=1) if character in ".·…‥-_—"]


@cache
def _characters() -> tuple[str, ...]:
    """What the recognizer's classes stand for, from the second on; the last one is the space."""
    said = session("rapidocr", "*_rec_*.onnx").get_modelmeta().custom_metadata_map
    return (*said["character"].splitlines(), " ")


def lines_of_print(gray: NDArray[Any], ink: NDArray[np.bool_]) -> Iterator[NDArray[Any]]:
    """Pieces of what looks like lines of print: runs of rows with ink.

    The page is cut into strips so narrow that a skewed page does not matter.

    Args:
        gray: The page, (height, width), uint8, dark on light.
        ink: What of it is ink and may be print, of the same shape.
    """
    for left in range(0, max(1, gray.shape[1] - _STRIP_PX // 2), _STRIP_PX):
        strip = ink[:, left : left + _STRIP_PX]
        rows = np.concatenate([[False], strip.sum(axis=1) > 0.02 * strip.shape[1], [False]])
        edges = np.flatnonzero(rows[1:] != rows[:-1])
        for top, bottom in zip(edges[::2], edges[1::2], strict=True):
            height = bottom - top
            if not _MIN_LINE_PX <= height <= _MAX_LINE_PX:
                continue
            columns = np.flatnonzero(strip[top:bottom].any(axis=0))
            if columns[-1] - columns[0] <= 3 * height:
                continue
            inked = strip[top:bottom, columns[0] : columns[-1] + 1].mean()
            if 0.08 <= inked <= 0.5:
                pad = height // 6 + 1
                first = left + columns[0]
                yield gray[max(0, top - pad) : bottom + pad, first : left + columns[-1] + 1]


def typical(lines: list[NDArray[Any]], most: int) -> list[NDArray[Any]]:
    """Some of the lines: those as high as most of them, the widest first."""
    usual = np.median([line.shape[0] for line in lines]) if lines else 0
    return sorted(lines, key=lambda line: (abs(np.log(line.shape[0] / usual)) > 0.3, -line.shape[1]))[:most]
