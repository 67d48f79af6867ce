"""PDF and XPS pages through MuPDF: opened, drawn straight at the size that is wanted."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ErrorCode, PageFault
from pipeline.page import Page, RasterRule, SizedPage
from pipeline.raster.complaint import complaint, complaints, fault_of, with_complaints
from pipeline.raster.jpeg import mend_ycck
from pipeline.raster.layer import Layer, LayerJudge
from pipeline.raster.library import pymupdf
from pipeline.raster.look import Scene, covers, fonts_by_name, may_be_untransformed, scene_of
from pipeline.raster.page_tree import mend_crop, num_leaves
from pipeline.raster.piece import needs_places, pieces_of
from pipeline.raster.scan import decoded
from pipeline.raster.tone import without_colour

_mupdf = pymupdf.mupdf

_FILE_TYPES = {"application/pdf": "pdf", "application/oxps": "xps"}
_TEXT_FLAGS = pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_IGNORE_ACTUALTEXT | pymupdf.TEXT_PRESERVE_WHITESPACE
"""Letters as they are drawn: what a PDF says that they stand for in its structure may be anything."""
_MAX_LOOK_PIXELS = 16_000_000
_NO_PAGE = Page("", "", 0, 0)
_GRAY_THRESHOLD = 0.02
"""How far from gray a colour may be and still count as gray: MuPDF's own value for 'imperceptible'."""


