"""ZIP directory: which files a ZIP holds and where, told by its end or, if that is missing, by their own headers.

As APPNOTE.TXT 6.3.10 by PKWARE says. It is read entry by entry, since it may claim millions.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO

_DESCRIBED, _UTF_8 = 1 << 3, 1 << 11
_HEADER, _DIRECTORY, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_END_64, _LOCATOR_64, _DESCRIPTOR = b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08"
_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_CENTRAL = struct.Struct("<4sHHHHHHLLLHHHHHLL")
_END_RECORD = struct.Struct("<4sHHHHLLH")
_END_RECORD_64 = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR_BYTES = 20
_MAX_COMMENT_BYTES = 0xFFFF
_MAX_JOINED = 100
_MIN_CHUNK_BYTES, _MAX_CHUNK_BYTES = 1 << 12, 1 << 20
_ZIP_64, _UNICODE_PATH = 0x0001, 0x7075
_UNIX = 3


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A file in a ZIP: its name, where its own header lies, and what the directory says of it.

    Bytes of a name that are no text are lone surrogates, as in paths. `mode` is that of Unix, 0 if none is said.
    """

    name: str
    header_at: int
    num_name_bytes: int
    num_packed_bytes: int
    num_bytes: int
    crc: int
    method: int
    flags: int
    dos_time: int
    mode: int = 0

    @property
    def end(self) -> int:
        """Where its bytes end, or a little later: how long the extra field before them is, its own header says."""
        return self.header_at + _LOCAL.size + self.num_name_bytes + self.num_packed_bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """Where a directory lies, and by how much all that it says of places is to be shifted."""

    start: int
    size: int
    shift: int


def directories(file: IO[bytes]) -> tuple[list[Directory], str | None]:
    """The directories in a file, several if ZIPs stand one after the other; and what is lost in front of them.

    Raises:
        BadZipFile: there is none.
    """
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    is_first = file.read(4) == _HEADER
    found: list[Directory] = []
    while len(found) < _MAX_JOINED and (last := last_directory(file, end)):
        found.insert(0, last)
        end = last.shift
        if not (end and is_first):
            return found, None
    if not found:
        raise zipfile.BadZipFile("its directory, which should be at its end, is missing")
    return found, f"the directory of the first {end:,} bytes is missing"


def last_directory(file: IO[bytes], end: int) -> Directory | None:
    """The directory of the ZIP that ends before `end`, behind it a comment or rubbish."""
    first = max(0, end - _END_RECORD.size - _MAX_COMMENT_BYTES)
    file.seek(first)
    data = file.read(end - first)
    at = data.rfind(_END)
    while at >= 0:
        if at + _END_RECORD.size <= len(data) and (found := _directory_at(file, first + at, data, at)):
            return found
        at = data.rfind(_END, 0, at)
    return None


def _directory_at(file: IO[bytes], at: int, data: bytes, at_in_data: int) -> Directory | None:
    _, disk, _, _, count, size, offset, _ = _END_RECORD.unpack_from(data, at_in_data)
    if disk not in (0, 0xFFFF):
        raise zipfile.BadZipFile("it is the last of several files")
    locator = _bytes_at(file, at - _LOCATOR_BYTES, _LOCATOR_BYTES)
    if locator.startswith(_LOCATOR_64):
        for place in (at - _LOCATOR_BYTES - _END_RECORD_64.size, int.from_bytes(locator[8:16], "little")):
            large = _bytes_at(file, place, _END_RECORD_64.size)
            if place < at and len(large) == _END_RECORD_64.size and large.startswith(_END_64):
                count, size, offset = _END_RECORD_64.unpack(large)[-3:]
                at = place
                break
    for start in (at - size, offset):
        if 0 <= offset <= start <= at - size and (not count or _bytes_at(file, start, 4) == _DIRECTORY):
            return Directory(start, size, start - offset)
    return None


def _bytes_at(file: IO[bytes], at: int, size: int) -> bytes:
    """Bytes of the file, fewer where it ends; none at a place that no file has, whatever says that there is one."""
    try:
        file.seek(at)
    except (OSError, OverflowError, ValueError):
        return b""
    return file.read(size)


