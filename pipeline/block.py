"""Block: pages of one bucket rendered one after the other, whose pixels travel as one object.

What Ray asks for each object costs more than rendering an easy page: moving several pages at once divides it.
Pages of one bucket are likely to be read together, so a block is let go nearly as soon as its pages are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.bucket import bucket_of
from pipeline.page import Raster, SizedPage
from pipeline.result import Settled, Unrendered

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_PAGES = 8
MAX_BYTES = 32 << 20
MAX_TOLD = 32
MAX_CHARACTERS = 1 << 20
"""Bounds of what is told of pages that need no pixels: texts may be among it."""


@dataclass(frozen=True, slots=True)
class Block:
    """What was told of some pages, in order, and the pixels of those that have any, in the same order."""

    told: tuple[SizedPage | Settled | Unrendered, ...]
    pixels: tuple[NDArray[Any], ...]


def blocks(made: Iterable[Raster | Settled | Unrendered]) -> Iterator[Block]:
    """Gather what is rendered into blocks of one bucket, `MAX_PAGES` and about `MAX_BYTES`, keeping the order."""
    told: list[SizedPage | Settled | Unrendered] = []
    rasters: list[Raster] = []
    for item in made:
        if (rasters and isinstance(item, Raster) and not _fits(rasters, item)) or _is_full(told):
            yield _block(told, rasters)
            told, rasters = [], []
        if isinstance(item, Raster):
            rasters.append(item)
            told.append(item.sized)
        else:
            told.append(item)
    if told:
        yield _block(told, rasters)


def _fits(rasters: list[Raster], item: Raster) -> bool:
    num_bytes = sum(raster.sized.num_bytes for raster in rasters) + item.sized.num_bytes
    same = bucket_of(rasters[0].sized.length) == bucket_of(item.sized.length)
    return same and len(rasters) < MAX_PAGES and num_bytes <= MAX_BYTES


def _is_full(told: list[SizedPage | Settled | Unrendered]) -> bool:
    texts = (item.recognition.text for item in told if isinstance(item, Settled) and item.recognition)
    return len(told) >= MAX_TOLD or sum(map(len, texts)) > MAX_CHARACTERS


def _block(told: list[SizedPage | Settled | Unrendered], rasters: list[Raster]) -> Block:
    return Block(tuple(told), tuple(raster.pixels for raster in rasters))
