"""Scan: a page that is one picture and nothing else is decoded, which is faster than to have MuPDF draw it.

Only what cannot look different: plain gray and RGB, axes along the page's. For all else there is MuPDF's drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.raster.jpeg import decoded_jpeg
from pipeline.raster.library import pymupdf
from pipeline.raster.look import Scene

_mupdf = pymupdf.mupdf

_LOSSLESS = {
    getattr(_mupdf, f"FZ_IMAGE_{name}") for name in ("RAW", "FAX", "FLATE", "LZW", "RLD", "JBIG2", "BROTLI")
    if hasattr(_mupdf, f"FZ_IMAGE_{name}")
}  # fmt: skip
_SNAP_PX = 0.001
"""What a picture may stand over a pixel without touching it; MuPDF's own value."""
_MAX_CUT = 0.25
"""The part of a picture that may lie outside of the page; of more, too much would be decoded in vain."""
_MAX_LOSSLESS_REDUCTION = 2
"""MuPDF decodes coarser what is to be smaller than that, in less memory."""
_PROBES = ((0, 0, 0), (1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), (0.8, 0.5, 0.3))
_MAX_DEVIATION = 1.5 / 255


def decoded(
    scene: Scene, page: Any, may_differ: Callable[[], bool], *, width_px: int, height_px: int
) -> NDArray[Any] | None:
    """The pixels of the page as MuPDF would draw them, (height, width) or (height, width, 3); None if it has to.

    What the decoder complains of is left to MuPDF, which says so in words that every other page has.

    Args:
        scene: What the page shows.
        page: The page's box in points.
        may_differ: Tells whether the PDF may say that a JPEG is coded in other colours than it says itself.
        width_px: Width of the raster.
        height_px: Its height.
    """
    if scene.only is None or not _is_plain(scene.only.image, scene.spaces):
        return None
    across, down = width_px / page.width, height_px / page.height
    a, b, c, d, e, f = scene.only.matrix
    a, c, e = a * across, c * across, (e - page.x0) * across
    b, d, f = b * down, d * down, (f - page.y0) * down
    is_turned = abs(a) + abs(d) < 2 * _SNAP_PX
    if not is_turned and abs(b) + abs(c) >= 2 * _SNAP_PX:
        return None
    left, right = _snapped(e, e + (c if is_turned else a))
    top, bottom = _snapped(f, f + (b if is_turned else d))
    inside = max(0, min(right, width_px) - max(left, 0)) * max(0, min(bottom, height_px) - max(top, 0))
    if inside < (1 - _MAX_CUT) * (right - left) * (bottom - top):
        return None
    size = (right - left, bottom - top)
    pixels = _of_size(scene.only.image, size[::-1] if is_turned else size, may_differ)
    if pixels is None:
        return None
    turned = pixels.swapaxes(0, 1) if is_turned else pixels
    turned = turned[:: -1 if (b if is_turned else d) < 0 else 1, :: -1 if (c if is_turned else a) < 0 else 1]
    return _on_page(turned, left, top, width_px, height_px)


def _snapped(one: float, other: float) -> tuple[int, int]:
    """The whole pixels that a picture between these two covers, as MuPDF widens it to them."""
    low, high = sorted((one, other))
    start = math.floor(low + _SNAP_PX)
    return start, max(start + 1, math.ceil(high - _SNAP_PX))


def _on_page(pixels: NDArray[Any], left: int, top: int, width_px: int, height_px: int) -> NDArray[Any]:
    """The picture at this place of a white page, cut at the page's edges."""
    seen = pixels[max(0, -top) : height_px - top, max(0, -left) : width_px - left]
    if seen.shape[:2] == (height_px, width_px):
        return np.ascontiguousarray(seen)
    page = np.full((height_px, width_px, *pixels.shape[2:]), 255, np.uint8)
    top, left = max(0, top), max(0, left)
    page[top : top + seen.shape[0], left : left + seen.shape[1]] = seen
    return page


