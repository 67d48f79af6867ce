"""Ink: what on a page is print or writing, and whether there is any."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ink_mask(pixels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which pixels are ink: shape (height, width), of a raster (height, width) or (height, width, 3)."""
    gray = pixels if pixels.ndim == 2 else pixels.min(axis=2)
    return gray < 128


def is_blank(pixels: NDArray[Any]) -> bool:
    """Whether there is nothing on the page to read."""
    return not ink_mask(pixels).any()
