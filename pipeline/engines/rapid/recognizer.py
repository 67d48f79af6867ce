"""Crops in, what each says out: through the session and the decoder of rapidocr's recognizer, in groups of one width.

Its own loop pads the crops of a call to the widest of them; so a line's text would depend on its company.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.rapid.groups import groups, padded_width_px

HEIGHT_PX = 48
LONG_LINE = 10.0
"""Width over height from which `squeeze` applies: short fragments, such as cells of a table, lose digits by it."""
LONGEST_LINE = 200.0
"""Nothing this much wider than high is text; squeezed to it, a ruled line cannot exhaust memory."""
MAX_COLUMNS = 400
"""Columns of one call. Measured on one thread, a column takes 90 µs in a single crop of 96 columns and 76 in four of
them, some 77 in one crop of 192 and more, and 80 to 105 in eight of those: wide crops are quickest alone."""

_LEVELS = (np.arange(256, dtype=np.float32) / 255 - np.float32(0.5)) / np.float32(0.5)
"""What the model is given for each level of gray; beyond the end of a crop it is given zero, the middle."""


class Recognizer:
    """Reads crops of lines, shape (height, width, 3), uint8, BGR; `recognizer` is rapidocr's `TextRecognizer`."""

    def __init__(self, recognizer: Any, *, squeeze: float) -> None:
        import cv2

        self._cv2: Any = cv2
        self._squeeze = squeeze
        self._session, self._decode = recognizer.session, recognizer.postprocess_op

    def read(self, crops: Sequence[NDArray[np.uint8]]) -> list[tuple[str, float]]:
        """Text of each crop and the mean probability of its characters, in the order of the crops."""
        widths = [_input_width_px(self._wanted_aspect(crop)) for crop in crops]
        found: list[tuple[str, float]] = [("", 0.0)] * len(crops)
        for group in groups(widths, max_columns=MAX_COLUMNS):
            rows = np.zeros((len(group), 3, HEIGHT_PX, padded_width_px(widths[group[0]])), np.float32)
            for row, position in zip(rows, group, strict=True):
                row[:, :, : widths[position]] = _LEVELS[self._resized(crops[position], widths[position])].transpose(
                    2, 0, 1
                )
            texts, _ = self._decode(self._session(rows))
            for position, (text, score) in zip(group, texts, strict=True):
                found[position] = text, float(score)
        return found

    def _wanted_aspect(self, crop: NDArray[np.uint8]) -> float:
        """Width over height of what the model is given."""
        aspect: float = crop.shape[1] / crop.shape[0]
        return min(aspect * (self._squeeze if aspect >= LONG_LINE else 1), LONGEST_LINE)

    def _resized(self, crop: NDArray[np.uint8], width_px: int) -> NDArray[np.uint8]:
        """The crop at the model's height; a line that is squeezed is averaged first, so that no stroke is skipped."""
        height_px, wanted = crop.shape[0], self._wanted_aspect(crop)
        if wanted != crop.shape[1] / height_px:
            size = (round(wanted * height_px), height_px)
            crop = self._cv2.resize(crop, size, interpolation=self._cv2.INTER_AREA)
        resized: NDArray[np.uint8] = self._cv2.resize(crop, (width_px, HEIGHT_PX))
        return resized


def _input_width_px(aspect: float) -> int:
    """Columns of a crop at the model's height."""
    return max(1, math.ceil(HEIGHT_PX * aspect))