def _is_plain(image: Any, spaces: Any) -> bool:
    """Whether its samples are gray or RGB as the raster has them, all of them opaque."""
    inner = image.m_internal
    if inner.mask or inner.imagemask or inner.use_colorkey or inner.bpc not in (1, 8) or inner.n not in (1, 3):
        return False
    space = image.colorspace()
    if not space.m_internal or _mupdf.fz_colorspace_is_indexed(space) or _mupdf.fz_image_orientation(image) > 1:
        return False
    wanted = pymupdf.csGRAY.this if inner.n == 1 else pymupdf.csRGB.this
    if _mupdf.fz_colorspace_type(space) != _mupdf.fz_colorspace_type(wanted):
        return False
    if spaces is not None and _mupdf.fz_colorspace_is_device(space):
        space = _mupdf.fz_default_gray(spaces) if inner.n == 1 else _mupdf.fz_default_rgb(spaces)
    return bool(_mupdf.fz_colorspace_is_device(space)) or _is_as_shown(space, wanted, inner.n)


def _is_as_shown(space: Any, wanted: Any, num_channels: int) -> bool:
    """Whether a profile is that of the raster's own colours, whoever wrote it: told by some colours in it."""
    nothing, how = _mupdf.FzColorspace(), _mupdf.FzColorParams()
    for colour in _PROBES:
        asked = colour[:num_channels]
        got = _mupdf.fz_convert_color(space, [float(value) for value in asked], wanted, nothing, how)
        if any(abs(one - other) > _MAX_DEVIATION for one, other in zip(got, asked, strict=False)):
            return False
    return True


def _of_size(image: Any, size: tuple[int, int], may_differ: Callable[[], bool]) -> NDArray[Any] | None:
    """The picture, its own top row first, in this width and height; None where MuPDF would have to enlarge it."""
    width_px, height_px = image.w(), image.h()
    is_as_large = abs(width_px - size[0]) <= 1 and abs(height_px - size[1]) <= 1
    if not is_as_large and not (size[0] < width_px and size[1] < height_px):
        return None
    kind = _mupdf.fz_compressed_image_type(image)
    if kind == _mupdf.FZ_IMAGE_JPEG:
        is_plain = not image.m_internal.use_decode
        made = decoded_jpeg(image, may_differ, size) if is_plain else None
    elif kind in _LOSSLESS and min(width_px / size[0], height_px / size[1]) <= _MAX_LOSSLESS_REDUCTION:
        made = _lossless(image)
    else:
        made = None
    if made is None:
        return None
    if made.size[0] > size[0] and made.size[1] > size[1]:
        return np.asarray(made.resize(size, Image.Resampling.BILINEAR))
    return _adjusted(np.asarray(made), *size)


def _adjusted(pixels: NDArray[Any], width_px: int, height_px: int) -> NDArray[Any]:
    """One row or column in the middle less or twice: the nearest pixel of each, as MuPDF takes it."""
    for axis, wanted in ((0, height_px), (1, width_px)):
        middle = pixels.shape[axis] // 2
        if pixels.shape[axis] > wanted:
            pixels = np.delete(pixels, middle, axis)
        elif pixels.shape[axis] < wanted:
            pixels = np.insert(pixels, middle, pixels.take(middle, axis), axis)
    return pixels


def _lossless(image: Any) -> Image.Image | None:
    """What MuPDF decodes of its own accord, in 8 bits; its complaints are those of the drawing."""
    found = _mupdf.fz_get_unscaled_pixmap_from_image(image)
    width_px, height_px, channels = found.w(), found.h(), found.n()
    expected = (image.w(), image.h(), image.m_internal.n)
    if (width_px, height_px, channels) != expected or found.alpha() or found.stride() != width_px * channels:
        return None
    samples = _mupdf.fz_pixmap_samples_memoryview(found)
    return Image.frombytes("L" if channels == 1 else "RGB", (width_px, height_px), samples)
