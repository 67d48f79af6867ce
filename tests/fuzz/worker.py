"""A process that may die: it probes and renders files whose paths it reads, one JSON line for each.

What it is asked is ``{"path": ..., "alone": false, "limits": {...}}``; it answers with what became of the document
and of each of its first `MAX_PAGES` pages. The functions are those that a rasterizing process of a run calls.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pipeline.document import Source, uri_of_path
from pipeline.page import RasterLimits, RasterRule
from pipeline.rasterizer import probe_sources, render_blocks
from pipeline.result import Unrendered
from pipeline.task import Piece

RULE = RasterRule(dpi=72, max_pixels=250_000)
LIMITS = RasterLimits(page_timeout_s=5, memory_bytes=1 << 30)
MAX_PAGES = 6


def answer(path: str, limits: RasterLimits, *, alone: bool) -> dict[str, Any]:
    """Why the document has no pages, or how many it has and what became of them, in the order told.

    Of an archive, which a damaged XPS may be, the same for each of its first `MAX_PAGES` files.
    """
    return _answer(Source(uri_of_path(path)), limits, alone=alone)


def _answer(source: Source, limits: RasterLimits, *, alone: bool) -> dict[str, Any]:
    (found,) = probe_sources([source], limits, alone=alone)
    if found.failure is not None:
        return {"failure": [str(found.failure.code), found.failure.message]}
    if found.members:
        return {"members": [_answer(member, limits, alone=alone) for member in found.members[:MAX_PAGES]]}
    document = found.document
    count = document.page_count or 0
    pieces = [Piece(document, 0, min(count, MAX_PAGES))]
    pages = []
    for block in render_blocks(pieces, RULE, limits, alone=alone):
        pixels = iter(block.pixels)
        for item in block.told:
            if isinstance(item, Unrendered):
                pages.append([item.page.page_index, str(item.failure.code), item.failure.message, None])
            else:
                raster = next(pixels)
                assert raster.shape[:2] == (item.height_px, item.width_px)
                span = int(raster.max()) - int(raster.min())
                pages.append([item.page.page_index, None, item.warning, span])
    return {"count": count, "pages": pages}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(answer(asked["path"], RasterLimits(**asked["limits"]), alone=asked["alone"])), flush=True)
