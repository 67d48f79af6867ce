"""From the raster as it is, bytes of one or three channels, to the patches that the vision tower takes: on the device.

The processor of transformers does this on the CPU, at 0.7 s a page of A4 at 200 dpi. Here bytes travel, and the
device resizes (if it must at all), normalizes and cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.resizing import resized


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """How a checkpoint wants its pixels: means and deviations by channel (of values 0 to 1), sides in pixels."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    patch_px: int = 16
    merge: int = 2

    @property
    def cell_px(self) -> int:
        """Side of what one visual token covers."""
        return self.patch_px * self.merge


@dataclass(frozen=True, slots=True)
class Patches:
    """A page for the vision tower: `values` float32, shape (patch rows · patch columns, 3 · patch_px²), row by row."""

    values: Tensor
    rows: int
    columns: int


class Uploader:
    """Brings rasters to the device; on a GPU over pinned memory and a stream of their own, while others are read."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(self, pixels: NDArray[Any]) -> Tensor:
        """The raster on the device: uint8, of the same shape. Whoever uses it calls `wait` first."""
        there = torch.from_numpy(pixels if pixels.flags.writeable else np.array(pixels))
        if self._stream is None:
            return there.to(self._device)
        with torch.cuda.stream(self._stream):
            return there.contiguous().pin_memory().to(self._device, non_blocking=True)

    def wait(self, sent: Tensor) -> None:
        """Let the stream in use wait until what was sent is there."""
        if self._stream is not None:
            using = torch.cuda.current_stream(self._device)
            using.wait_stream(self._stream)
            sent.record_stream(using)


def patches_of(pixels: Tensor, wanted: PixelFormat, *, scale: float = 1.0) -> Patches:
    """Normalize and cut one page.

    Args:
        pixels: uint8, shape (height, width) or (height, width, 3).
        wanted: What the checkpoint wants.
        scale: A factor for both sides, for another look at the page in another resolution.

    Sides that are no multiple of a cell become the nearest one, at least one cell.
    """
    planes = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
    cell = wanted.cell_px
    height, width = (max(1, round(side * scale / cell)) * cell for side in planes.shape[1:])
    values = resized(planes, height, width).expand(3, -1, -1) / 255
    mean, std = (torch.tensor(given, device=pixels.device)[:, None, None] for given in (wanted.mean, wanted.std))
    rows, columns = height // wanted.patch_px, width // wanted.patch_px
    cut = ((values - mean) / std).reshape(3, rows, wanted.patch_px, columns, wanted.patch_px)
    return Patches(cut.permute(1, 3, 0, 2, 4).reshape(rows * columns, -1), rows, columns)
