"""Ink: what on a page is print or writing, and whether there is any.

Ink is what differs from the paper around it, so that yellowed paper, uneven light and shadows at an edge are none.
What is as faint as the print of the other side shining through is none either, nor are specks of dust, and solid
patches at the edges of a page (scanner borders, punch holes). Rules and boxes are ink: whether they are a form or
empty note paper is left to the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter, ImageOps

_WORK_DPI, _WORK_PX = 100, 1100
"""The page is looked at in this resolution; where it is not known, with a longest side of about so many pixels."""
_CONTRAST = 36
"""Least difference between ink and paper, of 255. Show-through has 10 to 30, pencil 40 and more, gray print 70."""
_NOISE, _MAX_NOISE = 5.0, 14.0
"""Ink differs by more than so many standard deviations of the paper's noise, which is no more than that: what varies
more is a picture."""
_BLOCK_PX = 8
"""The paper's level is taken from blocks of this side, the lightest of 5 by 5 of them."""
_STROKE_PX = 7
"""A patch thicker than this, 2 mm, is solid: no stroke of a pen or a small letter."""
_PATCH_PX, _PATCH_SHARE = 25, 0.95
"""A patch as thick as this in a raster of 100 dpi and more, and so full, is no print but that of posters."""
_EDGE = 0.08
"""How far, in short sides of the page, a solid patch at the edge may lie in it: the holes of a punch do."""
_FRAME_PX = 4
"""A frame in which nothing is written, 1 mm: the thin end of a scanner's border lies there."""
_MIN_INK_PX, _MIN_EXTENT_PX = 8, 4
"""What of a page number of 6 points is seen in the working resolution: pixels, and its height or width."""


