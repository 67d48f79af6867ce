"""Identity: what a file is, told by its first bytes and its digest, before it is opened."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from datetime import UTC, datetime

from pipeline.document import (
    HEAD_BYTES,
    Document,
    claims_to_be_a_document,
    local_etag,
    media_type_of,
    path_of_uri,
)
from pipeline.errors import ErrorCode, PageFault
from pipeline.page import RasterLimits
from pipeline.raster.fake import MAGIC as FAKE_MAGIC
from pipeline.raster.fake import MEDIA_TYPE as FAKE_TYPE

_CHUNK_BYTES = 1 << 20
_NO_LIMITS = RasterLimits()


def identify(uri: str, *, hash_content: bool = True, limits: RasterLimits = _NO_LIMITS) -> Document:
    """Stat, hash and sniff a file without opening it; `media_type` is None if it is of no type we read.

    `page_count` stays None, and so does `document_id` without `hash_content` and for a file that is too large: only
    the first bytes are read then.

    Raises:
        PageFault: there is no file, or it cannot be read.
    """
    path = path_of_uri(uri)
    status = status_of(path)
    if not stat.S_ISREG(status.st_mode):
        raise PageFault(ErrorCode.NOT_A_FILE, "not a regular file")
    is_too_large = bool(limits.max_document_bytes) and status.st_size > limits.max_document_bytes
    digest, head = _read(path, hash_content and not is_too_large)
    return Document(
        uri,
        document_id=digest,
        size_bytes=status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC),
        etag=local_etag(status),
        media_type=_fake_type(head, limits) or media_type_of(head) or _package_type(path, head),
    )


def refuse_no_document(document: Document, limits: RasterLimits = _NO_LIMITS) -> None:
    """Raise a `PageFault` for what is no document, or a larger one than may be opened."""
    size, limit = document.size_bytes or 0, limits.max_document_bytes
    if limit and size > limit:
        raise PageFault(ErrorCode.DOCUMENT_TOO_LARGE, f"{size:,} bytes, the limit is {limit:,} (--max-document-bytes)")
    if document.size_bytes == 0:
        raise PageFault(ErrorCode.EMPTY_FILE, "the file is empty (0 bytes)")
    if document.media_type is not None:
        return
    if claims_to_be_a_document(document.uri):
        raise PageFault(ErrorCode.NOT_A_DOCUMENT, "named like a document, but the content is something else")
    raise PageFault(ErrorCode.UNSUPPORTED_TYPE, "not a PDF, XPS or image")


def status_of(path: str) -> os.stat_result:
    """What the file system says of a file; a `PageFault` if there is none."""
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
