"""Identity: what a file is, told by its first bytes and its digest, before it is opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from pipeline.document import (
    HEAD_BYTES,
    MUPDF_TYPES,
    Document,
    Source,
    claims_to_be_a_document,
    local_etag,
    media_type_of,
    member_of_uri,
    path_of_uri,
    same_content,
    uri_of_member,
)
from pipeline.errors import ErrorCode, PageFault
from pipeline.foreign import FOREIGN, foreign_type_of, package_type_of
from pipeline.location import Fetching, Location, is_remote, location_of_uri
from pipeline.page import RasterLimits
from pipeline.raster.archive import ARCHIVE_TYPES, TAR, ZIP, members, must_be_regular, opened_member, zip_names
from pipeline.raster.fake import MAGIC as FAKE_MAGIC
from pipeline.raster.fake import MEDIA_TYPE as FAKE_TYPE
from pipeline.raster.guard import unwatched
from pipeline.raster.tarred import COMPRESSED, is_tar, is_tar_header
from pipeline.raster.zipped import ends_as_zip
from pipeline.shelf import Book, taken
from pipeline.store.objects import look

_CHUNK_BYTES = 1 << 20
_OLE_BYTES = 1 << 18
"""How much of a compound file is searched for the names of its streams."""
_NO_LIMITS = RasterLimits()


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What is known of a file, of a member of an archive that of the archive."""

    modified_at: datetime
    etag: str


def identify(
    uri: str, *, hash_content: bool = True, limits: RasterLimits = _NO_LIMITS, hint: str | None = None
) -> Document:
    """Stat, hash and sniff a file without opening it; `media_type` is None if it is of no type we know.

    `page_count` stays None, and so does `document_id` without `hash_content` and for a file that is too large: only
    the first bytes are read then. Of a member of an archive, `etag` is that of the archive. `hint` is the etag that a
    listing has shown: what was fetched of an object under it is not fetched again.

    Raises:
        PageFault: there is no file, or it cannot be read.
    """
    with opened_file(uri, limits, hint=hint) as (path, status):
        size = os.stat(path).st_size
        is_too_large = bool(limits.max_document_bytes) and size > limits.max_document_bytes
        digest, head = _read(path, hash_content and not is_too_large)
        return Document(
            uri,
            document_id=digest,
            size_bytes=size,
            modified_at=status.modified_at,
            etag=status.etag,
            media_type=_type_of(path, head, limits),
        )


@contextmanager
def opened_file(
    uri: str, limits: RasterLimits = _NO_LIMITS, *, expected: str | None = None, hint: str | None = None
) -> Iterator[tuple[str, OnDisk]]:
    """A path under which a file or a member of an archive can be read, and what is known of the file or object.

    Args:
        uri: Where it is.
        limits: For what an archive's member and the fetching of an object may cost.
        expected: The etag that it must have.
        hint: An etag that it may have.

    Raises:
        PageFault: there is no such file or member, it cannot be read, or is another than was expected.
        InputsLostError: the store that it lies in cannot be reached.
    """
    with _on_disk(uri, limits, expected, hint) as (path, found):
        key = member_of_uri(uri)
        if not key:
            yield path, found
            return
        kind = _type_of_archive(path, found.etag, limits.fake_decoder)
        if kind not in ARCHIVE_TYPES:
            raise PageFault(ErrorCode.DOCUMENT_CHANGED, "what was an archive is none any more")
        with opened_member(path, kind or "", key, limits) as inner:
            yield inner, found


@contextmanager
def _on_disk(uri: str, limits: RasterLimits, expected: str | None, hint: str | None) -> Iterator[tuple[str, OnDisk]]:
    """The file itself, or that of an object, which is fetched unless it was before."""
    if is_remote(uri):
        with ExitStack() as stack:
            with unwatched():
                book = stack.enter_context(_taken(location_of_uri(uri), expected, hint, limits.fetching))
            yield book.path, OnDisk(book.modified_at, book.etag)
        return
    path = path_of_uri(uri)
    status = status_of(path)
    must_be_regular(status)
    etag = local_etag(status)
    if expected is not None and not same_content(etag, expected):
        raise PageFault(ErrorCode.DOCUMENT_CHANGED, "the file was replaced or changed during the run")
    yield path, OnDisk(datetime.fromtimestamp(status.st_mtime, UTC), etag)


