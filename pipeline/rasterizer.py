"""Rasterizer: what a rasterizing process does with a task, within its limits; the same wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.block import Block, blocks
from pipeline.document import Source
from pipeline.errors import ErrorCode
from pipeline.page import Raster, RasterLimits, RasterRule
from pipeline.raster import probe, render_pages
from pipeline.raster.guard import guarded
from pipeline.raster.quarantine import probe_alone, render_alone
from pipeline.result import Probe, Settled, Unrendered
from pipeline.task import Piece


def probe_sources(sources: Sequence[Source], limits: RasterLimits, *, alone: bool) -> Iterator[Probe]:
    """Look at each source; the process ends if one takes too long, unless each has a process of its own."""
    if alone:
        return (probe_alone(source, limits) for source in sources)
    return guarded((probe(source, limits=limits) for source in sources), limits)


def render_blocks(pieces: Sequence[Piece], rule: RasterRule, limits: RasterLimits, *, alone: bool) -> Iterator[Block]:
    """Render each page, in blocks; the process ends if one takes too long, unless each has a process of its own."""
    if alone:
        singles = (single for piece in pieces for single in piece.singles())
        return blocks(render_alone(single.document, single.first, rule, limits) for single in singles)
    made = (item for p in pieces for item in render_pages(p.document, p.first, p.stop, rule, limits))
    return blocks(_with_memory_to_spare(guarded(made, limits)))


def _with_memory_to_spare(
    made: Iterator[Raster | Settled | Unrendered],
) -> Iterator[Raster | Settled | Unrendered]:
    """End the task at a page that finds no memory: others may have left too little, so it is tried alone."""
    for item in made:
        if isinstance(item, Unrendered) and item.failure.code is ErrorCode.OUT_OF_MEMORY:
            raise MemoryError(item.failure.message)
        yield item
