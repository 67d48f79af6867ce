"""Complaint: what MuPDF says of a page, and the fault or the warning that it stands for."""

from __future__ import annotations

import re
from typing import Any

from numpy.typing import NDArray

from pipeline.errors import ErrorCode, PageFault
from pipeline.page import SizedPage
from pipeline.raster.library import pymupdf
from pipeline.result import one_line

_ALLOCATION = re.compile(r"alloc \([^)]*\) failed|not enough memory|out of memory", re.IGNORECASE)
_LOST_PAGE = re.compile(r"^non-page object", re.MULTILINE)
_LOST_CONTENT = re.compile(r"^(?!ignoring).*(\berror\b|\bcannot\b)", re.IGNORECASE | re.MULTILINE)
"""Complaints of something that is not on the page now, while it was looked up and while it was drawn."""


def complaints() -> str:
    """What MuPDF has complained of since this was asked last, a line each; its count of repetitions is flushed."""
    return str(pymupdf.TOOLS.mupdf_warnings(reset=True))


def with_complaints(sized: SizedPage, pixels: NDArray[Any], of_the_tree: str, of_the_page: str) -> SizedPage:
    """Keep what MuPDF complained of while it looked the page up and drew it.

    Raises:
        PageFault: for want of memory something was left out, or all that is on the page was lost.
    """
    said = one_line(f"{of_the_tree}\n{of_the_page}", 400)
    if not said:
        return sized
    if _ALLOCATION.search(said):
        raise PageFault(ErrorCode.OUT_OF_MEMORY, f"MuPDF ran out of memory: {said}")
    is_lost = _LOST_PAGE.search(of_the_tree) or _LOST_CONTENT.search(of_the_page)
    if is_lost and pixels.min() == pixels.max():
        raise PageFault(ErrorCode.BROKEN_PAGE, f"nothing could be drawn: {said}")
    return sized.warned(f"renderer: {said}")


def fault_of(error: Exception, code: ErrorCode) -> PageFault:
    """The fault that MuPDF's complaint stands for; what its allocator says is no fault of the document."""
    said = complaint(error)
    if isinstance(error, MemoryError) or _ALLOCATION.search(said):
        return PageFault(ErrorCode.OUT_OF_MEMORY, f"MuPDF ran out of memory: {said}")
    return PageFault(code, said)


def complaint(error: Exception) -> str:
    """What MuPDF said, on one line, without the code that only its authors know."""
    text = one_line(str(error) or type(error).__name__, 300)
    return text.partition(": ")[2] if text.startswith("code=") else text
