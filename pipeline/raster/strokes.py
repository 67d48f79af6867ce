"""Strokes: about how many characters are printed on a raster, counted by where some of its rows meet ink.

A row through a line of print goes from paper to ink at every stem. How often it does, divided by how far these places
lie apart, is in proportion to the number of characters, whatever their size: large print has fewer stems a line, on
more rows. Of the measures that were tried (the share of ink, edges along rows or columns, and products of them) this
one tells best how long a text is (benchmarks/ink.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROW_STEP = 8
"""Every so many rows one is looked at: of the lowest letters that can be read still one or two."""
_RUN_PX, _PAPER_STEP = 64, 4
"""The paper is as light as the lightest pixel, every fourth being looked at, of each run of this length along a row.
What is left over of a row at its end is not looked at."""
_STRIPE_ROWS = 72
"""So many of the rows at a time stay in the processor's cache."""
_CONTRAST = 60
"""Least difference between ink and paper, of 255: more than the other side shining through, less than gray print."""
_MAX_GAP_PX = 48
"""Ink that begins farther from the ink before it stands in no word with it: rules, edges of drawings."""
_MIN_PITCH_PX = 4.0
"""Stems of print that can be read do not lie closer: what does is a screen or a texture."""
_CHARS_PER_STROKE = 0.52
"""Makes the figure that of characters other than blanks, on the average document of benchmarks/RESULTS.md."""


def printed_chars(pixels: NDArray[Any]) -> float:
    """About how many characters, blanks not counted, stand on the raster; pictures and drawings count as some.

    Args:
        pixels: The upright raster, (height, width) or (height, width, 3), uint8. Of colours the green channel is
            looked at, in which ink of nearly all of them is dark.
    """
    seen = pixels if pixels.ndim == 2 else pixels[:, :, 1]
    rows = seen[_ROW_STEP // 2 :: _ROW_STEP, : seen.shape[1] // _RUN_PX * _RUN_PX]
    if not rows.size:
        return 0.0
    is_dark = bool(np.median(rows[::7, ::7]) < 100)
    stripes = (np.ascontiguousarray(rows[at : at + _STRIPE_ROWS]) for at in range(0, len(rows), _STRIPE_ROWS))
    gaps = np.concatenate([np.diff(_starts(255 - stripe if is_dark else stripe)) for stripe in stripes])
    gaps = gaps[gaps <= _MAX_GAP_PX]
    if not gaps.size:
        return 0.0
    return _CHARS_PER_STROKE * _ROW_STEP * gaps.size / max(_MIN_PITCH_PX, float(gaps.mean()))


def _starts(rows: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Where ink follows paper, as places in all rows one after the other."""
    flat = rows.ravel()
    limits = np.maximum(_lightest(flat), _CONTRAST) - np.uint8(_CONTRAST)
    ink = flat < np.repeat(limits, _RUN_PX)
    return np.flatnonzero(ink[1:] > ink[:-1])


def _lightest(flat: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The lightest of some pixels of each run: doubling the span is faster than numpy's maximum over a short axis."""
    seen, span = flat[::_PAPER_STEP], 1
    while span < _RUN_PX // _PAPER_STEP:
        seen = np.maximum(seen[:-span], seen[span:])
        span *= 2
    return seen[:: _RUN_PX // _PAPER_STEP]
