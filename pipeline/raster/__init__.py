"""Raster: probe a file, and turn its pages into pixels; this package alone imports PyMuPDF and Pillow.

Everything here runs in a rasterizing process (or in this one under ``--runner local``), never on the driver
of a cluster. Foreign exceptions are translated to `PageFault` at this boundary.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from numpy.typing import NDArray

from pipeline.document import (
    HEAD_BYTES,
    MUPDF_TYPES,
    Document,
    Source,
    claims_to_be_a_document,
    local_etag,
    media_type_of,
    path_of_uri,
    same_content,
)
from pipeline.errors import ErrorCode, MachineError, PageFault, transient
from pipeline.page import Page, Raster, RasterLimits, RasterRule, SizedPage
from pipeline.raster.fake import MAGIC as FAKE_MAGIC
from pipeline.raster.fake import MEDIA_TYPE as FAKE_TYPE
from pipeline.raster.fake import FakeReader
from pipeline.result import Failure, Probe, Stage, Unrendered, one_line

_CHUNK_BYTES = 1 << 20
_NO_LIMITS = RasterLimits()


class Reader(Protocol):
    """An opened document. All methods raise `PageFault` for a page that cannot be read."""

    page_count: int

    def size(self, page: Page, rule: RasterRule) -> SizedPage:
        """The measures that `render` will give, without rendering."""

    def render(self, page: Page, rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
        """The page's raster: uint8, (height, width) if gray, else (height, width, 3) RGB, and its measures."""

    def close(self) -> None:
        """Give the file and its memory back."""


def probe(source: Source, *, hash_content: bool = True, limits: RasterLimits = _NO_LIMITS) -> Probe:
    """Read a file once: identity, type and number of pages. Never raises for a fault of the file.

    Without `hash_content` only the first bytes are read and `document_id` stays None (for `pagemill plan`).
    """
    document = Document(source.uri)
    try:
        if source.problem is not None:
            raise PageFault(source.problem, source.detail)
        document = identify(source.uri, hash_content=hash_content, limits=limits)
        _refuse_no_document(document)
        with _Opened(document, limits) as reader:
            return Probe(replace(document, page_count=reader.page_count))
    except PageFault as fault:
        return Probe(document, _failure(Stage.DISCOVER, fault))


def identify(uri: str, *, hash_content: bool = True, limits: RasterLimits = _NO_LIMITS) -> Document:
    """Stat, hash and sniff a file without opening it; `media_type` is None if it is of no type we read.

    `page_count` stays None, and so does `document_id` without `hash_content`, when only the first bytes are read.

    Raises:
        PageFault: there is no file, or it cannot be read.
    """
    path = path_of_uri(uri)
    status = _stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise PageFault(ErrorCode.NOT_A_FILE, "not a regular file")
    digest, head = _read(path, hash_content)
    return Document(
        uri,
        document_id=digest,
        size_bytes=status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC),
        etag=local_etag(status),
        media_type=_fake_type(head, limits) or media_type_of(head) or _package_type(path, head),
    )


def render_pages(
    document: Document, first: int, stop: int, rule: RasterRule, limits: RasterLimits = _NO_LIMITS
) -> Iterator[Raster | Unrendered]:
    """Render the pages `first` to `stop` (excluded, zero-based): one item a page, in order.

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
    document: Document, rule: RasterRule, limits: RasterLimits = _NO_LIMITS
) -> Iterator[SizedPage | Unrendered]:
    """The measures of every page as `render_pages` would give them, without rendering (for `pagemill plan`).

    Raises:
        PageFault: the document cannot be opened any more.
    """
    with _Opened(document, limits) as reader:
        for index in range(reader.page_count):
            page = _page(document, index)
            try:
                yield reader.size(page, rule)
            except PageFault as fault:
                yield Unrendered(page, _failure(Stage.RASTERIZE, fault))


def _render_one(reader: Reader, page: Page, rule: RasterRule) -> Raster | Unrendered:
    started = time.perf_counter()
    try:
        sized, pixels = reader.render(page, rule)
    except PageFault as fault:
        return Unrendered(page, _failure(Stage.RASTERIZE, fault))
    except MemoryError as error:
        message = one_line(f"making the raster ran out of memory: {error}")
        return Unrendered(page, Failure(Stage.RASTERIZE, ErrorCode.OUT_OF_MEMORY, message))
    return Raster(replace(sized, raster_s=time.perf_counter() - started), pixels)


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
        path = path_of_uri(document.uri)
        if not same_content(local_etag(_stat(path)), document.etag):
            raise PageFault(ErrorCode.DOCUMENT_CHANGED, "the file was replaced or changed during the run")
        try:
            self._reader = self._open(path)
        except ImportError as error:
            raise PageFault(ErrorCode.UNREADABLE, f"the decoder cannot be loaded: {error}") from error
        return self._reader

    def _open(self, path: str) -> Reader:
        document = self._document
        if document.media_type == FAKE_TYPE:
            return FakeReader(path)
        if document.media_type in MUPDF_TYPES:
            from pipeline.raster.mupdf import MupdfReader

            return MupdfReader(path, document.media_type or "", document.page_count)
        from pipeline.raster.picture import PictureReader

        return PictureReader(path, document.media_type or "", self._limits.max_image_pixels)

    def __exit__(self, *_: object) -> None:
        self._reader.close()


def _refuse_no_document(document: Document) -> None:
    if document.size_bytes == 0:
        raise PageFault(ErrorCode.EMPTY_FILE, "the file is empty (0 bytes)")
    if document.media_type is not None:
        return
    if claims_to_be_a_document(document.uri):
        raise PageFault(ErrorCode.NOT_A_DOCUMENT, "named like a document, but the content is something else")
    raise PageFault(ErrorCode.UNSUPPORTED_TYPE, "not a PDF, XPS or image")


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise _fault_of(error) from error
    except ValueError as error:  # a NUL in a name out of a list file
        raise PageFault(ErrorCode.NOT_FOUND, "no such file") from error


def _read(path: str, hash_content: bool) -> tuple[str | None, bytes]:
    """SHA-256 of the whole file in hex if asked for, and its first bytes."""
    digest, head = hashlib.sha256(), b""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                head = head or chunk[:HEAD_BYTES]
                if not hash_content:
                    break
                digest.update(chunk)
    except OSError as error:
        raise _fault_of(error) from error
    return digest.hexdigest() if hash_content else None, head


def _fake_type(head: bytes, limits: RasterLimits) -> str | None:
    return FAKE_TYPE if limits.fake_decoder and head.startswith(FAKE_MAGIC) else None


def _package_type(path: str, head: bytes) -> str | None:
    """XPS is a ZIP whose directory, at the file's end, names a fixed document sequence (ECMA-388)."""
    if not head.startswith(b"PK\x03\x04"):
        return None
    try:
        with zipfile.ZipFile(path) as package:
            names = package.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    return "application/oxps" if any(name.lower().endswith(".fdseq") for name in names) else None


def _fault_of(error: OSError) -> PageFault:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return PageFault(ErrorCode.NOT_FOUND, "no such file")
    return PageFault(ErrorCode.UNREADABLE, error.strerror or str(error))
