"""PDFium: a second look at pages of which MuPDF can draw nothing, such as those with rare codings of JBIG2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.raster.tone import without_colour


def drawn_by_pdfium(
    path: str, passwords: Sequence[str], index: int, width_px: int, height_px: int
) -> NDArray[Any] | None:
    """The page of a PDF as PDFium draws it, (height, width) or (height, width, 3); None if that is nothing, too.

    Args:
        path: The file.
        passwords: Tried one after the other, after none.
        index: The page, from 0.
        width_px: Width of the raster.
        height_px: Its height.
    """
    import pypdfium2

    for password in (None, *passwords):
        try:
            with pypdfium2.PdfDocument(path, password=password) as document:
                document.init_forms()
                page = document[index]
                made = page.render(scale=width_px / page.get_width(), rev_byteorder=True).to_numpy()
                pixels = made.copy() if made.ndim == 2 else made[..., :3].copy()
        except (pypdfium2.PdfiumError, ValueError, IndexError, ZeroDivisionError):
            continue
        if pixels.min() == pixels.max():
            return None
        if pixels.shape[:2] != (height_px, width_px):
            pixels = np.asarray(Image.fromarray(pixels).resize((width_px, height_px), Image.Resampling.BILINEAR))
        return without_colour(pixels)
    return None
