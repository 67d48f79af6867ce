"""Look: what is on a page of a PDF, told by MuPDF without drawing it."""

from __future__ import annotations

import math
from typing import Any

from pipeline.raster.library import pymupdf

_COVERED, _MIN_SCAN_DPI = 0.9, 50.0
"""How much of a page a scan covers, and the coarsest scan; what is coarser is a picture that was enlarged."""
_MAX_PICTURES = 50
"""Pictures of a page that are looked at for text under them; more are bricks of one picture or a pattern."""


def finest_dpi(loaded: Any) -> float | None:
    """The resolution of a page that shows nothing but scans, of the finest of them; None for any other page.

    Of a scan a finer raster shows no more. Annotations and letters are drawn as finely as is asked for.
    """
    try:
        return _finest_of_scans(loaded) if loaded.parent.is_pdf and loaded.get_images() else None
    except MemoryError:
        raise
    except Exception:  # what is broken there will be met, and told of, when the page is drawn
        return None


def _finest_of_scans(loaded: Any) -> float | None:
    if any(True for _ in loaded.annots()) or any(True for _ in loaded.widgets()):
        return None
    if {kind for kind, _ in loaded.get_bboxlog()} - {"fill-image", "ignore-text"}:
        return None
    covered = finest = 0.0
    for image in loaded.get_image_info():
        a, b, c, d, *_ = image["transform"]  # of the unit square, in points
        across_pt, down_pt = math.hypot(a, b), math.hypot(c, d)
        covered += abs(a * d - b * c)
        finest = max(finest, 72 * image["width"] / max(across_pt, 1e-3), 72 * image["height"] / max(down_pt, 1e-3))
    return finest if covered >= _COVERED * loaded.rect.get_area() and finest >= _MIN_SCAN_DPI else None


def covers(loaded: Any) -> list[tuple[float, float, float, float]]:
    """Where text lies under a picture that is drawn after it, as boxes told from the page's corner."""
    log, corner = loaded.get_bboxlog(), loaded.rect
    texts = [(number, pymupdf.Rect(box)) for number, (kind, box) in enumerate(log) if kind.endswith("-text")]
    pictures = [(number, pymupdf.Rect(box)) for number, (kind, box) in enumerate(log) if kind == "fill-image"]
    found = []
    for number, picture in pictures[:_MAX_PICTURES]:
        later = [box for n, box in texts if n > number and box.intersects(picture)]
        for _, box in ((n, box) for n, box in texts if n < number and box.intersects(picture)):
            part = box & picture
            middle = (part.tl + part.br) / 2
            if not any(other.contains(middle) for other in later):
                found.append((part.x0 - corner.x0, part.y0 - corner.y0, part.x1 - corner.x0, part.y1 - corner.y0))
    return found


def fonts_by_name(loaded: Any) -> dict[str, object]:
    """The numbers of the page's fonts by the names that MuPDF gives to spans: several may share a name."""
    found: dict[str, tuple[int, ...]] = {}
    for number, _, _, name, *_ in loaded.get_fonts() if loaded.parent.is_pdf else ():
        plain = name.rpartition("+")[2]
        found[plain] = tuple(sorted({*found.get(plain, ()), number}))
    return dict(found)