def ink_mask(pixels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which pixels are ink: shape (height, width), of a raster (height, width) or (height, width, 3), uint8."""
    return _ink_and_noise(pixels)[0]


def print_mask(pixels: NDArray[Any]) -> NDArray[np.bool_]:
    """Ink that may be print: without patches too thick for it, such as a table around the page, and their edges."""
    ink = ink_mask(pixels)
    core = _box_sums(ink, _PATCH_PX) > _PATCH_SHARE * _PATCH_PX**2
    return np.asarray(ink & (_box_sums(core, 3 * _PATCH_PX) == 0))


def is_blank(pixels: NDArray[Any], dpi: float | None = None) -> bool:
    """Whether there is nothing on the page to read; in doubt there is.

    Args:
        pixels: The raster, (height, width) or (height, width, 3), uint8.
        dpi: Its resolution if that is known.
    """
    factor = dpi / _WORK_DPI if dpi else max(pixels.shape[:2]) / _WORK_PX
    reduced = np.asarray(Image.fromarray(pixels).reduce(min(3, max(1, round(factor)))))
    ink, noise = _ink_and_noise(reduced)
    if not ink.any() or noise > _MAX_NOISE:
        return noise <= _MAX_NOISE
    height, width = ink.shape
    edge = max(1, round(_EDGE * min(height, width)))
    if _is_dense(ink[edge : height - edge, edge : width - edge]):
        return False
    return not _has_marks(ink & ~_solid_at_edges(ink, edge))


def _ink_and_noise(pixels: NDArray[Any]) -> tuple[NDArray[np.bool_], float]:
    """Which pixels are ink, and the standard deviation of what is not."""
    gray = _dark_on_light(pixels)
    lack = _paper(gray).astype(np.int16) - gray
    # Of a normal distribution, 1.5 times the middle deviation is about the standard deviation.
    sample = lack[:: max(1, lack.shape[0] // 256), :: max(1, lack.shape[1] // 256)]
    usual = float(np.median(sample))
    noise = 1.5 * float(np.median(np.abs(sample - usual)))
    return np.asarray(lack > usual + max(_CONTRAST, _NOISE * min(noise, _MAX_NOISE))), noise


def _dark_on_light(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """One channel in which ink of any colour is darker than the paper, also where the page is white on black."""
    sample = pixels[::7, ::7]
    is_dark = np.median(sample) < 100
    if pixels.ndim == 2:
        return 255 - pixels if is_dark else pixels
    levels = np.median(sample, axis=(0, 1))
    bands = Image.fromarray(pixels).split()
    if is_dark:
        whitened = [
            ImageOps.invert(band).point(_lifted(255 - level)) for band, level in zip(bands, levels, strict=True)
        ]
    else:
        whitened = [band.point(_lifted(level)) for band, level in zip(bands, levels, strict=True)]
    return np.asarray(ImageChops.darker(ImageChops.darker(whitened[0], whitened[1]), whitened[2]))


def _lifted(paper: float) -> list[int]:
    """A table that makes the paper's level of one colour white, so that its tint takes nothing from the contrast."""
    return [min(255, round(value + 255 - paper)) for value in range(256)]


def _paper(gray: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What the paper around each pixel looks like: where blocks of it are lightest, smoothly in between."""
    image = Image.fromarray(gray)
    blocks = image.reduce(min(_BLOCK_PX, *image.size)).filter(ImageFilter.MaxFilter(5))
    smooth = blocks.filter(ImageFilter.BoxBlur(2))
    return np.asarray(smooth.resize(image.size, Image.Resampling.BILINEAR))


def _is_dense(ink: NDArray[np.bool_]) -> bool:
    """Whether some block holds so much ink that it need not be looked at any closer."""
    rows, columns = (side // _BLOCK_PX for side in ink.shape)
    blocks = ink[: rows * _BLOCK_PX, : columns * _BLOCK_PX].reshape(rows, _BLOCK_PX, columns, _BLOCK_PX)
    counts = blocks.sum(axis=3, dtype=np.uint8).sum(axis=1, dtype=np.uint8)
    return bool(counts.size) and int(counts.max()) >= 2 * _MIN_INK_PX


def _has_marks(ink: NDArray[np.bool_]) -> bool:
    """Whether somewhere as much ink lies together as a small digit has."""
    kept = ink & (_box_sums(ink, 5) >= 5)  # a speck of 2 by 2 pixels is dust
    if not kept.any():
        return False
    sums = _box_sums(kept, 2 * _BLOCK_PX + 1)
    row, column = (int(n) for n in np.unravel_index(int(sums.argmax()), sums.shape))
    if int(sums[row, column]) < _MIN_INK_PX:
        return False
    around = kept[max(0, row - _BLOCK_PX) : row + _BLOCK_PX + 1, max(0, column - _BLOCK_PX) : column + _BLOCK_PX + 1]
    rows, columns = np.flatnonzero(around.any(axis=1)), np.flatnonzero(around.any(axis=0))
    return bool(max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1 >= _MIN_EXTENT_PX)


def _solid_at_edges(ink: NDArray[np.bool_], edge: int) -> NDArray[np.bool_]:
    """Solid patches that lie within `edge` of an edge of the page, what borders on them, and the outermost frame."""
    core = _box_sums(ink, _STROKE_PX) == _STROKE_PX**2
    core[edge:-edge, edge:-edge] = False
    solid = _box_sums(core, 3 * _STROKE_PX) > 0
    for frame in (np.s_[:_FRAME_PX], np.s_[-_FRAME_PX:], np.s_[:, :_FRAME_PX], np.s_[:, -_FRAME_PX:]):
        solid[frame] = True
    return np.asarray(solid)


def _box_sums(mask: NDArray[np.bool_], side: int) -> NDArray[np.int32]:
    """How many are set in the square of this odd side around each pixel; outside of the page none is."""
    half = side // 2
    sums = np.pad(mask, ((half + 1, half), (half + 1, half))).cumsum(axis=0, dtype=np.int32).cumsum(axis=1)
    size = 2 * half + 1
    return np.asarray(sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size])