def entries(file: IO[bytes], directory: Directory) -> Iterator[ZipEntry]:
    """The entries of a directory.

    Raises:
        BadZipFile: it is damaged.
    """
    at, end = directory.start, directory.start + directory.size
    while at + _CENTRAL.size <= end:
        data = _bytes_at(file, at, _CENTRAL.size)
        if not data.startswith(_DIRECTORY) or len(data) < _CENTRAL.size:
            raise zipfile.BadZipFile("its directory cannot be read")
        said = _CENTRAL.unpack(data)
        made_by, flags, method, time = said[1], *said[3:6]
        crc, packed, size, num_name, num_extra, num_comment = said[7:13]
        raw, extra = file.read(num_name), _extra(file.read(num_extra))
        size, packed, header_at = _large(extra, size, packed, said[16])
        mode = said[15] >> 16 if made_by >> 8 == _UNIX else 0
        name, header_at = _name(raw, flags, extra), header_at + directory.shift
        yield ZipEntry(name, header_at, num_name, packed, size, crc, method, flags, time, mode)
        at += _CENTRAL.size + num_name + num_extra + num_comment


def header(file: IO[bytes], at: int) -> tuple[ZipEntry, int] | None:
    """What a file's own header says, and where its bytes begin; None if there is no header."""
    data = _bytes_at(file, at, _LOCAL.size)
    if len(data) < _LOCAL.size or not data.startswith(_HEADER):
        return None
    _, _, flags, method, time, _, crc, packed, size, num_name, num_extra = _LOCAL.unpack(data)
    raw, extra = file.read(num_name), _extra(file.read(num_extra))
    size, packed = _large(extra, size, packed)
    entry = ZipEntry(_name(raw, flags, extra), at, num_name, packed, size, crc, method, flags, time)
    return entry, at + _LOCAL.size + num_name + num_extra


def _extra(data: bytes) -> dict[int, bytes]:
    """The extra fields by their tags, as far as they make sense."""
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        tag, length = struct.unpack_from("<HH", data)
        found.setdefault(tag, data[4 : 4 + length])
        data = data[4 + length :]
    return found


def _large(extra: dict[int, bytes], *said: int) -> tuple[int, ...]:
    """Sizes and places; those that 32 bits cannot say are in an extra field, in this order."""
    data, found = extra.get(_ZIP_64, b""), list(said)
    for index, value in enumerate(said):
        if value == 0xFFFFFFFF and len(data) >= 8:
            found[index], data = int.from_bytes(data[:8], "little"), data[8:]
    return tuple(found)


def _name(raw: bytes, flags: int, extra: dict[int, bytes]) -> str:
    """A name in the encoding that it says, or else in that which fits: UTF-8, or code page 437 as in DOS."""
    field = extra.get(_UNICODE_PATH, b"")
    if not flags & _UTF_8 and field[:1] == b"\x01" and field[1:5] == zlib.crc32(raw).to_bytes(4, "little"):
        raw, flags = field[5:], _UTF_8
    raw = raw.partition(b"\0")[0]
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape") if flags & _UTF_8 else raw.decode("cp437")


def entries_by_headers(file: IO[bytes]) -> Iterator[ZipEntry]:
    """The files of a ZIP without a directory by the headers before them; the last one may be cut off."""
    at: int | None = 0
    while at is not None:
        found = header(file, at)
        if found is None:
            at = next(_places(file, _HEADER, at + 1), None)
            continue
        entry, data_at = found
        if entry.flags & _DESCRIBED and not entry.num_packed_bytes:
            entry = _described(file, entry, data_at)
        yield entry
        at = data_at + entry.num_packed_bytes


def _described(file: IO[bytes], entry: ZipEntry, data_at: int) -> ZipEntry:
    """An entry with the sizes that are written behind its bytes; to the end of the file if they are not."""
    for place in _places(file, _DESCRIPTOR, data_at):
        data = _bytes_at(file, place + len(_DESCRIPTOR), 20)
        for form in (struct.Struct("<LLL"), struct.Struct("<LQQ")):
            if len(data) < form.size:
                continue
            crc, packed, size = form.unpack_from(data)
            if packed == place - data_at:
                return replace(entry, crc=crc, num_packed_bytes=packed, num_bytes=size)
    rest = file.seek(0, os.SEEK_END) - data_at
    return replace(entry, num_packed_bytes=rest, num_bytes=rest)


def _places(file: IO[bytes], signature: bytes, at: int) -> Iterator[int]:
    """Where a signature stands, from a place on; between two of them the file may be read elsewhere."""
    size, before = _MIN_CHUNK_BYTES, b""
    while chunk := _bytes_at(file, at, size):
        data, first = before + chunk, at - len(before)
        found = data.find(signature)
        while found >= 0:
            yield first + found
            found = data.find(signature, found + 1)
        at, before, size = at + len(chunk), data[-(len(signature) - 1) :], min(2 * size, _MAX_CHUNK_BYTES)
