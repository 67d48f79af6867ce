"""Archive: ZIP and tar files as containers of documents. A member is read into memory, never onto a disk."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from lzma import LZMAError
from typing import IO, Any

from pipeline.document import escaped, is_litter
from pipeline.errors import ErrorCode, PageFault
from pipeline.page import RasterLimits
from pipeline.result import one_line

ZIP, TAR = "application/zip", "application/x-tar"
ARCHIVE_TYPES = frozenset({ZIP, TAR})

MAX_MEMBERS = 100_000
_MAX_MEMBER_BYTES = 1 << 30
"""What a member may have unless the job says how large a document may be."""
_CHUNK_BYTES = 1 << 20
_MAX_STREAMS = 3
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
)
"""What the readers raise of a damaged archive; a disk or a file that cannot be read is told apart before."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive. `key` is its name as in a URI; the second of a name has `#2` after it, and so on."""

    key: str
    modified_at: datetime | None


def is_tar(path: str) -> bool:
    """Whether a file is a tar archive, compressed or not, with at least one member."""
    try:
        with tarfile.open(path, "r|*") as archive:
            return archive.next() is not None
    except _BROKEN:
        return False


def members(path: str, media_type: str) -> tuple[list[Member], str | None]:
    """The files in an archive in their order, without folders, links, and what folders are searched without, too.

    Beside them what is lost of them, in one line, if the archive is damaged.

    Raises:
        PageFault: nothing of it can be read, it holds no file, or more than anybody unpacks unawares.
    """
    found: list[Member] = []
    loss = None
    _Header.num_damaged = 0
    try:
        for key, entry in _entries(path, media_type):
            found.append(Member(key, _modified_at(entry)))
            if len(found) > MAX_MEMBERS:
                raise PageFault(
                    ErrorCode.DOCUMENT_TOO_LARGE, f"more than {MAX_MEMBERS:,} files in the archive: unpack it first"
                )
    except _BROKEN as error:
        loss = one_line(str(error)) or type(error).__name__
    if _Header.num_damaged and not loss:
        loss = "a header cannot be read"
    if not found:
        code = ErrorCode.BROKEN_DOCUMENT if loss else ErrorCode.NO_PAGES
        raise PageFault(code, f"the archive is damaged: {loss}" if loss else "the archive holds no file")
    return found, loss


class _Header(tarfile.TarInfo):
    """A member of a tar; counts headers that are none where one should be. The end of an archive is not among them."""

    num_damaged = 0

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _Header:
        """Read a header."""
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            cls.num_damaged += type(error).__name__ not in ("EOFHeaderError", "EmptyHeaderError")
            raise


def _open_tar(path: str) -> tarfile.TarFile:
    """A tar to be read from front to end; beyond a damaged header, and a second archive after the first, too."""
    return tarfile.open(path, "r|*", tarinfo=_Header, ignore_zeros=True)


