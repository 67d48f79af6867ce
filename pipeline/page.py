"""Page: one page of a document, how large its raster is to be, and what that costs the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import ErrorCode, PageFault
from pipeline.location import Fetching

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
    `ink_chars` is about how many characters are printed on the raster, told from its ink, and `layer_chars` how many
    the page's own text has that was found but not taken, both without blanks; None where there is no such evidence.
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
    ink_chars: float | None = None
    layer_chars: int | None = None

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
    never on by itself. `fetching` is for documents in an object store.
    """

    page_timeout_s: float = 60.0
    memory_bytes: int = 0
    max_document_bytes: int = 0
    passwords: tuple[str, ...] = field(default=(), repr=False)
    fake_decoder: bool = False
    max_image_pixels: int = MAX_IMAGE_PIXELS
    fetching: Fetching = field(default_factory=Fetching)


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


SMALL_SCAN_PT2 = 420.0 * 595.0
"""Area of A5."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The size of a raster, and its pixels for one unit of the page (a point, or a pixel of an image).

    Sides are rounded, so that what is across and what is down differ from `scale` by a little. `note` is what to
    say of a page that the limit makes smaller than the resolution asks.
    """

    width_px: int
    height_px: int
    scale: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RasterRule:
    """What raster an engine wants, its size being a pure function of the page's, and which pages need one.

    `dpi` is the resolution for vector pages, and the finest one for scans that say their own. Sides are multiples of
    `side_multiple_px`; more than `max_pixels` are never made, however large the page, and a page that would have less
    than `min_pixels` is made larger. Where one side is more than `max_aspect` times the other there is no raster.
    So a model's own processor has nothing left to resize: these are the conditions under which `smart_resize` of
    transformers keeps a size (for HunyuanOCR 32, 512² to 2048² pixels, and 200).
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
    min_pixels: int = 0
    max_aspect: float | None = None

    def length(self, width_px: int, height_px: int) -> int:
        """What a raster of this size costs the model."""
        return LENGTH_RULES[self.length_rule](width_px, height_px)

    def fit_points(self, width_pt: float, height_pt: float, finest_dpi: float | None = None) -> Fit:
        """The raster of a page of this size in points of 1/72 inch.

        Args:
            width_pt: Width of the page as it is shown.
            height_pt: Its height.
            finest_dpi: The resolution of what is on the page, if a finer raster would show no more. Such a page is
                taken to be A5 at least: what programs write as the size of a scan is often too small.

        Raises:
            PageFault: the page is too narrow for its length.
        """
        if not finest_dpi:
            return self._fit(self.dpi / 72, width_pt, height_pt)
        smaller = math.sqrt(SMALL_SCAN_PT2 / max(width_pt * height_pt, 1e-9))
        return self._fit(min(self.dpi * max(1.0, smaller), finest_dpi) / 72, width_pt, height_pt)

    def fit_pixels(self, width_px: float, height_px: float, dpi: float | None) -> Fit:
        """The raster of an image of this size, which is enlarged to `min_pixels` only; as it is if its dpi is unknown.

        Raises:
            PageFault: the image is too narrow for its length.
        """
        return self._fit(min(1.0, self.dpi / dpi) if dpi else 1.0, width_px, height_px)

    def _fit(self, wanted: float, width: float, height: float) -> Fit:
        short, long = sorted((max(width, 1e-9), max(height, 1e-9)))
        if self.max_aspect and long > self.max_aspect * short:
            said = f"{long / short:,.0f} times as long as wide, the engine takes {self.max_aspect:g}"
            raise PageFault(ErrorCode.PAGE_TOO_NARROW, said)
        scale, round_up = self._scale(wanted, short, long)
        cells = self._limited(*(max(1, round_up(side * scale / self.side_multiple_px)) for side in (short, long)))
        short_px, long_px = (count * self.side_multiple_px for count in cells)
        scale = min(scale, (long_px + self.side_multiple_px) / long)
        size = (short_px, long_px) if width <= height else (long_px, short_px)
        return Fit(*size, scale, self._note(width * wanted, height * wanted) if scale < wanted else None)

    def _scale(self, wanted: float, short: float, long: float) -> tuple[float, Callable[[float], int]]:
        """The factor that keeps the limits on pixels, and which way sides have to be rounded then."""
        area = math.prod(self._side(side * wanted) for side in (short, long))
        if area > self.max_pixels:
            return min(wanted, math.sqrt(self.max_pixels / (short * long))), _floor
        if area < self.min_pixels:
            return max(wanted, math.sqrt(self.min_pixels / (short * long))), _ceil
        return wanted, round

    def _limited(self, short: int, long: int) -> tuple[int, int]:
        """Sides in units, after rounding may have led over `max_pixels` or `max_aspect`."""
        most = max(1, self.max_pixels // self.side_multiple_px**2)
        long = min(long, max(1, most // short))
        if self.max_aspect and long > self.max_aspect * short:
            wider = math.ceil(long / self.max_aspect)
            return (wider, long) if wider * long <= most else (short, int(self.max_aspect * short))
        return min(short, long), max(short, long)

    def _side(self, exact_px: float) -> int:
        return max(1, round(exact_px / self.side_multiple_px)) * self.side_multiple_px

    def _note(self, width: float, height: float) -> str:
        width_px, height_px = self._side(width), self._side(height)
        would_be = f"{width_px} x {height_px} would be {width_px * height_px:,} pixels"
        return f"rendered smaller: {would_be}, the limit is {self.max_pixels:,}"


def _floor(value: float) -> int:
    """The next whole number below, or the one that a float has just missed."""
    return math.floor(value + 1e-9)


def _ceil(value: float) -> int:
    return math.ceil(value - 1e-9)
