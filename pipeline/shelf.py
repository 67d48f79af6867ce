"""Shelf: objects of a store as files of this machine, fetched once and kept while a run lasts and there is room."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import IO

from pipeline.errors import MachineError
from pipeline.location import Fetching, Location
from pipeline.store.download import fetch

_STALE_S = 24 * 3600.0
"""A shelf that nobody has used for so long was left by a run that was killed."""


@dataclass(frozen=True, slots=True)
class Book:
    """An object as a file: `path` can be read while the context of `taken` lasts."""

    path: str
    size_bytes: int
    modified_at: datetime
    etag: str


_used: set[str] = set()
"""Runs for which this process has fetched anything."""


@contextmanager
def taken(location: Location, etag: str | None, fetching: Fetching) -> Iterator[Book]:
    """An object in the version with this etag, or whatever is there if that is None, as a file.

    Raises:
        PageFault: see `pipeline.store.download.fetch`.
        InputsLostError: likewise.
        MachineError: the folder for temporary files is not ours, or cannot be written.
    """
    folder = _folder(fetching.run)
    _used.add(fetching.run)
    known = _known(folder, location, etag) if etag else None
    file, found = known or _fetched(folder, location, etag, fetching)
    with file:
        path = _path(folder, location, found)
        status = os.fstat(file.fileno())
        with suppress(OSError):  # evicted by somebody who has not seen the lock: the open file stays
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
        yield Book(
            f"/proc/self/fd/{file.fileno()}" if not os.path.exists(path) else path,
            status.st_size,
            datetime.fromtimestamp(status.st_mtime_ns / 1e9, UTC),
            found,
        )


def clear_used() -> None:
    """Remove what this process itself has fetched, on its way out."""
    while _used:
        clear(_used.pop())


def clear(run: str) -> None:
    """Remove the shelf of a run that has ended, on this machine."""
    shutil.rmtree(os.path.join(_root(), run), ignore_errors=True)


def _known(folder: str, location: Location, etag: str) -> tuple[IO[bytes], str] | None:
    """The file of an object that was fetched before, locked so that it stays."""
    try:
        file = open(_path(folder, location, etag), "rb")  # noqa: SIM115 (the caller closes it)
    except FileNotFoundError:
        return None
    fcntl.flock(file, fcntl.LOCK_SH)
    if os.fstat(file.fileno()).st_nlink:
        return file, etag
    file.close()
    return None


def _fetched(folder: str, location: Location, etag: str | None, fetching: Fetching) -> tuple[IO[bytes], str]:
    """Fetch an object: its file, locked, and its etag."""
    descriptor, staged = tempfile.mkstemp(prefix=".", dir=folder)
    file = os.fdopen(descriptor, "w+b")
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        found = fetch(location, file, etag=etag, patience_s=fetching.patience_s)
        file.flush()
        os.utime(staged, ns=(time.time_ns(), int(found.modified_at.timestamp() * 1e6) * 1000))
        os.rename(staged, _path(folder, location, found.etag))
    except BaseException:
        file.close()
        os.unlink(staged)
        raise
    _make_room(folder, fetching.most_bytes)
    return file, found.etag


def _make_room(folder: str, most_bytes: int) -> None:
    """Remove what was not used for longest until the rest is small enough; what is in use stays."""
    found: list[tuple[int, int, str]] = []
    with os.scandir(folder) as listing:
        for entry in listing:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_atime_ns, status.st_size, entry.path))
    too_much = sum(size for _, size, _ in found) - most_bytes
    for _, size, path in sorted(found):
        if too_much <= 0:
            return
        if _removed(path):
            too_much -= size


def _removed(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    except OSError:
        return False
    return True


def _path(folder: str, location: Location, etag: str) -> str:
    """Where the file of an object's version lies."""
    return os.path.join(folder, blake2b(f"{location.uri}\0{etag}".encode(), digest_size=20).hexdigest())


def _root() -> str:
    return os.path.join(tempfile.gettempdir(), f"pagemill-objects-{os.getuid()}")


def _folder(run: str) -> str:
    """The shelf of a run, made if need be, once those that killed runs have left are gone.

    Raises:
        MachineError: it belongs to somebody else, or cannot be made.
    """
    root, folder = _root(), os.path.join(_root(), run)
    try:
        if not os.path.isdir(folder):
            os.makedirs(root, mode=0o700, exist_ok=True)
            _must_be_ours(root)
            _sweep(root)
            os.makedirs(folder, mode=0o700, exist_ok=True)
        os.utime(folder)
    except OSError as error:
        raise MachineError(f"{root} cannot be used for what is fetched: {error.strerror}") from error
    return folder


def _must_be_ours(root: str) -> None:
    status = os.lstat(root)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise MachineError(f"{root} is not a folder that only this user can enter: remove it, or set TMPDIR")


def _sweep(root: str) -> None:
    with os.scandir(root) as listing:
        for entry in listing:
            with suppress(FileNotFoundError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_S:
                    shutil.rmtree(entry.path, ignore_errors=True)
