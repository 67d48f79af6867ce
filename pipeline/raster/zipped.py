"""Zipped: a ZIP that is open, and its files unpacked within bounds."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from lzma import LZMAError

from pipeline.errors import ErrorCode, PageFault
from pipeline.raster import bounds
from pipeline.raster.zip_directory import ZipEntry, directories, entries, entries_by_headers, header, last_directory

_CHUNK_BYTES = 1 << 20
_MIN_CHUNK_BYTES = 1 << 12
_ENCRYPTED, _PATCHED, _STRONGLY, _AES = 1, 1 << 5, 1 << 6, 99
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_NAMES = {1: "Shrink", 6: "Implode", 9: "Deflate64", 93: "Zstandard", 95: "XZ", 97: "WavPack", 98: "PPMd"}
_WRONG_PASSWORD = (RuntimeError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, ValueError, IndexError)
"""What comes of a wrong password: it is noticed at once but for one in 256, which gives rubbish."""

_OVERLAP = PageFault(ErrorCode.BROKEN_DOCUMENT, "its bytes in the archive overlap those of another file, as in a bomb")
_LINK = PageFault(
    ErrorCode.NOT_A_FILE, "a symbolic link in the archive: only what it leads to is read, if it is in there"
)


class Zip:
    """A ZIP that is open. `entries` are its files in their order, `loss` says what is lost of them, if anything.

    Args:
        path: The file.
        keep: Which names count.

    Raises:
        PageFault: there are too many of them.
    """

    def __init__(self, path: str, keep: Callable[[str], bool]) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 (closed by `close`)
        self.entries: list[ZipEntry] = []
        self.loss: str | None = None
        try:
            self._read(keep)
        except BaseException:
            self.close()
            raise

    def _read(self, keep: Callable[[str], bool]) -> None:
        try:
            found, self.loss = directories(self._file)
            self.entries = _kept((entry for one in found for entry in entries(self._file, one)), keep)
        except (zipfile.BadZipFile, struct.error) as error:
            self.loss = str(error)
            self.entries = _kept(entries_by_headers(self._file), keep)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __del__(self) -> None:
        """Close the file of a thread that has ended."""
        if hasattr(self, "_file"):
            self.close()

    def refusals(self) -> dict[int, PageFault]:
        """Why entries are not read, by their index (from zero): links, those over others, more than is unpacked."""
        refused = dict.fromkeys(_overlapping(self.entries), _OVERLAP)
        left = most = bounds.most_unpacked_bytes(os.fstat(self._file.fileno()).st_size)
        for index, entry in enumerate(self.entries):
            if stat.S_ISLNK(entry.mode):  # what was a pipe has its bytes in here
                refused[index] = _LINK
            elif index not in refused:
                left -= min(entry.num_bytes, bounds.MAX_MEMBER_BYTES)
                if left < 0:
                    refused[index] = bounds.too_much_in_all(most)
        return refused

    def chunks(self, entry: ZipEntry, passwords: Sequence[str], max_bytes: int) -> Iterator[bytes]:
        """What is in a file; no more comes out of it than the directory says.

        Raises:
            PageFault: it needs a password that is not there, is too large, or packed as nobody unpacks here.
        """
        if entry.flags & _STRONGLY or entry.method == _AES:
            raise PageFault(
                ErrorCode.ENCRYPTED, "AES-encrypted in the archive, which is not supported: unpack it first"
            )
        if entry.method not in _METHODS or entry.flags & _PATCHED:
            how = _NAMES.get(entry.method, f"method {entry.method}")
            raise PageFault(ErrorCode.UNSUPPORTED_ARCHIVE, f"compressed in the archive by {how}: unpack it first")
        if entry.num_bytes > max_bytes:
            raise bounds.too_large_a_member(max_bytes)
        if not entry.flags & _ENCRYPTED:
            return self._unpacked(entry)
        for password in passwords:
            try:
                return iter(list(self._unpacked(entry, password.encode())))
            except _WRONG_PASSWORD:
                continue
        raise PageFault(ErrorCode.ENCRYPTED, "a password is needed to read it from the archive (--password-file)")

    def _unpacked(self, entry: ZipEntry, password: bytes | None = None) -> Iterator[bytes]:
        """The bytes of a file. bzip2 and LZMA are fed little at a time: a lot may come out of it at once."""
        found = header(self._file, entry.header_at)
        if found is None:
            raise zipfile.BadZipFile("it is not where the directory says")
        self._file.seek(found[1])
        is_tame = entry.method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        with zipfile.ZipExtFile(self._file, "r", _Info(entry), password, False) as file:
            while chunk := file.read(_CHUNK_BYTES if is_tame else _MIN_CHUNK_BYTES):
                yield chunk


class _Info(zipfile.ZipInfo):
    """An entry as the standard library wants to know of it."""

    def __init__(self, entry: ZipEntry) -> None:
        super().__init__(entry.name)
        self.CRC, self.compress_type, self.flag_bits = entry.crc, entry.method, entry.flags
        self.compress_size, self.file_size = entry.num_packed_bytes, entry.num_bytes
        self._raw_time = entry.dos_time


def ends_as_zip(path: str) -> bool:
    """Whether a ZIP ends a file, whatever it begins with: a program that unpacks itself, or rubbish."""
    try:
        with open(path, "rb") as file:
            directory = last_directory(file, file.seek(0, os.SEEK_END))
            entry = next(entries(file, directory), None) if directory else None
            return entry is not None and header(file, entry.header_at) is not None
    except (OSError, zipfile.BadZipFile, struct.error):
        return False


def _kept(found: Iterator[ZipEntry], keep: Callable[[str], bool]) -> list[ZipEntry]:
    files = (entry for entry in found if not entry.name.endswith("/") and keep(entry.name))
    kept = list(islice(files, bounds.MAX_MEMBERS + 1))
    if len(kept) > bounds.MAX_MEMBERS:
        raise bounds.too_many_files(bounds.MAX_MEMBERS)
    return kept


def _overlapping(found: Sequence[ZipEntry]) -> Iterator[int]:
    """Which entries lie over others, as few of them as can be (D. Fifield, A better zip bomb, 2019)."""
    end = 0
    for index in sorted(range(len(found)), key=lambda index: (found[index].end, -found[index].header_at)):
        if found[index].header_at < end:
            yield index
        else:
            end = found[index].end
