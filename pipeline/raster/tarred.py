"""Tarred: a tar archive, compressed or not, read from front to end; what comes out of it is counted on the way."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

from pipeline.document import escaped
from pipeline.errors import ErrorCode, PageFault
from pipeline.raster import bounds

GZIP, BZIP2, XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"
COMPRESSED = (GZIP, BZIP2, XZ)
_CHUNK_BYTES = 1 << 20
_PACKED_CHUNK_BYTES = 1 << 14
"""What is left of it is copied at the end of each member of a gzip file, of which there may be thousands in it."""
_MAX_NAME_BYTES = 1 << 20
_NAMES_FOLLOW = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
_NO_FILES = (tarfile.DIRTYPE, b"V", b"D")
"""Folders, and what GNU tar notes of a volume and of a folder."""

TAR_FAULTS = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
"""What the readers raise of a damaged archive."""


class _Header(tarfile.TarInfo):
    """A member of a tar; counts headers that are none where one should be. The end of an archive is not among them."""

    num_damaged = 0

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _Header:
        """Read a header."""
        try:
            read = super().frombuf(buf, encoding, errors)
            if read.type in _NAMES_FOLLOW and read.size > _MAX_NAME_BYTES:
                raise tarfile.InvalidHeaderError("a name is too long")  # type: ignore[attr-defined]
        except tarfile.HeaderError as error:
            cls.num_damaged += type(error).__name__ not in ("EOFHeaderError", "EmptyHeaderError")
            raise
        return read


class _Gunzip(io.RawIOBase):
    """What is in the members of a gzip file (RFC 1952), one after the other; what stands behind them is passed over."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._packed = b""
        self._member: Any = zlib.decompressobj(wbits=31)

    def readable(self) -> bool:
        """That it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some of the bytes; none at the end.

        Raises:
            EOFError: it is cut off.
        """
        view = memoryview(buffer).cast("B")
        while True:
            if self._member.eof:
                self._packed = self._member.unused_data + self._file.read(len(GZIP))
                if not self._packed.startswith(GZIP):
                    return 0
                self._member = zlib.decompressobj(wbits=31)
            self._packed = self._packed or self._file.read(_PACKED_CHUNK_BYTES)
            made = self._member.decompress(self._packed, len(view))
            is_over = not self._packed and not made
            self._packed = self._member.unconsumed_tail
            if is_over and not self._member.eof:
                raise EOFError("the compressed file is cut off")
            if made:
                view[: len(made)] = made
                return len(made)

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()


class _Counted:
    """What is unpacked, up to a bound."""

    def __init__(self, path: str) -> None:
        self._file: IO[bytes] = open(path, "rb")  # noqa: SIM115 (closed by `close`)
        self._source: IO[bytes] = self._file
        self.most = self._left = bounds.most_unpacked_bytes(os.fstat(self._file.fileno()).st_size)
        head = self._file.read(len(XZ))
        self._file.seek(0)
        self._source = _unpacked(self._file, head)

    def read(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            PageFault: more has come out of it than may.
        """
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise bounds.too_much_in_all(self.most)
        return data

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        self._file.close()

    def __del__(self) -> None:
        """Close the file of a thread that has ended."""
        if hasattr(self, "_source"):
            self.close()


def _unpacked(file: IO[bytes], head: bytes) -> IO[bytes]:
    if head.startswith(GZIP):
        return io.BufferedReader(_Gunzip(file), _CHUNK_BYTES)
    if head.startswith(BZIP2):
        return bz2.BZ2File(file)
    return lzma.LZMAFile(file) if head.startswith(XZ) else file


class Tar:
    """A tar archive that is open, at its front.

    Args:
        path: The file.
        to_the_end: Go on beyond a damaged header, and to a second archive after the first.

    Raises:
        TarError: it does not begin like one; or another of `TAR_FAULTS`.
    """

    def __init__(self, path: str, *, to_the_end: bool = True) -> None:
        source: Any = _Counted(path)
        self._source: _Counted = source
        self._num_sparse_bytes = 0
        self._header: type[_Header] = type("_Header", (_Header,), {})
        try:
            self._archive: Any = tarfile.open(  # noqa: SIM115 (closed by `close`)
                fileobj=source,
                mode="r|",
                tarinfo=self._header,
                ignore_zeros=to_the_end,
                encoding="utf-8",
                errors="surrogateescape",
            )
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._archive.close()
        self._source.close()

    @property
    def has_header(self) -> bool:
        """Whether it begins with the header of a file or folder."""
        return self._archive.firstmember is not None

    @property
    def num_damaged(self) -> int:
        """Headers up to here that could not be read."""
        return self._header.num_damaged

    def entries(self) -> Iterator[tarfile.TarInfo]:
        """All but folders, in order; what is in one can be read before the next is asked for.

        Raises:
            PageFault: more comes out of the archive than may.
            TarError: it is damaged; or another of `TAR_FAULTS`.
        """
        while (entry := self._archive.next()) is not None:
            self._archive.members.clear()
            if entry.issparse():  # which may be large without being so in the archive
                self._num_sparse_bytes += min(entry.size, bounds.MAX_MEMBER_BYTES)
            if entry.type not in _NO_FILES:
                yield entry

    def chunks(self, entry: tarfile.TarInfo, max_bytes: int) -> Iterator[bytes]:
        """What is in the entry that was come to last.

        Raises:
            PageFault: it is no file, or too large.
        """
        if refusal := refusal_of(entry):
            raise refusal
        if entry.issparse() and self._num_sparse_bytes > self._source.most:
            raise bounds.too_much_in_all(self._source.most)
        if entry.size > max_bytes:
            raise bounds.too_large_a_member(max_bytes)
        file = self._archive.extractfile(entry)
        while file is not None and (chunk := file.read(_CHUNK_BYTES)):
            yield chunk


def is_tar(path: str) -> bool:
    """Whether a file is a tar archive, compressed or not, with at least one member."""
    try:
        archive = Tar(path, to_the_end=False)
    except (*TAR_FAULTS, PageFault):
        return False
    try:
        return archive.has_header
    finally:
        archive.close()


def is_tar_header(head: bytes) -> bool:
    """Whether the first bytes of a file are a tar header, told by its checksum: tar of Unix V7 has no other sign."""
    try:
        return bool(tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape").name)
    except (tarfile.HeaderError, ValueError):
        return False


def refusal_of(entry: tarfile.TarInfo) -> PageFault | None:
    """Why an entry is not read, if it is no file: the row of a link says where it leads."""
    if entry.islnk() or entry.issym():
        kind = "hard" if entry.islnk() else "symbolic"
        where = escaped(entry.linkname)[:200]
        said = f"a {kind} link in the archive to {where}: only what it leads to is read, if it is in there"
        return PageFault(ErrorCode.NOT_A_FILE, said)
    return None if entry.isreg() else PageFault(ErrorCode.NOT_A_FILE, "not a regular file in the archive")
