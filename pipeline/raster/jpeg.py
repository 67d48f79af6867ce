"""JPEG: pictures of a page decoded by Pillow's libjpeg, whose vector code is three times as fast as MuPDF's."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from PIL import Image

from pipeline.raster.library import pymupdf
from pipeline.raster.look import Placed

_mupdf = pymupdf.mupdf

_MIN_PIXELS, _MAX_BYTES = 100_000, 64_000_000
"""Smaller pictures are not worth it; and what may be decoded beforehand on one page."""


def decoded_jpeg(
    image: Any, may_differ: Callable[[], bool], reduced_to: tuple[int, int] | None = None
) -> Image.Image | None:
    """A picture of MuPDF's that is a JPEG, in mode L or RGB; None if MuPDF might make anything else of it.

    That is any JPEG of which Pillow complains, any of four components, and any whose colours may be coded otherwise
    than libjpeg believes.

    Args:
        image: The picture.
        may_differ: Tells whether the PDF may say that a JPEG is coded in other colours than it says itself.
        reduced_to: Width and height that are wanted; then it is decoded as coarsely as MuPDF would, if at all.
    """
    inner = image.m_internal
    if inner.bpc != 8 or inner.n not in (1, 3) or _mupdf.fz_compressed_image_type(image) != _mupdf.FZ_IMAGE_JPEG:
        return None
    buffer = _mupdf.ll_fz_keep_buffer(_mupdf.fz_compressed_image_buffer(image).m_internal.buffer)
    data = pymupdf.JM_BinFromBuffer(_mupdf.FzBuffer(buffer))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            made = Image.open(io.BytesIO(data), formats=("JPEG",))
            if made.size != (inner.w, inner.h) or made.mode != ("L" if inner.n == 1 else "RGB"):
                return None
            if made.mode == "RGB" and not _is_transformed(made, may_differ):
                return None
            if reduced_to:
                made.draft(None, (reduced_to[0] + 2, reduced_to[1] + 2))
            made.load()
        except MemoryError:
            raise
        except Exception:  # MuPDF will meet it, too, and say what it makes of it
            return None
    return made


def _is_transformed(image: Any, may_differ: Callable[[], bool]) -> bool:
    """Whether the colours are coded as YCbCr, on which both decoders have to agree.

    They do where an Adobe marker says so; without one MuPDF asks the PDF, libjpeg a JFIF marker and the names
    of the components.
    """
    if "adobe" in image.info:
        return bool(image.info.get("adobe_transform") == 1)
    names = bytes(component[0] for component in image.layer)
    return ("jfif" in image.info or names == b"\1\2\3") and not may_differ()


@contextmanager
def decoded_beforehand(
    pictures: Sequence[Placed], may_differ: Callable[[], bool], px_per_point: float
) -> Iterator[None]:
    """While the page is drawn, MuPDF finds the samples of its JPEGs in place of what they are coded as.

    MuPDF still does all that makes them a picture: clips, masks, colours. Nothing of it outlasts the drawing.
    """
    lent: list[tuple[Any, Any, int, Any]] = []
    try:
        left = _MAX_BYTES
        for image in {
            int(p.image.m_internal_value()): p.image for p in pictures if _is_worth_it(p, px_per_point)
        }.values():
            num_bytes = image.w() * image.h() * image.m_internal.n
            made = decoded_jpeg(image, may_differ) if num_bytes <= left else None
            if made is None:
                continue
            left -= num_bytes
            coded = _mupdf.fz_compressed_image_buffer(image).m_internal
            samples = _mupdf.fz_new_buffer_from_copied_data(made.tobytes())
            lent.append((coded, coded.buffer, coded.params.type, samples))
            coded.buffer, coded.params.type = samples.m_internal, _mupdf.FZ_IMAGE_RAW
        yield
    finally:
        for coded, buffer, kind, _ in lent:
            coded.buffer, coded.params.type = buffer, kind


def _is_worth_it(placed: Placed, px_per_point: float) -> bool:
    """Whether it is large, and not drawn so small that MuPDF decodes a half or less of it."""
    width_px, height_px = placed.image.w(), placed.image.h()
    a, b, c, d, *_ = placed.matrix
    across_px, down_px = math.hypot(a, b) * px_per_point, math.hypot(c, d) * px_per_point
    is_coarser = width_px // 2 >= across_px + 2 and height_px // 2 >= down_px + 2
    return width_px * height_px >= _MIN_PIXELS and not is_coarser
