"""Resizing pixels on whatever device they are; one of those that import torch."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def resized(planes: Tensor, height_px: int, width_px: int) -> Tensor:
    """Pixels at another size: float32 with whole values of 0 to 255, shape (channels, height, width).

    Args:
        planes: uint8, shape (channels, height, width).
        height_px: The height wanted.
        width_px: The width wanted.

    Bicubic, as in the image processors of transformers (whose rounding to whole grey levels differs by at most one).
    """
    values = planes.float()
    if tuple(planes.shape[1:]) == (height_px, width_px):
        return values
    found = functional.interpolate(values[None], (height_px, width_px), mode="bicubic", antialias=True)[0]
    return found.round().clamp(0, 255)
