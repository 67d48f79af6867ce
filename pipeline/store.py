"""Objects and their conditions; the only obstore import. Parts are put whole and never over another."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore

from pipeline.errors import StorageError, UsageError

_STAGING = "_staging"
"""Where an object is written before it is linked under its name. Readers of datasets pass over names that start
with an underscore, so that one who opens a whole table folder never meets a half-written file either."""


@dataclass(frozen=True, slots=True)
class Store:
    """A place for objects under one root; keys are relative, with forward slashes."""

    location: str
    _objects: LocalStore

    @classmethod
    def open(cls, location: str) -> Store:
        """Open a folder as a store, making it if need be.

        Raises:
            UsageError: the location is a URL, or not a folder.
            StorageError: it cannot be made or written.
        """
        if "://" in location:
            raise UsageError(f"{location}: only a local folder can be written")
        path = os.path.abspath(os.path.expanduser(location))
        if os.path.lexists(path) and not os.path.isdir(path):
            raise UsageError(f"the output {location} exists and is not a folder")
        try:
            os.makedirs(path, exist_ok=True)
            return cls(path, LocalStore(path, mkdir=True))
        except (OSError, BaseError) as error:
            raise StorageError(f"the output folder {location} cannot be made: {_reason(error)}") from error

    @classmethod
    def existing(cls, location: str) -> Store:
        """Open a folder that is there already, to read it; nothing is made.

        Raises:
            UsageError: there is no such folder.
            StorageError: it cannot be opened.
        """
        path = os.path.abspath(os.path.expanduser(location))
        if "://" in location or not os.path.isdir(path):
            raise UsageError(f"{location}: no such folder")
        try:
            return cls(path, LocalStore(path))
        except (OSError, BaseError) as error:
            raise StorageError(f"{location} cannot be opened: {_reason(error)}") from error

    def put_new(self, key: str, data: bytes) -> bool:
        """Put an object if there is none under this key yet; False if there is.

        The object appears whole or not at all, and is on the disk by then, power cuts included: this is the commit.

        Raises:
            StorageError: it could not be written.
        """
        staged = f"{_STAGING}/{key.replace('/', '~')}.{secrets.token_hex(4)}"
        try:
            obstore.put(self._objects, staged, data, use_multipart=False)
            self._sync(staged)
            obstore.rename(self._objects, staged, key, overwrite=False)
            self._sync(os.path.dirname(key))
        except AlreadyExistsError:
            self.delete(staged)
            return False
        except (OSError, BaseError) as error:
            self.delete(staged)
            raise StorageError(f"{key} could not be written: {_reason(error)}") from error
        return True

    def sweep(self) -> None:
        """Remove what killed runs have left half-written. Only for who is sure to be alone here."""
        shutil.rmtree(os.path.join(self.location, _STAGING), ignore_errors=True)

    def put_over(self, key: str, data: bytes) -> None:
        """Put an object whether or not there is one under this key; it, too, appears whole.

        Raises:
            StorageError: it could not be written.
        """
        try:
            obstore.put(self._objects, key, data, mode="overwrite", use_multipart=False)
        except (OSError, BaseError) as error:
            raise StorageError(f"{key} could not be written: {_reason(error)}") from error

    def delete(self, key: str) -> None:
        """Remove an object if there is one; what cannot be removed stays, and nothing depends on it."""
        with contextlib.suppress(OSError, BaseError):
            obstore.delete(self._objects, key)

    def get(self, key: str) -> bytes:
        """The bytes of an object.

        Raises:
            StorageError: there is none, or it could not be read.
        """
        try:
            return bytes(obstore.get(self._objects, key).bytes())
        except (OSError, BaseError) as error:
            raise StorageError(f"{key} could not be read: {_reason(error)}") from error

    def open_object(self, key: str) -> ObjectReader:
        """An object to read parts of; errors come as `StorageError`, here and from each read."""
        try:
            size = obstore.head(self._objects, key)["size"]
        except (OSError, BaseError) as error:
            raise StorageError(f"{key} could not be read: {_reason(error)}") from error
        return ObjectReader(self._objects, key, size)

    def keys(self, prefix: str) -> list[str]:
        """All keys below a prefix, sorted; none if there is nothing there.

        Raises:
            StorageError: they could not be listed.
        """
        try:
            return sorted(self._list(prefix))
        except NotFoundError:
            return []
        except (OSError, BaseError) as error:
            raise StorageError(f"{prefix} could not be listed: {_reason(error)}") from error

    def names(self, prefix: str) -> list[str]:
        """The names of all files below a prefix as they lie there, sorted: also of those that `keys` does not list.

        An object that is being put, or whose writer was killed, lies there as `NAME#1`; listing objects hides it.

        Raises:
            StorageError: a folder cannot be listed.
        """
        found: list[str] = []
        try:
            for folder, _, names in os.walk(os.path.join(self.location, prefix), onerror=_raise):
                relative = os.path.relpath(folder, self.location).replace(os.sep, "/")
                found += [f"{relative}/{name}" for name in names]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"{prefix} could not be listed: {_reason(error)}") from error
        return sorted(found, key=os.fsencode)

    def _list(self, prefix: str) -> Iterator[str]:
        for chunk in obstore.list(self._objects, prefix=prefix):
            yield from (meta["path"] for meta in chunk)

    def _sync(self, key: str) -> None:
        """Have the disk keep a file or folder."""
        descriptor = os.open(os.path.join(self.location, key), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class ObjectReader(io.RawIOBase):
    """An object as a file: each read fetches its range and nothing more."""

    def __init__(self, objects: LocalStore, key: str, size: int) -> None:
        super().__init__()
        self._objects, self._key, self._size, self._position = objects, key, size, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes from the start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go there, as files do."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end."""
        start, stop = self._position, self._size if size < 0 else min(self._position + size, self._size)
        if start >= stop:
            return b""
        try:
            data = bytes(obstore.get_range(self._objects, self._key, start=start, end=stop))
        except (OSError, BaseError) as error:
            raise StorageError(f"{self._key} could not be read: {_reason(error)}") from error
        self._position += len(data)
        return data


def _raise(error: OSError) -> None:
    raise error


def _reason(error: Exception) -> str:
    """The first line of an error, and what to do where that is plain; obstore adds a debug dump below it."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    is_full = any(f"os error {code}" in said or f"Errno {code}]" in said for code in (errno.ENOSPC, errno.EDQUOT))
    return f"{said}; make room there first" if is_full else said
