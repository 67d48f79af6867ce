"""Tone: a raster in which nothing has a colour needs one channel, not three."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_SPREAD = 5
"""Between the channels of a pixel that counts as gray: 2 % of 255, MuPDF's own value for 'imperceptible'."""
_STEP_PX, _STRIPE_PX = 32, 64


def without_colour(pixels: NDArray[Any]) -> NDArray[Any]:
    """The same raster, (height, width), if every pixel of it is gray; a raster in colour as it is.

    A few pixels are looked at first: where they have a colour, this costs next to nothing.
    """
    if pixels.ndim == 2 or not _is_gray(pixels[::_STEP_PX, ::_STEP_PX]):
        return pixels
    starts = range(0, len(pixels), _STRIPE_PX)
    if not all(_is_gray(pixels[start : start + _STRIPE_PX]) for start in starts):
        return pixels
    return np.ascontiguousarray(pixels[:, :, 1])


def _is_gray(pixels: NDArray[Any]) -> bool:
    red, green, blue = (pixels[:, :, channel] for channel in range(3))
    low = np.minimum(np.minimum(red, green), blue)
    return bool((np.maximum(np.maximum(red, green), blue) - low).max(initial=0) <= _MAX_SPREAD)