@contextmanager
def opened_member(path: str, media_type: str, key: str, limits: RasterLimits) -> Iterator[str]:
    """A path under which a member can be read while the context lasts: it lies in memory.

    Raises:
        PageFault: there is no such member, it is damaged, encrypted, or too large.
    """
    descriptor = os.memfd_create("pagemill", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            _copy_member(path, media_type, key, limits, file)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _copy_member(path: str, media_type: str, key: str, limits: RasterLimits, file: IO[bytes]) -> None:
    try:
        source = _zip_member(path, key, limits) if media_type == ZIP else _OPEN.member(path, key)
        if source is None:
            raise PageFault(ErrorCode.NOT_FOUND, "no such file in the archive")
        _copy(source, file, limits.max_document_bytes or _MAX_MEMBER_BYTES)
    except _BROKEN as error:
        raise PageFault(ErrorCode.BROKEN_DOCUMENT, f"damaged in the archive: {one_line(str(error))}") from error


def _copy(source: IO[bytes], file: IO[bytes], limit: int) -> None:
    """Copy what comes out of the decompressor, whatever the archive says of its size."""
    num_bytes = 0
    while chunk := source.read(_CHUNK_BYTES):
        num_bytes += len(chunk)
        if num_bytes > limit:
            said = f"more than {limit:,} bytes in the archive (--max-document-bytes)"
            raise PageFault(ErrorCode.DOCUMENT_TOO_LARGE, said)
        file.write(chunk)


def _entries(path: str, media_type: str) -> Iterator[tuple[str, Any]]:
    """The files of an archive with their keys, in order."""
    if media_type == ZIP:
        with zipfile.ZipFile(path) as archive:
            yield from _keyed((info.filename, info) for info in archive.infolist() if not info.is_dir())
    else:
        with _open_tar(path) as stream:
            yield from _keyed((info.name, info) for info in stream if info.isreg())


def _keyed(entries: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    times: Counter[str] = Counter()
    for name, entry in entries:
        if any(is_litter(part) for part in name.split("/") if part not in ("", ".", "..")):
            continue
        times[name] += 1
        yield escaped(name) + (f"#{times[name]}" if times[name] > 1 else ""), entry


def _zip_member(path: str, key: str, limits: RasterLimits) -> IO[bytes] | None:
    archive, infos = _OPEN.directory(path)
    info = infos.get(key)
    if info is None:
        return None
    if not info.flag_bits & 1:
        return archive.open(info)
    if info.compress_type == 99:
        raise PageFault(ErrorCode.ENCRYPTED, "AES-encrypted in the archive: unpack it first")
    for password in limits.passwords:
        try:
            with archive.open(info, pwd=password.encode()) as file:
                return io.BytesIO(file.read(limits.max_document_bytes or _MAX_MEMBER_BYTES))
        except (RuntimeError, zipfile.BadZipFile, zlib.error):  # one password in 256 passes the first check
            continue
    raise PageFault(ErrorCode.ENCRYPTED, "a password is needed to read it from the archive (--password-file)")


class _Stream:
    """A tar archive where it was left: a compressed one can only be read from the front."""

    def __init__(self, path: str) -> None:
        self._archive = _open_tar(path)
        self._entries = _keyed((info.name, info) for info in self._archive if info.isreg())
        self.passed: set[str] = set()

    def member(self, key: str) -> IO[bytes] | None:
        """A member as a file to be read at once; None if there is none of this key from here on."""
        for found, entry in self._entries:
            self.passed.add(found)
            if found == key:
                return self._archive.extractfile(entry)
        return None

    def close(self) -> None:
        """Close the file."""
        self._archive.close()


class _Open(threading.local):
    """Archives that this thread has open: the directory of a ZIP, and a few places in a tar.

    Of a tar those who probe are ahead of those who render; each goes forward in a stream of its own.
    """

    def __init__(self) -> None:
        self._of: tuple[str, int, int] | None = None
        self._streams: list[_Stream] = []
        self._directory: tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]] | None = None

    def directory(self, path: str) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
        """A ZIP and its members by their keys."""
        self._turn_to(path)
        if self._directory is None:
            archive = zipfile.ZipFile(path)
            infos = (info for info in archive.infolist() if not info.is_dir())
            self._directory = archive, dict(_keyed((info.filename, info) for info in infos))
        return self._directory

    def member(self, path: str, key: str) -> IO[bytes] | None:
        """A member of a tar as a file to be read at once; None if there is none of this key."""
        self._turn_to(path)
        before = [stream for stream in self._streams if key not in stream.passed]
        stream = max(before, key=lambda one: len(one.passed)) if before else _Stream(path)
        self._streams = [*(one for one in self._streams if one is not stream), stream]
        while len(self._streams) > _MAX_STREAMS:
            self._streams.pop(0).close()
        found = stream.member(key)
        if found is None:
            self._streams.remove(stream)
            stream.close()
        return found

    def _turn_to(self, path: str) -> None:
        status = os.stat(path)
        of = (path, status.st_mtime_ns, status.st_size)
        if of == self._of:
            return
        for stream in self._streams:
            stream.close()
        if self._directory is not None:
            self._directory[0].close()
        self._streams, self._directory, self._of = [], None, of


_OPEN = _Open()


def _modified_at(entry: Any) -> datetime | None:
    """When a member was changed: in a tar by UTC; a ZIP says no time zone, and UTC is as good as any."""
    try:
        if isinstance(entry, zipfile.ZipInfo):
            return datetime(*entry.date_time, tzinfo=UTC)
        return datetime.fromtimestamp(entry.mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def must_be_regular(status: os.stat_result) -> None:
    """Refuse what is no file.

    Raises:
        PageFault: it is a folder, a pipe, a device.
    """
    if not stat.S_ISREG(status.st_mode):
        raise PageFault(ErrorCode.NOT_A_FILE, "not a regular file")
