"""Objects and their conditions, local or remote; the only obstore import. Parts are put whole, never over others."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore

from pipeline.errors import StorageError, UsageError
from pipeline.location import Location, is_remote
from pipeline.store.connection import PATIENCE_S, Trouble, connect, pauses, reason, settings, trouble_of
from pipeline.store.reader import ObjectReader

__all__ = ["STAGING", "ObjectReader", "Store"]

STAGING = "_staging"
"""Where an object is written before it is linked under its name. Readers of datasets pass over names that start
with an underscore, so that one who opens a whole table folder never meets a half-written file either."""


@dataclass(frozen=True, slots=True)
class Store:
    """A place for objects under one root; keys are relative, with forward slashes.

    `location` is the absolute path of a folder, or a URL of an object store.
    """

    location: str
    _objects: Any
    _is_remote: bool = False

    @classmethod
    def open(cls, location: str) -> Store:
        """Open a folder or a prefix of a bucket as a store, making the folder if need be.

        Raises:
            UsageError: the location is of a kind that is not known, or not a folder.
            StorageError: it cannot be made or written, or does not keep to create-only puts.
        """
        if is_remote(location):
            return cls._remote(location).made_sure()
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
        """Open what is there already, to read it; nothing is made.

        Raises:
            UsageError: there is no such folder, or no object below it.
            StorageError: it cannot be opened.
        """
        if is_remote(location):
            store = cls._remote(location)
            if not store.holds(""):
                raise UsageError(f"{location}: no such folder, or nothing in it")
            return store
        path = os.path.abspath(os.path.expanduser(location))
        if not os.path.isdir(path):
            raise UsageError(f"{location}: no such folder")
        try:
            return cls(path, LocalStore(path))
        except (OSError, BaseError) as error:
            raise StorageError(f"{location} cannot be opened: {_reason(error)}") from error

    @classmethod
    def _remote(cls, location: str) -> Store:
        where = Location.parse(location)
        store = cls(where.uri.rstrip("/"), connect(where), _is_remote=True)
        try:
            store.holds("")
        except StorageError as error:
            if error.__cause__ is not None and trouble_of(error.__cause__) is Trouble.NO_BUCKET:
                raise UsageError(f"{location}: there is no bucket {where.bucket}") from error
            raise
        return store

    def made_sure(self) -> Store:
        """The same, if it refuses to put one object over another: some stores take the condition and ignore it."""
        key = f"{STAGING}/{secrets.token_hex(8)}"
        try:
            is_first, is_second = self.put_new(key, b"1"), self.put_new(key, b"2")
        finally:
            self.delete(key)
        if not is_first or is_second:
            todo = "two runs could double rows there; use another store, or a local folder"
            raise StorageError(f"{self.location} does not heed create-only puts: {todo}")
        return self

    def put_new(self, key: str, data: bytes) -> bool:
        """Put an object if there is none under this key yet; False if there is.

        The object appears whole or not at all, and is on the disk by then, power cuts included: this is the commit.

        Raises:
            StorageError: it could not be written.
        """
        return self._create(key, data) if self._is_remote else self._link(key, data)

    def _link(self, key: str, data: bytes) -> bool:
        staged = f"{STAGING}/{key.replace('/', '~')}.{secrets.token_hex(4)}"
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

    def _create(self, key: str, data: bytes) -> bool:
        """Create an object in a bucket. Where the answer is lost, or may be to an earlier try, what is there says."""
        waits = pauses(PATIENCE_S)
        while True:
            try:
                obstore.put(self._objects, key, data, mode="create", use_multipart=False)
                return True
            except (OSError, BaseError) as error:
                trouble = trouble_of(error)
                if trouble not in (Trouble.TRANSIENT, Trouble.EXISTS, Trouble.CHANGED):
                    raise StorageError(f"{key} could not be written: {reason(error)}") from error
                there = self._bytes_of(key)
                if there is not None:
                    return there == data
                if next(waits, None) is None:
                    raise StorageError(f"{key} could not be written: {reason(error)}") from error

    def _bytes_of(self, key: str) -> bytes | None:
        """What lies under a key, None if there is nothing or no way to know it for now."""
        try:
            return bytes(obstore.get(self._objects, key).bytes())
        except (OSError, BaseError):
            return None

    def sweep(self) -> None:
        """Remove what killed runs have left half-written. Only for who is sure to be alone here."""
        if not self._is_remote:
            shutil.rmtree(os.path.join(self.location, STAGING), ignore_errors=True)

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
            raise StorageError(f"{prefix or self.location} could not be listed: {_reason(error)}") from error

    def holds(self, prefix: str) -> bool:
        """Whether there is any object below a prefix, or a folder of this name.

        Raises:
            StorageError: it could not be listed.
        """
        if not self._is_remote:
            return os.path.isdir(os.path.join(self.location, prefix))
        try:
            return next(self._list(prefix), None) is not None
        except NotFoundError:
            return False
        except (OSError, BaseError) as error:
            raise StorageError(f"{self.location} could not be listed: {_reason(error)}") from error

    def names(self, prefix: str) -> list[str]:
        """The names of all files below a prefix as they lie there, sorted: also of those that `keys` does not list.

        An object that is being put, or whose writer was killed, lies there as `NAME#1`; listing objects hides it.

        Raises:
            StorageError: a folder cannot be listed.
        """
        if self._is_remote:
            return self.keys(prefix)
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

    @property
    def url(self) -> str:
        """Where the root is for programs that take keys as they are: `location`, but with nothing escaped."""
        if not self._is_remote:
            return self.location
        where = Location.parse(self.location)
        return f"{where.root}/{where.key}".rstrip("/")

    def as_filesystem(self) -> Any:
        """The store for programs that speak fsspec, such as DuckDB, by `url`; None for a folder.

        Raises:
            ImportError: fsspec is not there.
        """
        if not self._is_remote:
            return None
        from obstore.fsspec import FsspecStore

        scheme = Location.parse(self.location).scheme
        # Its class methods look for the protocol at the class; without it no pattern with a scheme matches anything.
        filesystem: Any = type("ObjectStoreFilesystem", (FsspecStore,), {"protocol": scheme})
        return filesystem(scheme, **settings(scheme), skip_instance_cache=True)

    def _list(self, prefix: str) -> Iterator[str]:
        for chunk in obstore.list(self._objects, prefix=prefix or None):
            yield from (meta["path"] for meta in chunk)

    def _sync(self, key: str) -> None:
        """Have the disk keep a file or folder."""
        descriptor = os.open(os.path.join(self.location, key), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _raise(error: OSError) -> None:
    raise error


def _reason(error: Exception) -> str:
    """The first line of an error, and what to do where that is plain; obstore adds a debug dump below it."""
    said = reason(error)
    is_full = any(f"os error {code}" in said or f"Errno {code}]" in said for code in (errno.ENOSPC, errno.EDQUOT))
    return f"{said}; make room there first" if is_full else said