class MupdfReader:
    """One opened PDF or XPS document. A PDF whose tree holds more pages than it claims has all of them."""

    def __init__(
        self, path: str, media_type: str, known_page_count: int | None = None, passwords: Sequence[str] = ()
    ) -> None:
        """Open it; `known_page_count` is what a probe has found, and saves to walk through the tree again."""
        complaints()  # what was said of another page
        self._path, self._passwords = path, tuple(passwords)
        self._judge = LayerJudge()
        self._met: _Met | None = None
        try:
            self._document = _open(path, _FILE_TYPES[media_type])
            encrypted = bool(self._document.needs_pass) and not any(map(self._document.authenticate, passwords))
            self.page_count = 0 if encrypted else self._num_pages(known_page_count)
        except Exception as error:
            raise fault_of(error, ErrorCode.BROKEN_DOCUMENT) from error
        if encrypted:
            raise PageFault(ErrorCode.ENCRYPTED, _wanted(passwords))
        if self.page_count == 0:
            raise PageFault(ErrorCode.NO_PAGES, "the document has no pages")

    def size(self, page: Page, rule: RasterRule) -> SizedPage:
        """The measures that `render` will give; whether the page is gray is only known there."""
        if self._met is not None and self._met.page == page:
            return self._met.sized(rule)
        loaded = self._load(page)
        return _sized(page, loaded.rect, int(loaded.rotation), rule, scene_of(loaded))

    def layer(self, page: Page, rule: RasterRule) -> Layer:
        """The page's own text, and whether it is sound; a fault on the way to it is one of the layer."""
        try:
            met = self._meet(page)
            page_text = pymupdf.TextPage(met.drawing.get_textpage(flags=_TEXT_FLAGS))
            found = page_text.extractRAWDICT() if needs_places(page_text.extractText()) else page_text.extractDICT()
            box = met.box
            pieces = list(pieces_of(found, (box.x0, box.y0, box.x1, box.y1)))
            draw = partial(_drawn, met.drawing, box)
            scale = met.sized(rule).width_px / box.width
            return self._judge.judge(pieces, draw, covers(met.loaded), fonts_by_name(met.loaded), box.width, scale)
        except (MemoryError, ImportError):
            raise
        except SystemError:  # PyMuPDF's own, of characters that it cannot hand over
            return Layer("broken: its letters cannot be taken one by one")
        except Exception as error:
            return Layer(f"broken: {complaint(error)}")

    def render(self, page: Page, rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
        """The page with its annotations and form fields, on white, gray if nothing on it has a colour."""
        try:
            met = self._meet(page)
            sized = met.sized(rule)
            complaints()  # what was said while its text was looked at
            pixels = _pixels(met, sized)
        except PageFault:
            raise
        except Exception as error:
            raise fault_of(error, ErrorCode.BROKEN_PAGE) from error
        finally:
            self._met = None
        try:
            said = f"{met.of_the_page}\n{complaints()}"
            return with_complaints(_of(sized, pixels), pixels, met.of_the_tree, said), pixels
        except PageFault as fault:
            return self._drawn_again(sized, fault)

    def _drawn_again(self, sized: SizedPage, fault: PageFault) -> tuple[SizedPage, NDArray[Any]]:
        """The page as PDFium draws it, if it is broken for MuPDF alone."""
        if fault.code is not ErrorCode.BROKEN_PAGE or not self._document.is_pdf:
            raise fault
        from pipeline.raster.pdfium import drawn_by_pdfium

        size = (sized.width_px, sized.height_px)
        pixels = drawn_by_pdfium(self._path, self._passwords, sized.page.page_index, *size)
        if pixels is None:
            raise fault
        return _of(sized, pixels).warned(f"renderer: MuPDF: {fault.detail}; drawn by PDFium"), pixels

    def close(self) -> None:
        """Close the file and empty MuPDF's store, so that memory stays flat from document to document."""
        self._met = None
        self._document.close()
        pymupdf.TOOLS.store_shrink(100)

    def _num_pages(self, known: int | None) -> int:
        """What the document claims, or its tree if that holds more, which has to be mended then to load them."""
        claimed = _claimed(self._document)
        if self._document.is_pdf and (num_leaves(self._document) if known is None else known) > claimed:
            num_leaves(self._document, mend=True)
        elif claimed >= 0:
            return claimed
        return int(self._document.page_count)

    def _meet(self, page: Page) -> _Met:
        """Look the page up and read what is to be drawn, once for its text and its raster."""
        if self._met is None or self._met.page != page:
            self._met = None
            complaints()  # what was said of another page
            loaded = self._load(page)
            of_the_tree = complaints()
            drawing = loaded.get_displaylist()
            self._met = _Met(page, loaded, loaded.rect, drawing, scene_of(loaded, drawing), of_the_tree, complaints())
        return self._met

    def _load(self, page: Page) -> Any:
        try:
            loaded = self._document.load_page(page.page_index)
            if self._document.is_pdf:
                mend_crop(loaded)
                mend_ycck(loaded)
            return loaded
        except Exception as error:
            raise fault_of(error, ErrorCode.BROKEN_PAGE) from error


@dataclass(frozen=True, slots=True)
class _Met:
    """A page that was looked up, what is to be drawn of it, and what MuPDF complained of on either way."""

    page: Page
    loaded: Any
    box: Any
    drawing: Any
    scene: Scene | None
    of_the_tree: str
    of_the_page: str

    def sized(self, rule: RasterRule) -> SizedPage:
        """The measures of its raster."""
        return _sized(self.page, self.box, int(self.loaded.rotation), rule, self.scene)


def _sized(page: Page, box: Any, rotation: int, rule: RasterRule, scene: Scene | None) -> SizedPage:
    width_pt, height_pt = box.width, box.height
    if not (0 < width_pt < 1e6 and 0 < height_pt < 1e6):
        raise PageFault(ErrorCode.BROKEN_PAGE, f"the page's box is {width_pt:g} x {height_pt:g} points")
    fit = rule.fit_points(width_pt, height_pt, scene.finest_dpi if scene else None)
    return SizedPage(
        page,
        fit.width_px,
        fit.height_px,
        channels=1,
        dpi=fit.scale * 72,
        rotation=rotation % 360,
        length=rule.length(fit.width_px, fit.height_px),
        warning=fit.note,
    )


def _of(sized: SizedPage, pixels: NDArray[Any]) -> SizedPage:
    """The measures with the number of channels that the raster has."""
    return replace(sized, channels=1 if pixels.ndim == 2 else 3)


def _wanted(passwords: Sequence[str]) -> str:
    if not passwords:
        return "a password is needed to open the document (--password-file)"
    return f"a password is needed to open the document, and none of the {len(passwords)} given is it"


def _claimed(document: Any) -> int:
    try:
        return int(document.page_count)
    except RuntimeError:  # less than none
        return -1


def _open(path: str, file_type: str) -> Any:
    try:
        path.encode()
    except UnicodeEncodeError:  # MuPDF takes names in UTF-8 only
        with open(path, "rb") as file:
            return pymupdf.open(stream=file.read(), filetype=file_type)
    return pymupdf.open(os.path.abspath(path), filetype=file_type)


def _has_colour(drawing: Any) -> bool:
    """Ask MuPDF's test device, which stops at the first colour; an image in a colour space counts as one.

    The device can look at the pixels of images as well (FZ_TEST_OPT_IMAGES), but then finds in some processes
    that every one of them has a colour, and in others that none has (MuPDF 1.28).
    """
    found = _mupdf.ll_fz_new_test_device_outparams()
    options = _mupdf.FZ_TEST_OPT_SHADINGS
    device = _mupdf.FzDevice(_mupdf.ll_fz_new_test_device_outparams_fn(_GRAY_THRESHOLD, options, None, found))
    everywhere = _mupdf.FzRect(_mupdf.FzRect.Fixed_INFINITE)
    try:
        _mupdf.fz_run_display_list(drawing.this, device, _mupdf.FzMatrix(), everywhere, _mupdf.FzCookie())
        _mupdf.fz_close_device(device)
    except Exception:  # the device's way to stop early, or a fault that drawing will meet again and report
        return True
    return bool(found.is_color)


def _pixels(met: _Met, sized: SizedPage) -> NDArray[Any]:
    """The raster of a scan that was decoded, or of what was drawn; one channel where there is no colour."""
    rect = met.box
    if met.scene:
        may_differ = partial(may_be_untransformed, met.loaded)
        pixels = decoded(met.scene, rect, may_differ, width_px=sized.width_px, height_px=sized.height_px)
        if pixels is not None:
            return without_colour(pixels)
    channels = 3 if _has_colour(met.drawing) else 1
    return without_colour(_draw(met.drawing, rect, replace(sized, channels=channels)))


def _draw(drawing: Any, rect: Any, sized: SizedPage) -> NDArray[Any]:
    space = pymupdf.csGRAY if sized.channels == 1 else pymupdf.csRGB
    # `pymupdf.Pixmap` would ask for separations, which makes MuPDF draw twice and merge: ten times slower.
    box, no_spots = _mupdf.FzIrect(0, 0, sized.width_px, sized.height_px), _mupdf.FzSeparations()
    canvas = _mupdf.fz_new_pixmap_with_bbox(space.this, box, no_spots, 0)
    _mupdf.fz_clear_pixmap_with_value(canvas, 255)
    matrix = pymupdf.Matrix(sized.width_px / rect.width, sized.height_px / rect.height)
    matrix.pretranslate(-rect.x0, -rect.y0)
    to_pixels = _mupdf.FzMatrix(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)
    device = _mupdf.fz_new_draw_device(to_pixels, canvas)
    everywhere = _mupdf.FzRect(_mupdf.FzRect.Fixed_INFINITE)
    _mupdf.fz_run_display_list(drawing.this, device, _mupdf.FzMatrix(), everywhere, _mupdf.FzCookie())
    _mupdf.fz_close_device(device)
    return np.asarray(_Samples(canvas, sized))


def _drawn(drawing: Any, page: Any, per_point: float, box: tuple[float, float, float, float] | None) -> NDArray[Any]:
    """The page or a box of it, told from the page's corner, in gray."""
    x0, y0, x1, y1 = box or (0.0, 0.0, page.width, page.height)
    rect = pymupdf.Rect(page.x0 + x0, page.y0 + y0, page.x0 + x1, page.y0 + y1)
    per_point = min(per_point, math.sqrt(_MAX_LOOK_PIXELS / max(1e-9, rect.width * rect.height)))
    width_px, height_px = max(1, round(rect.width * per_point)), max(1, round(rect.height * per_point))
    return _draw(drawing, rect, SizedPage(_NO_PAGE, width_px, height_px, 1, None, 0, 0))


class _Samples:
    """A pixmap's memory for numpy without a copy: the array holds this object, which holds the pixmap.

    A memory view (`Pixmap.samples_mv`) does not keep its pixmap alive: an array over it reads freed memory.
    """

    def __init__(self, canvas: Any, sized: SizedPage) -> None:
        self._canvas = canvas
        shape = (sized.height_px, sized.width_px) + ((3,) if sized.channels == 3 else ())
        data = (int(_mupdf.fz_pixmap_samples_int(canvas)), False)
        self.__array_interface__ = {"shape": shape, "typestr": "|u1", "data": data, "version": 3}
