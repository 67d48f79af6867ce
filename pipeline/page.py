"""Page: one page of a document, how large its raster is to be, and what that costs the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Page:
    """One page of one document; `page_index` is zero-based."""

    uri: str
    document_id: str
    page_index: int
    page_count: int

    @property
    def key(self) -> tuple[str, int]:
        """What tells this page from every other of a run: where it was seen, and which page it is."""
        return self.uri, self.page_index


@dataclass(frozen=True, slots=True)
class SizedPage:
    """A page and the measures of its raster; the pixels themselves lie elsewhere.

    `dpi` is the resolution the raster has (None where the source does not say how large the paper is),
    `rotation` the degrees clockwise by which the stored page was turned to stand as a viewer shows it,
    `length` what the page costs the model (see `LENGTH_RULES`). `warning` is one line on what is not as it should be
    although there are pixels: the decoder complained, or the raster is smaller than the rule asks. `text_layer` is
    what was found of the page's own text, a word and after a colon the reason; None where nobody looked.
    """

    page: Page
    width_px: int
    height_px: int
    channels: int
    dpi: float | None
    rotation: int
    length: int
    raster_s: float = 0.0
    warning: str | None = None
    text_layer: str | None = None

    def warned(self, warning: str | None) -> SizedPage:
        """The same page with one more thing to say of it, if there is any."""
        said = "; ".join(filter(None, (self.warning, warning)))
        return replace(self, warning=said or None)

    @property
    def num_bytes(self) -> int:
        """Bytes of the raster: uint8, one or three channels."""
        return self.width_px * self.height_px * self.channels


@dataclass(frozen=True, slots=True)
class Raster:
    """A page and its pixels: uint8, shape (height, width) if gray, (height, width, 3) RGB otherwise."""

    sized: SizedPage
    pixels: NDArray[Any]


MAX_IMAGE_PIXELS = 400_000_000
"""An image of more is refused by default: 1.2 GB as RGB. An A0 sheet at 400 dpi has 245 million."""


@dataclass(frozen=True, slots=True)
class RasterLimits:
    """What a page may cost while it is made: its seconds, its pixels, and the memory of the process that makes it.

    An image file of more than `max_image_pixels` is not decoded, and no document of more than `max_document_bytes`
    is opened. `memory_bytes` and `max_document_bytes` of 0 mean no limit. `passwords` are tried on what needs one.
    `fake_decoder` lets files that ask for it crash, hang or eat memory, to test what becomes of such; it is
    never on by itself.
    """

    page_timeout_s: float = 60.0
    memory_bytes: int = 0
    max_document_bytes: int = 0
    passwords: tuple[str, ...] = field(default=(), repr=False)
    fake_decoder: bool = False
    max_image_pixels: int = MAX_IMAGE_PIXELS


CELL_PX = 32
"""Side of the square that one visual token of HunyuanOCR covers, and of the unit of `pixel_area`."""


def pixel_area(width_px: int, height_px: int) -> int:
    """Length for engines without visual tokens: the raster's area in cells of 32 by 32 pixels, rounded up."""
    return math.ceil(width_px * height_px / CELL_PX**2)


def hunyuan_visual_tokens(width_px: int, height_px: int) -> int:
    """Image span of HunyuanOCR: one token a cell, one a line for its end, one each for start and end.

    Patches have 16 pixels a side and 2 by 2 of them merge to one token
    (`HunYuanVLProcessor` in transformers: ``(grid_h/2) * (grid_w/2 + 1) + 2``).
    """
    return round(height_px / CELL_PX) * (round(width_px / CELL_PX) + 1) + 2


LENGTH_RULES: dict[str, Callable[[int, int], int]] = {
    "pixel_area": pixel_area,
    "hunyuan_visual_tokens": hunyuan_visual_tokens,
}


@dataclass(frozen=True, slots=True)
class RasterRule:
    """What raster an engine wants, its size being a pure function of the page's, and which pages need one.

    `dpi` is the resolution for vector pages, and the finest one for scans that say their own. Sides are
    rounded to multiples of `side_multiple_px`; more than `max_pixels` are never made, however large the page.
    `text_layer` and `orientation` are the job's options of these names; with `skip_blank` a page without ink
    goes to no engine.
    """

    dpi: float
    max_pixels: int
    side_multiple_px: int = 1
    length_rule: str = "pixel_area"
    text_layer: str = "never"
    orientation: str = "keep"
    skip_blank: bool = False

    def length(self, width_px: int, height_px: int) -> int:
        """What a raster of this size costs the model."""
        return LENGTH_RULES[self.length_rule](width_px, height_px)

    def scale_of_points(self, width_pt: float, height_pt: float) -> float:
        """Pixels per point for a vector page of this size (1 point is 1/72 inch)."""
        return self._capped(self.dpi / 72, width_pt, height_pt)

    def scale_of_pixels(self, width_px: float, height_px: float, dpi: float | None) -> float:
        """Factor for an image of this size: never above 1, and 1 where its dpi is unknown and it fits."""
        return self._capped(self._wanted(dpi), width_px, height_px)

    def note_of_points(self, width_pt: float, height_pt: float) -> str | None:
        """What to say of a vector page that `max_pixels` makes smaller than the resolution asks, if it does."""
        return self._note(self.dpi / 72, width_pt, height_pt)

    def note_of_pixels(self, width_px: float, height_px: float, dpi: float | None) -> str | None:
        """The same of an image."""
        return self._note(self._wanted(dpi), width_px, height_px)

    def side(self, exact_px: float) -> int:
        """A side in whole pixels, a multiple of `side_multiple_px`, at least one of them."""
        return max(1, round(exact_px / self.side_multiple_px)) * self.side_multiple_px

    def _wanted(self, dpi: float | None) -> float:
        return min(1.0, self.dpi / dpi) if dpi else 1.0

    def _note(self, wanted: float, width: float, height: float) -> str | None:
        scale = self._capped(wanted, width, height)
        width_px, height_px = self.side(width * wanted), self.side(height * wanted)
        if (width_px, height_px) == (self.side(width * scale), self.side(height * scale)):
            return None
        would_be = f"{width_px} x {height_px} would be {width_px * height_px:,} pixels"
        return f"rendered smaller: {would_be}, the limit is {self.max_pixels:,}"

    def _capped(self, scale: float, width: float, height: float) -> float:
        short, long = sorted((max(width, 1e-9), max(height, 1e-9)))
        scale = min(scale, math.sqrt(self.max_pixels / (short * long)))
        if short * scale >= self.side_multiple_px:
            return scale
        return min(scale, self.max_pixels / (long * self.side_multiple_px))  # the short side will be lifted to one unit
