"""Frame: a page with a border, as the detector wants it, and where on the page the detector's corners lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BORDER_PX, FRAME_SIDE_PX, DETECTOR_STEP_PX = 16, 320, 32
BAND_MARGIN_PX, SEAM_PX = 128, 16
"""How far a band looks beyond its own rows, and how far two bands may differ on where the same line stands."""
WIDEST_PX = 16_384
"""A0 lying on its side at 300 dpi is narrower; bands of wider pages would not keep memory in bounds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A page of this size whose first pixel is at (`left`, `top`) of its frame."""

    left: int
    top: int
    width_px: int
    height_px: int

    def bbox(self, quad: NDArray[np.float32]) -> tuple[float, float, float, float]:
        """The upright box around four corners of the frame, in pixels of the page and within it."""
        x = np.clip(quad[:, 0] - self.left, 0, self.width_px)
        y = np.clip(quad[:, 1] - self.top, 0, self.height_px)
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def framed(pixels: NDArray[np.uint8], most: int) -> tuple[NDArray[np.uint8], Place]:
    """A page in a border of the colour of its edge, for text at the edge and thin strips; sides fit the detector.

    Args:
        pixels: The page, shape (height, width) if gray or (height, width, 3) in RGB.
        most: Pixels that a page is expected to have at most.

    Returns:
        The frame, shape (height, width, 3) in BGR, and where in it the page lies.

    Raises:
        ValueError: a frame would be out of all proportion to the page.
    """
    height_px, width_px = pixels.shape[:2]
    high, wide = (
        DETECTOR_STEP_PX * math.ceil(max(side + 2 * BORDER_PX, FRAME_SIDE_PX) / DETECTOR_STEP_PX)
        for side in (height_px, width_px)
    )
    if wide > WIDEST_PX or wide * high > 2 * max(width_px * height_px, most):
        raise ValueError(f"a page of {width_px} x {height_px} pixels is too long and thin to be read")
    top, left = (high - height_px) // 2, (wide - width_px) // 2
    bgr = pixels[..., ::-1] if pixels.ndim == 3 else pixels[..., np.newaxis]
    frame = np.empty((high, wide, 3), np.uint8)
    frame[:] = np.median(np.concatenate([bgr[0], bgr[-1], bgr[:, 0], bgr[:, -1]]), axis=0)
    frame[top : top + height_px, left : left + width_px] = bgr
    return frame, Place(left, top, width_px, height_px)


def bands(width_px: int, height_px: int, band_pixels: int) -> list[tuple[int, int]]:
    """First and past-the-last pixel row of the bands to look at one by one: a single one up to about `band_pixels`."""
    if width_px * height_px <= 1.1 * band_pixels:
        return [(0, height_px)]
    num_bands = math.ceil(height_px / max(BAND_MARGIN_PX, band_pixels // width_px - 2 * BAND_MARGIN_PX))
    return list(pairwise(height_px * i // num_bands for i in range(num_bands + 1)))


def same_place(quad: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Whether two bands saw the same fragment: the upright boxes share more than half of the smaller one."""
    low, high = np.maximum(quad.min(0), other.min(0)), np.minimum(quad.max(0), other.max(0))
    smaller = min(np.prod(np.ptp(corners, axis=0)) for corners in (quad, other))
    return bool((high > low).all() and np.prod(high - low) > smaller / 2)
