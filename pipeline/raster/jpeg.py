"""JPEG: scans decoded by Pillow's libjpeg, whose vector code is three times as fast as MuPDF's."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from PIL import Image, ImageChops

from pipeline.raster.library import pymupdf

_mupdf = pymupdf.mupdf


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


def mend_ycck(loaded: Any) -> None:
    """Let pictures of a page that are coded as YCCK be found as CMYK in memory: MuPDF 1.28 takes one for the other.

    Args:
        loaded: A page of a PDF that nothing was drawn of yet.
    """
    document = loaded.parent
    for number, _, _, _, _, space, _, _, coding, *_ in loaded.get_images():
        if coding != "DCTDecode" or space in ("DeviceGray", "DeviceRGB"):
            continue
        try:
            made = Image.open(io.BytesIO(document.xref_stream_raw(number)), formats=("JPEG",))
            if made.mode == "CMYK" and made.info.get("adobe_transform") == 2:
                # Pillow gives inks; what such a file holds is their inverse, which the PDF's own /Decode reckons with.
                document.update_stream(number, ImageChops.invert(made).tobytes())
                document.xref_set_key(number, "DecodeParms", "null")
        except (OSError, ValueError, RuntimeError):  # what is broken will be met, and told of, when the page is drawn
            continue