@contextmanager
def _taken(location: Location, expected: str | None, hint: str | None, fetching: Fetching) -> Iterator[Book]:
    """An object in the version expected, else in the one hinted at, else as it is now."""
    with ExitStack() as stack:
        try:
            book = stack.enter_context(taken(location, expected or hint or _etag_of(location, fetching), fetching))
        except PageFault as fault:
            if expected or fault.code is not ErrorCode.DOCUMENT_CHANGED:
                raise
            book = stack.enter_context(taken(location, None, fetching))
        yield book


def _etag_of(location: Location, fetching: Fetching) -> str | None:
    """The etag of an object as it is now; None if there is none, or nobody may look: reading it will tell why."""
    found = look(location, fetching.patience_s)
    return found.etag if found else None


@lru_cache(maxsize=16)
def _type_of_archive(path: str, etag: str, fake_decoder: bool) -> str | None:  # noqa: ARG001 (the etag is for the cache)
    """The type of a file of which many members are opened one after the other."""
    return _type_of(path, _read(path, hash_content=False)[1], RasterLimits(fake_decoder=fake_decoder))


def members_of(
    document: Document, etag: str | None = None, limits: RasterLimits = _NO_LIMITS
) -> tuple[tuple[Source, ...], PageFault | None]:
    """The files in an archive as sources, in their order, and what is lost of it; none if the document is no archive.

    Args:
        document: What was identified.
        etag: What each is to be known by, so that it can be passed over once it is done.
        limits: For what the fetching of an object may cost.

    Raises:
        PageFault: the archive is damaged, holds nothing, or lies within another.
    """
    if document.media_type not in ARCHIVE_TYPES:
        return (), None
    if member_of_uri(document.uri):
        raise PageFault(ErrorCode.UNSUPPORTED_ARCHIVE, "an archive within an archive: unpack the outer one first")
    with opened_file(document.uri, limits, hint=document.etag) as (path, _):
        found, loss = members(path, document.media_type or "")
    return tuple(Source(uri_of_member(document.uri, key), etag=etag) for key in found), loss


def refuse_no_document(document: Document, limits: RasterLimits = _NO_LIMITS) -> None:
    """Raise a `PageFault` for what is no document, or a larger one than may be opened."""
    size, limit = document.size_bytes or 0, limits.max_document_bytes
    if size == 0:
        raise PageFault(ErrorCode.EMPTY_FILE, "the file is empty (0 bytes)")
    if document.media_type not in ARCHIVE_TYPES and limit and size > limit:
        raise PageFault(ErrorCode.DOCUMENT_TOO_LARGE, f"{size:,} bytes, the limit is {limit:,} (--max-document-bytes)")
    code, what = FOREIGN.get(document.media_type or "", (ErrorCode.UNSUPPORTED_TYPE, "not a PDF, XPS or image"))
    if document.media_type is not None and document.media_type not in FOREIGN:
        return
    if claims_to_be_a_document(document.uri):
        kind = what if document.media_type else "something else"
        raise PageFault(ErrorCode.NOT_A_DOCUMENT, f"named like a document, but the content is {kind}")
    raise PageFault(code, what)


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
                head = head or chunk[:_OLE_BYTES]
                if not hash_content:
                    break
                digest.update(chunk)
    except OSError as error:
        raise _fault_of(error) from error
    return digest.hexdigest() if hash_content else None, head


def _type_of(path: str, data: bytes, limits: RasterLimits) -> str | None:
    head = data[:HEAD_BYTES]
    if limits.fake_decoder and head.startswith(FAKE_MAGIC):
        return FAKE_TYPE
    known = media_type_of(head)
    is_header = head[257:262] == b"ustar" or is_tar_header(head)
    if known in MUPDF_TYPES and (is_header or head.startswith((b"PK\x03\x04", *COMPRESSED))):
        known = None  # the header of a PDF that stands in the first bytes of an archive is that of a member
    if known is not None:
        return known
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _package_type(path)
    if is_header or head.startswith(COMPRESSED):
        return TAR if is_tar(path) else "application/gzip"
    return foreign_type_of(data) or (_package_type(path) if ends_as_zip(path) else None)


def _package_type(path: str) -> str | None:
    """What a ZIP is by its directory, at the file's end: a document of XML parts (XPS: ECMA-388), or an archive."""
    try:
        names, mimetype = zip_names(path)
    except (OSError, PageFault):
        return ZIP  # too much of it: to be told as such when it is opened
    return package_type_of(names, mimetype) or ZIP


def _fault_of(error: OSError) -> PageFault:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return PageFault(ErrorCode.NOT_FOUND, "no such file")
    return PageFault(ErrorCode.UNREADABLE, error.strerror or str(error))
