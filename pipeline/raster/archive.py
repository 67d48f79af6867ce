"""Archive: ZIP and tar files as containers of documents. A member is read into memory, never onto a disk."""

from __future__ import annotations

import os
import posixpath
import stat
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Protocol, TypeVar

from pipeline.document import escaped, is_litter, is_unfinished
from pipeline.errors import ErrorCode, PageFault
from pipeline.page import RasterLimits
from pipeline.raster import bounds
from pipeline.raster.tarred import TAR_FAULTS, Tar
from pipeline.raster.zip_directory import ZipEntry
from pipeline.raster.zipped import Zip
from pipeline.result import one_line

ZIP, TAR = "application/zip", "application/x-tar"
ARCHIVE_TYPES = frozenset({ZIP, TAR})

_MAX_STREAMS = 3
_MAX_MIMETYPE_BYTES = 1 << 12
_NAMELESS = "unnamed"
_BROKEN = (*TAR_FAULTS, zipfile.BadZipFile, NotImplementedError)
"""What the readers raise of a damaged archive; a disk or a file that cannot be read is told apart before."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Named)


def members(path: str, media_type: str) -> tuple[list[str], PageFault | None]:
    """The keys of the files in an archive in their order, without folders and what folders are searched without, too.

    A key is a name as in a URI, without `..` and a slash in front; the second of a name has `#2` after it, and so on.
    Beside them what is lost of them, if the archive is damaged or more than is unpacked.

    Raises:
        PageFault: nothing of it can be read, it holds no file, or more than anybody unpacks unawares.
    """
    found, loss = _in_zip(path) if media_type == ZIP else _in_tar(path)
    if found and loss:
        said = f"the archive is damaged, {len(found)} of its files can be told: {loss.detail}"
        return found, loss if loss.code != ErrorCode.BROKEN_DOCUMENT else PageFault(loss.code, said)
    if loss:
        is_broken = loss.code == ErrorCode.BROKEN_DOCUMENT
        raise PageFault(loss.code, f"the archive is damaged: {loss.detail}") if is_broken else loss
    if not found:
        raise PageFault(ErrorCode.NO_PAGES, "the archive holds no file")
    return found, None


def _in_zip(path: str) -> tuple[list[str], PageFault | None]:
    with closing(Zip(path, _counts)) as archive:
        loss = PageFault(ErrorCode.BROKEN_DOCUMENT, archive.loss) if archive.loss else None
        return [key for key, _ in _keyed(archive.entries)], loss


def _in_tar(path: str) -> tuple[list[str], PageFault | None]:
    found: list[str] = []
    names, links, loss = set[str](), dict[str, str](), None
    try:
        with closing(Tar(path)) as archive:
            for key, entry in _keyed(archive.entries()):
                found.append(key)
                names.add(entry.name)
                if entry.issym():
                    links[key] = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), entry.linkname))
                if len(found) > bounds.MAX_MEMBERS:
                    raise bounds.too_many_files(bounds.MAX_MEMBERS)
            if archive.num_damaged:
                loss = PageFault(ErrorCode.BROKEN_DOCUMENT, "a header cannot be read")
    except PageFault as fault:
        if len(found) > bounds.MAX_MEMBERS:
            raise
        loss = fault
    except _BROKEN as error:
        loss = PageFault(ErrorCode.BROKEN_DOCUMENT, one_line(str(error)) or type(error).__name__)
    folders = _folders_of(names) if links else set()
    return [key for key in found if links.get(key) not in folders], loss


def _folders_of(names: set[str]) -> set[str | None]:
    """The folders in which these files are, and those above them."""
    found: set[str | None] = set()
    for name in names:
        folder = posixpath.dirname(posixpath.normpath(name))
        while folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return (found - {"", "/"}) | {"."}


def zip_names(path: str) -> tuple[set[str], bytes]:
    """The names in a ZIP, and the first bytes of the member called `mimetype`, if there is one."""
    with closing(Zip(path, _counts)) as archive:
        first = b""
        for entry in (entry for entry in archive.entries if entry.name == "mimetype"):
            with suppress(*_BROKEN, PageFault):
                first = next(archive.chunks(entry, (), _MAX_MIMETYPE_BYTES), b"")
        return {entry.name for entry in archive.entries}, first


@contextmanager
def opened_member(path: str, media_type: str, key: str, limits: RasterLimits) -> Iterator[str]:
    """A path under which a member can be read while the context lasts: it lies in memory.

    Raises:
        PageFault: there is no such member, it is damaged, encrypted, or too large.
    """
    descriptor = os.memfd_create("pagemill", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            for chunk in _chunks(path, media_type, key, limits):
                file.write(chunk)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _chunks(path: str, media_type: str, key: str, limits: RasterLimits) -> Iterator[bytes]:
    try:
        max_bytes = limits.max_document_bytes or bounds.MAX_MEMBER_BYTES
        found = _OPEN.zip_member(path, key, limits.passwords, max_bytes) if media_type == ZIP else None
        found = _OPEN.tar_member(path, key, max_bytes) if media_type == TAR else found
        if found is None:
            raise PageFault(ErrorCode.NOT_FOUND, "no such file in the archive")
        yield from found
    except _BROKEN as error:
        raise PageFault(ErrorCode.BROKEN_DOCUMENT, f"damaged in the archive: {one_line(str(error))}") from error


def _counts(name: str) -> bool:
    """Whether a file of this name would be looked at in a folder."""
    parts = _parts(name)
    return not any(is_litter(part) for part in parts) and not (parts and is_unfinished(parts[-1]))


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".", "..")]


def _keyed(entries: Iterator[_Entry] | Sequence[_Entry]) -> Iterator[tuple[str, _Entry]]:
    times: Counter[str] = Counter()
    for entry in entries:
        if _counts(entry.name):
            name = "/".join(_parts(entry.name)) or _NAMELESS
            times[name] += 1
            yield escaped(name) + (f"#{times[name]}" if times[name] > 1 else ""), entry


class _Stream:
    """A tar archive where it was left: a compressed one can only be read from the front."""

    def __init__(self, path: str) -> None:
        self._archive = Tar(path)
        self._entries: Iterator[tuple[str, tarfile.TarInfo]] = _keyed(self._archive.entries())
        self.passed: set[str] = set()

    def member(self, key: str, max_bytes: int) -> Iterator[bytes] | None:
        """What is in a member, to be read at once; None if there is none of this key from here on."""
        for found, entry in self._entries:
            self.passed.add(found)
            if found == key:
                return self._archive.chunks(entry, max_bytes)
        return None

    def close(self) -> None:
        """Close the file."""
        self._archive.close()


class _Directory:
    """A ZIP, its members by their keys, and why those that are not read are not."""

    def __init__(self, path: str) -> None:
        self.archive = Zip(path, _counts)
        self.members: dict[str, tuple[ZipEntry, PageFault | None]] = {}
        refusals = self.archive.refusals()
        for index, (key, entry) in enumerate(_keyed(self.archive.entries)):
            self.members[key] = entry, refusals.get(index)


class _Open(threading.local):
    """Archives that this thread has open: the directory of a ZIP, and a few places in a tar.

    Of a tar those who probe are ahead of those who render; each goes forward in a stream of its own.
    """

    def __init__(self) -> None:
        self._of: tuple[str, int, int] | None = None
        self._streams: list[_Stream] = []
        self._directory: _Directory | None = None

    def zip_member(self, path: str, key: str, passwords: Sequence[str], max_bytes: int) -> Iterator[bytes] | None:
        """What is in a member of a ZIP, to be read at once; None if there is none of this key."""
        self._turn_to(path)
        self._directory = self._directory or _Directory(path)
        if key not in self._directory.members:
            return None
        entry, refusal = self._directory.members[key]
        if refusal is not None:
            raise PageFault(refusal.code, refusal.detail)
        return self._directory.archive.chunks(entry, passwords, max_bytes)

    def tar_member(self, path: str, key: str, max_bytes: int) -> Iterator[bytes] | None:
        """What is in a member of a tar, to be read at once; None if there is none of this key."""
        self._turn_to(path)
        before = [stream for stream in self._streams if key not in stream.passed]
        stream = max(before, key=lambda one: len(one.passed)) if before else _Stream(path)
        self._streams = [*(one for one in self._streams if one is not stream), stream]
        while len(self._streams) > _MAX_STREAMS:
            self._streams.pop(0).close()
        found = stream.member(key, max_bytes)
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
            self._directory.archive.close()
        self._streams, self._directory, self._of = [], None, of


_OPEN = _Open()


def must_be_regular(status: os.stat_result) -> None:
    """Refuse what is no file.

    Raises:
        PageFault: it is a folder, a pipe, a device.
    """
    if not stat.S_ISREG(status.st_mode):
        raise PageFault(ErrorCode.NOT_A_FILE, "not a regular file")
