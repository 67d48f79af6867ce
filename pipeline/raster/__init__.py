"""Raster: probe a file, and turn its pages into pixels; this package alone imports PyMuPDF and Pillow.

Everything here runs in a rasterizing process (or in this one under ``--runner local``), never on the driver
of a cluster. Foreign exceptions are translated to `PageFault` at this boundary.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from pipeline.document import MUPDF_TYPES, Document, Source, member_of_uri
from pipeline.errors import RETRYABLE_CODES, ErrorCode, MachineError, PageFault, transient
from pipeline.page import Page, Raster, RasterLimits, RasterRule, SizedPage
from pipeline.raster.fake import MEDIA_TYPE as FAKE_TYPE
from pipeline.raster.fake import FakeReader
from pipeline.raster.identity import identify, members_of, opened_file, refuse_no_document
from pipeline.raster.ink import is_blank
from pipeline.raster.layer import Layer
from pipeline.raster.strokes import printed_chars
from pipeline.raster.upright import turned_upright
from pipeline.result import Failure, Probe, Recognition, Settled, Stage, Status, Unrendered, one_line
from pipeline.selection import Selection

__all__ = ["Reader", "identify", "members_of", "probe", "render_pages", "size_pages"]

_NO_LIMITS = RasterLimits()
_ALL_PAGES = Selection()


class Reader(Protocol):
    """An opened document. All methods raise `PageFault` for a page that cannot be read."""

    page_count: int

    def size(self, page: Page, rule: RasterRule) -> SizedPage:
        """The measures that `render` will give, without rendering."""

    def layer(self, page: Page, rule: RasterRule) -> Layer | None:
        """The text that the page holds itself, boxes in pixels of the raster; None if its kind has none."""

    def render(self, page: Page, rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
        """The page's raster: uint8, (height, width) if gray, else (height, width, 3) RGB, and its measures."""

    def close(self) -> None:
        """Give the file and its memory back."""


def probe(source: Source, *, hash_content: bool = True, limits: RasterLimits = _NO_LIMITS) -> Probe:
    """Read a file once: identity, type and number of pages. Never raises for a fault of the file.

    Without `hash_content` only the first bytes are read and `document_id` stays None (for `pagemill plan`).
    """
    document = Document(source.uri, etag=source.etag if member_of_uri(source.uri) else None)
    try:
        if source.problem is not None:
            raise PageFault(source.problem, source.detail)
        document = identify(source.uri, hash_content=hash_content, limits=limits, hint=source.etag)
        refuse_no_document(document, limits)
        members, loss = members_of(document, source.etag, limits)
        if loss:
            looked_into_again = replace(document, etag=None)
            return Probe(looked_into_again, _failure(Stage.DISCOVER, loss), members)
        if members:
            return Probe(document, members=members)
        with _Opened(document, limits) as reader:
            return Probe(replace(document, page_count=reader.page_count))
    except PageFault as fault:
        if document.document_id is None and fault.code in RETRYABLE_CODES:
            document = replace(document, etag=None)
        return Probe(document, _failure(Stage.DISCOVER, fault))


def render_pages(
    document: Document, first: int, stop: int, rule: RasterRule, limits: RasterLimits = _NO_LIMITS
) -> Iterator[Raster | Settled | Unrendered]:
    """Render the pages `first` to `stop` (excluded, zero-based) as far as they need it: one item a page, in order.

    A page that fails gives its `Failure`, and the next one follows; a document that cannot be opened any more
    gives a failure for each.
    """
    pages = [_page(document, index) for index in range(first, stop)]
    try:
        with _Opened(document, limits) as reader:
            while pages:
                yield _render_one(reader, pages.pop(0), rule)
    except PageFault as fault:
        for page in pages:
            yield Unrendered(page, _failure(Stage.RASTERIZE, fault))


