"""A frame in, the fragments of text on it out: through the session and the boxes of rapidocr's detector, in bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.rapid.frame import BAND_MARGIN_PX, DETECTOR_STEP_PX, SEAM_PX, bands, same_place

_LEVELS = ((np.arange(256).astype(np.float32) * (1 / 255.0) - np.full(256, 0.5)) / 0.5).astype(np.float32)
"""What the model is given for each level of gray. rapidocr computes this for each pixel, in double precision, which
takes a tenth of a page's time and eight bytes for each channel of a pixel."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text in one line: its four corners, clockwise from the top left, shape (4, 2); its pixels; how they are turned.

    The crop, shape (height, width, 3), has been turned by `quarters` of a turn counter-clockwise: rapidocr does so
    with what is one and a half times as high as wide.
    """

    quad: NDArray[np.float32]
    crop: NDArray[np.uint8]

    @property
    def quarters(self) -> int:
        """Quarters of a turn that make the fragment lie."""
        sides = np.linalg.norm(self.quad - np.roll(self.quad, -1, axis=0), axis=1).astype(int)
        return int(max(sides[1], sides[3]) >= 1.5 * max(sides[0], sides[2]))


class Detector:
    """Finds fragments of text; `detector` is rapidocr's `TextDetector`, `cut` cuts quads out of pixels."""

    def __init__(self, detector: Any, cut: Callable[[Any, Any], list[NDArray[np.uint8]]]) -> None:
        import cv2

        self._cv2: Any = cv2
        self._detector, self._cut = detector, cut

    def fragments(self, pixels: NDArray[np.uint8], most: int) -> Iterator[Fragment]:
        """All fragments of a frame, shape (height, width, 3) in BGR, looked at in bands of about `most` pixels."""
        height_px, width_px = pixels.shape[:2]
        at_seam: list[NDArray[np.float32]] = []
        for first, last in bands(width_px, height_px, most):
            top = max(0, first - BAND_MARGIN_PX)
            band = pixels[top : last + BAND_MARGIN_PX]
            quads = self._quads(band)
            moved = [quad + np.array([0, top], np.float32) for quad in quads]
            inside = [first - SEAM_PX <= quad[:, 1].mean() < last + SEAM_PX for quad in moved]
            fresh = [not any(same_place(quad, other) for other in at_seam) for quad in moved]
            at_seam = [quad for quad in moved if abs(quad[:, 1].mean() - last) <= SEAM_PX]
            crops = self._cut(band, quads)
            yield from compress(map(Fragment, moved, crops), map(all, zip(inside, fresh, strict=True)))

    def _quads(self, band: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Corners of what the detector takes for text, shape (fragments, 4, 2), from top to bottom."""
        height_px, width_px = band.shape[:2]
        high, wide = (max(1, round(side / DETECTOR_STEP_PX)) * DETECTOR_STEP_PX for side in (height_px, width_px))
        fitting = band if (high, wide) == (height_px, width_px) else self._cv2.resize(band, (wide, high))
        given = np.ascontiguousarray(_LEVELS[fitting].transpose(2, 0, 1)[np.newaxis])
        boxes, _ = self._detector.postprocess_op(self._detector.session(given), (height_px, width_px))
        found: NDArray[np.float32] = self._detector.sorted_boxes(boxes)
        return found