def size_pages(
    document: Document, rule: RasterRule, limits: RasterLimits = _NO_LIMITS, selection: Selection = _ALL_PAGES
) -> Iterator[SizedPage | Unrendered]:
    """The measures of the pages asked for as `render_pages` would give them, without rendering (for `pagemill plan`).

    Raises:
        PageFault: the document cannot be opened any more.
    """
    with _Opened(document, limits) as reader:
        asked = selection.mask(reader.page_count)
        for index in (n for n in range(reader.page_count) if asked >> n & 1):
            page = _page(document, index)
            try:
                yield reader.size(page, rule)
            except PageFault as fault:
                yield Unrendered(page, _failure(Stage.RASTERIZE, fault))


def _render_one(reader: Reader, page: Page, rule: RasterRule) -> Raster | Settled | Unrendered:
    started = time.perf_counter()
    try:
        made = _make(reader, page, rule)
    except PageFault as fault:
        return Unrendered(page, _failure(Stage.RASTERIZE, fault))
    except MemoryError as error:
        message = one_line(f"making the raster ran out of memory: {error}")
        return Unrendered(page, Failure(Stage.RASTERIZE, ErrorCode.OUT_OF_MEMORY, message))
    return replace(made, sized=replace(made.sized, raster_s=time.perf_counter() - started))


def _make(reader: Reader, page: Page, rule: RasterRule) -> Raster | Settled:
    """What the page needs: nothing if its own text is sound or it is blank, otherwise an upright raster."""
    layer = None if rule.text_layer == "never" else reader.layer(page, rule)
    if layer is not None and layer.recognition is not None:
        sized = replace(reader.size(page, rule), text_layer=layer.verdict)
        return Settled(sized, Status.TEXT_LAYER, layer.recognition)
    sized, pixels = reader.render(page, rule)
    if layer is not None:
        sized = replace(sized, text_layer=layer.verdict, layer_chars=layer.num_chars)
    if rule.skip_blank and is_blank(pixels, sized.dpi):
        return Settled(sized, Status.BLANK, Recognition(""))
    if rule.text_layer == "only":
        said = f"the text layer is {layer.verdict}" if layer else "a picture has no text layer"
        failure = Failure(Stage.RASTERIZE, ErrorCode.NO_TEXT_LAYER, f"{said}; --text-layer auto has an engine read it")
        return Settled(sized, Status.SKIPPED, failure=failure)
    if rule.orientation == "auto":
        sized, pixels = turned_upright(sized, pixels, rule)
    return Raster(replace(sized, ink_chars=printed_chars(pixels)), pixels)


def _failure(stage: Stage, fault: PageFault) -> Failure:
    """Why there is no document or no raster.

    Raises:
        MachineError: no fault of the page lies behind it, but a full disk, too many open files, a missing library.
    """
    behind = fault.__cause__
    ending = transient(behind) if behind is not None else None
    # A decoder at its memory limit may say ENOMEM, too, and that is the page's affair.
    if isinstance(ending, MachineError) and getattr(behind, "errno", None) != errno.ENOMEM:
        raise ending from fault
    return Failure.of(stage, fault)


def _page(document: Document, index: int) -> Page:
    return Page(document.uri, document.document_id or "", index, document.page_count or 0)


class _Opened:
    """Context of an opened document, sure that it is still the one that was probed."""

    def __init__(self, document: Document, limits: RasterLimits) -> None:
        self._document = document
        self._limits = limits

    def __enter__(self) -> Reader:
        document = self._document
        with ExitStack() as stack:
            opened = opened_file(document.uri, self._limits, expected=document.etag or "none")
            path, _ = stack.enter_context(opened)
            try:
                self._reader = self._open(path)
            except ImportError as error:
                raise PageFault(ErrorCode.UNREADABLE, f"the decoder cannot be loaded: {error}") from error
            stack.callback(self._reader.close)
            self._close = stack.pop_all()
        return self._reader

    def _open(self, path: str) -> Reader:
        document = self._document
        if document.media_type == FAKE_TYPE:
            return FakeReader(path)
        if document.media_type in MUPDF_TYPES:
            from pipeline.raster.mupdf import MupdfReader

            return MupdfReader(path, document.media_type or "", document.page_count, self._limits.passwords)
        from pipeline.raster.picture import PictureReader

        return PictureReader(path, document.media_type or "", self._limits.max_image_pixels)

    def __exit__(self, *_: object) -> None:
        self._close.close()
